"""Shards of one plan, run anywhere, as the one run that they are parts of.

Scores and counters are those of a run in one process. Times are kept where all shards ran on one machine; of
several machines they stay in the shards and are left out of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from pydantic import JsonValue

from gravbench.errors import DataError, NotComparableError, UsageError
from gravbench.records import untimed
from gravbench.runner.folder import claim_named, run_name
from gravbench.runner.plan import parse_shard
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.rundir import PairKey, RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord, State, record_bytes, sha256_of

Pairs = dict[PairKey, dict[str, GenRecord]]

UNTIMED = "shards ran on different machines, so times are not put together: each shard's own summary has them"


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A finished shard and what it says of itself."""

    path: Path
    manifest: Manifest
    pairs: Pairs
    scores: tuple[ScoreRecord, ...]

    @property
    def name(self) -> str:
        return str(self.manifest.identity.shard)

    @property
    def machine(self) -> str:
        """Hash of what must be equal for times to stand together; an unknown host or GPU is no other's."""
        environment = self.manifest.environment
        words = self.manifest.argv
        servers = [word for flag, word in pairwise(words) if flag == "--url"]
        known = self.manifest.identity.device == "cpu" or servers  # no run says which model a GPU is
        host = environment.get("host_sha") if known else None
        return sha256_of([host or str(self.path), environment.get("cpu"), self.manifest.model, servers])


def read_shards(paths: Sequence[Path]) -> tuple[Shard, ...]:
    """Finished shards in their order, checked to be parts of one plan, each once, none missing.

    `UsageError` where a folder is no shard, is given twice or one is missing; `NotComparableError` where a
    shard is of another plan or not finished; `DataError` where a record is not the shard's own.
    """
    runs = [RunDirectory(path) for path in paths]
    manifests = [run.manifest() for run in runs]
    _check_parts(paths, manifests)
    shards = [_read(run, manifest) for run, manifest in zip(runs, manifests, strict=True)]
    shards.sort(key=lambda shard: parse_shard(shard.name))
    slots = sorted(entry.slot for manifest in manifests for entry in manifest.plan)
    if slots != list(range(len(slots))):
        raise NotComparableError(
            "the plans of the shards do not add up to one plan",
            hint="Run all shards with one version of gravbench and the same options.",
        )
    return tuple(shards)


def _check_parts(paths: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    whole = manifests[0].identity.model_copy(update={"shard": None})
    seen: dict[str, Path] = {}
    for path, manifest in zip(paths, manifests, strict=True):
        shard = manifest.identity.shard
        if shard is None:
            raise UsageError(
                f"{path}: no shard, but a whole run", hint="Shards come from: gravbench run --shard 1/4"
            )
        other = manifest.identity.model_copy(update={"shard": None}).differing_field(whole)
        if other is not None:
            difference = other.replace("in the folder", f"in {paths[0]}")
            raise NotComparableError(
                f"{path}: a shard of another plan than {paths[0]}; {difference}",
                hint="Run all shards with the same options, of one suite and one model.",
            )
        if shard in seen:
            raise UsageError(
                f"shard {shard} is given twice: {seen[shard]} and {path}", hint="Name each once."
            )
        seen[shard] = path
    counts = sorted({parse_shard(shard)[1] for shard in seen})
    if len(counts) > 1:
        raise NotComparableError(
            f"the plan was split in {' and in '.join(map(str, counts))} shards", hint="Split it in one way."
        )
    missing = [name for n in range(counts[0]) if (name := f"{n + 1}/{counts[0]}") not in seen]
    if missing:
        raise UsageError(
            f"{len(missing)} of {counts[0]} shards missing: {', '.join(missing)}",
            hint=f"Run it as {next(iter(seen))} was, then name its folder too: {manifests[0].command}",
        )


def _read(run: RunDirectory, manifest: Manifest) -> Shard:
    pairs = finished_pairs(run, manifest)
    for arms in pairs.values():
        for record in arms.values():
            if (record.run_id, record.suite_sha) != (manifest.run_id, manifest.identity.suite_sha):
                raise DataError(
                    f"{run.path}: the answer to {record.sample_id!r} is of another run, {record.run_id}",
                    hint="Files of two runs were mixed; run this shard again with --fresh.",
                )
    scores = tuple(run.scores(manifest.identity.scorer))
    return Shard(path=run.path, manifest=manifest, pairs=pairs, scores=scores)


def merge_shards(shards: Sequence[Shard], out: Path, *, now: datetime) -> tuple[RunDirectory, Pairs]:
    """Write manifest, records and known scores of the whole run into `out`; repeating it gives the same run.

    `UsageError` where `out` holds something else.
    """
    manifest = _manifest(shards, out, now=now)
    timed = "untimed" not in manifest.protocol
    with claim_named(out, fresh=False) as (run, _):
        if run.exists():
            earlier = run.manifest()
            if earlier.identity_sha != manifest.identity_sha or earlier.protocol.get("shards") is None:
                raise UsageError(f"{out}: holds another run", hint="Choose a new folder with --out.")
            manifest = manifest.model_copy(
                update={"run_id": earlier.run_id, "created_utc": earlier.created_utc}
            )
        run.create(manifest)
        pairs = {
            key: {arm: _record(record, manifest.run_id, timed=timed) for arm, record in arms.items()}
            for shard in shards
            for key, arms in shard.pairs.items()
        }
        records = sorted((r for arms in pairs.values() for r in arms.values()), key=lambda r: r.slot)
        make_folder(run.path / "gen")
        write_atomic(run.path / "gen" / "000.jsonl", b"".join(record_bytes(r) + b"\n" for r in records))
        run.write_scores(manifest.identity.scorer, [score for shard in shards for score in shard.scores])
    return run, pairs


def finish_merge(
    run: RunDirectory, pairs: Mapping[PairKey, Mapping[str, GenRecord]], *, now: datetime
) -> None:
    """Say in `state.json` that the summary is written."""
    records = [record for arms in pairs.values() for record in arms.values()]
    failed = sum(record.status != "ok" for record in records)
    run.write_state(
        State(
            phase="complete",
            done=len(records),
            total=len(records),
            failed=failed,
            sessions=len({record.session_id for record in records}),
            heartbeat_unix=now.timestamp(),
        )
    )


def _record(record: GenRecord, run_id: str, *, timed: bool) -> GenRecord:
    if timed:
        return record.model_copy(update={"run_id": run_id})
    assembly = record.assembly and record.assembly.model_copy(update={"stages": None})
    pieces = tuple(map(untimed, record.pieces))
    changes = {"run_id": run_id, "pieces": pieces, "assembly": assembly, "peak_memory": None}
    return GenRecord.model_validate({**dict(record), **changes})


def _manifest(shards: Sequence[Shard], out: Path, *, now: datetime) -> Manifest:
    first = shards[0].manifest
    identity = first.identity.model_copy(update={"shard": None})
    identity_sha = sha256_of(identity.document())
    protocol: dict[str, JsonValue] = {**first.protocol, "shards": len(shards)}
    if len({shard.machine for shard in shards}) > 1:
        protocol = {**protocol, "untimed": UNTIMED, "peak_memory": "not measured: several machines"}
        protocol.pop("served", None)
    plan = sorted((entry for shard in shards for entry in shard.manifest.plan), key=lambda e: e.slot)
    named = [str(shard.path) for shard in shards]
    digests = {"model_digest": identity.model_digest, "identity_sha": identity_sha}
    return Manifest(
        run_id=run_name(identity.suite, **digests, now=now),
        created_utc=now.isoformat(timespec="seconds"),
        argv=("gravbench", "merge", *named, "--out", str(out)),
        identity=identity,
        identity_sha=identity_sha,
        plan=tuple(plan),
        model=first.model,
        environment=_environment(shards),
        protocol=protocol,
    )


def _environment(shards: Sequence[Shard]) -> dict[str, JsonValue]:
    """What all shards agree on, and under `shards` the rest of each."""
    found = [shard.manifest.environment for shard in shards]
    common = {k: v for k, v in found[0].items() if all(k in one and one[k] == v for one in found)}
    own: dict[str, JsonValue] = {
        shard.name: {k: v for k, v in one.items() if k not in common}
        for shard, one in zip(shards, found, strict=True)
    }
    return common if all(len(one) == len(common) for one in found) else {**common, "shards": own}
