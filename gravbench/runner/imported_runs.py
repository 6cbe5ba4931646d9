"""Another program's answers -> an arm of a run folder, which is then scored, compared, gated and shown.

The folder is one of a run whose backend is `import`. A second import into it adds an arm; whatever a program
did not tell stays unknown, and `protocol.imports` says so for each arm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from gravbench.analysis.loaded import IMPORTED
from gravbench.analysis.summary import Summary
from gravbench.errors import UsageError
from gravbench.pages.assembly import ASSEMBLER
from gravbench.protocols import BackendInfo
from gravbench.records import Piece, Task, Times, Trace
from gravbench.runner.folder import run_name
from gravbench.runner.foreign_predictions import ForeignAnswer, ForeignPredictions
from gravbench.runner.run import suite_fields, write_results
from gravbench.runner.samples import data_document
from gravbench.scorers.contract import Sample
from gravbench.scorers.scoring import open_scorers
from gravbench.store.files import RunLock, make_folder, read_records, refuse_file, write_atomic
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import (
    GenError,
    GenRecord,
    Manifest,
    PlanEntry,
    RunIdentity,
    State,
    record_bytes,
    sha256_of,
    sha256_text,
)
from gravbench.suites.data import OpenedSuite
from gravbench.suites.manifest import Suite, is_suite

ARM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NO_PROMPT = sha256_text("")
NOT_TOLD = {
    "token_ids": "the predictions have text alone; equality is of text",
    "counters": "the predictions have no counters: rounds, forwards and acceptance are unknown",
    "stop_reason": "the predictions do not say why they ended: answers cut at a budget are not counted",
    "times": "not taken side by side with another arm's, so no speedup is formed of them",
}
"""What an import may lack, and what follows."""


@dataclass(frozen=True, kw_only=True)
class Imported:
    """An arm that was brought in."""

    run_dir: Path
    arm: str
    kind: str
    missing: tuple[str, ...]
    absent: Mapping[str, str]
    summary: Summary


def import_arm(
    suite: Suite,
    opened: OpenedSuite,
    found: ForeignPredictions,
    *,
    arm: str,
    out: Path,
    source: str,
    argv: tuple[str, ...],
    environment: dict[str, JsonValue],
    now: datetime,
) -> Imported:
    """Add `arm` to the run in `out`, made when it is not there, and score all arms.

    A sample without a prediction fails and scores worst. `UsageError` where `out` holds a run that decoded,
    one of other samples, or this arm already with other answers.
    """
    _check_arm(arm)
    refuse_file(out)
    make_folder(out)
    run = RunDirectory(out)
    if run.holds_foreign_files():
        raise UsageError(f"{out}: not empty, and holds no run", hint="Choose a new folder with --out.")
    samples = opened.samples
    digest = sha256_of(
        {
            f"{name}#{rep}" if rep else name: answer.model_dump(mode="json")
            for (name, rep), answer in sorted(found.answers.items())
        }
    )
    note: dict[str, JsonValue] = {
        "source": source,
        "kind": found.kind,
        "digest": digest,
        "missing": len(found.missing),
        "unused": len(found.unused),
        "absent": dict(_absent(found)),
    }
    with RunLock(out):
        before = run.manifest() if run.exists() else None
        manifest = _manifest(
            before,
            suite,
            opened,
            arm=arm,
            note=note,
            repeats=found.repeats,
            argv=argv,
            environment=environment,
            now=now,
            run=run,
        )
        by_id = {sample.sample_id: sample for sample in samples}
        records = [
            _record(
                manifest,
                entry,
                by_id[entry.sample_id],
                found.answers.get((entry.sample_id, entry.rep)),
                suite=suite,
                source=source,
            )
            for entry in manifest.plan
            if entry.arm == arm
        ]
        make_folder(out / "gen")
        write_atomic(_shard(out / "gen", arm), b"".join(record_bytes(r) + b"\n" for r in records))
        run.create(manifest)  # after the records: a reader never finds an arm that has none
        pairs = finished_pairs(run, manifest)
        summary = write_results(
            run, manifest, pairs, samples, scorers=open_scorers(suite.scorers), reuse=before is not None
        )
        run.write_state(_ended(manifest, failed=summary.failed_samples, now=now))
    return Imported(
        run_dir=out,
        arm=arm,
        kind=found.kind,
        missing=found.missing,
        absent=_absent(found),
        summary=summary,
    )


def _shard(folder: Path, arm: str) -> Path:
    """The file that holds an arm's records, or would be the next one."""
    shards = sorted(folder.glob("*.jsonl"))
    own = (path for path in shards if any(r.arm == arm for r in read_records(path, GenRecord)))
    return next(own, folder / f"{len(shards):03}.jsonl")


def _check_arm(arm: str) -> None:
    if not ARM.fullmatch(arm):
        raise UsageError(
            f"--arm {arm!r}, expected letters, digits and . _ -, at most 64", hint="For example --arm mineru."
        )


def _absent(found: ForeignPredictions) -> dict[str, str]:
    """What no answer tells, and what follows; times are named whether or not there are any."""
    answers = [answer for answer in found.answers.values() if not answer.error]
    told = {
        "token_ids": any(answer.token_ids is not None for answer in answers),
        "counters": any(answer.counters is not None for answer in answers),
        "stop_reason": any(answer.stop_reason is not None for answer in answers),
        "times": False,
    }
    return {name: why for name, why in NOT_TOLD.items() if not told[name]}


def _manifest(
    before: Manifest | None,
    suite: Suite,
    opened: OpenedSuite,
    *,
    arm: str,
    note: dict[str, JsonValue],
    repeats: int,
    argv: tuple[str, ...],
    environment: dict[str, JsonValue],
    now: datetime,
    run: RunDirectory,
) -> Manifest:
    imports: dict[str, JsonValue] = {}
    if before is not None:
        stored = before.protocol.get("imports")
        if before.identity.backend != IMPORTED or not isinstance(stored, dict):
            raise UsageError(
                f"{run.path}: holds a run that was decoded, not an import", hint="Choose a new --out."
            )
        imports = {name: stored[name] for name in before.arms}  # as they came: JSON on disk is sorted
        own = imports.get(arm)
        if isinstance(own, dict) and own.get("digest") != note["digest"]:
            raise UsageError(
                f"{run.path}: has an arm {arm!r} with other answers", hint="Choose another --arm or --out."
            )
    imports[arm] = note
    samples = opened.samples
    identity = _identity(suite, samples, imports, repeats=repeats)
    if before is not None:
        same = before.identity.model_copy(
            update={"strategies": identity.strategies, "model_digest": identity.model_digest}
        )
        difference = identity.differing_field(same)
        if difference is not None:
            raise UsageError(
                f"{run.path}: holds imports of another question; {difference}",
                hint="Import with the suite and the samples of the first import, or choose a new --out.",
            )
    identity_sha = sha256_of(identity.document())
    return Manifest(
        run_id=before.run_id
        if before is not None
        else run_name(suite.name, model_digest=identity.model_digest, identity_sha=identity_sha, now=now),
        created_utc=now.isoformat(timespec="seconds"),
        argv=argv,
        identity=identity,
        identity_sha=identity_sha,
        plan=tuple(
            PlanEntry(slot=slot, sample_id=sample_id, arm=name, rep=rep)
            for slot, (name, rep, sample_id) in enumerate(
                (name, rep, sample.sample_id)
                for name in imports
                for rep in range(repeats)
                for sample in samples
            )
        ),
        model=_info(identity).model_dump(mode="json"),
        environment=environment,
        protocol={
            "suite_source": suite.name if is_suite(suite.name) else suite.manifest_path,
            "interleave": "imported: the arms were not decoded side by side",
            "reps": repeats,
            "imports": imports,
            "data": data_document(opened),
        },
    )


def _identity(
    suite: Suite, samples: Sequence[Sample], imports: Mapping[str, JsonValue], *, repeats: int
) -> RunIdentity:
    pages = any(sample.task == "page" for sample in samples)
    return RunIdentity(
        **suite_fields(suite, samples),
        strategies=tuple(imports),
        repeats=repeats,
        seed=0,
        backend=IMPORTED,
        engine="unknown",
        model_digest=sha256_of({name: _digest(note) for name, note in imports.items()}),
        device="unknown",
        dtype="unknown",
        threads=1,
        assembler=f"{ASSEMBLER} not used" if pages else None,
    )


def _digest(note: JsonValue) -> JsonValue:
    return note.get("digest") if isinstance(note, dict) else None


def _info(identity: RunIdentity) -> BackendInfo:
    return BackendInfo(
        name=IMPORTED,
        model=", ".join(identity.strategies),
        model_digest=identity.model_digest,
        engine=identity.engine,
        device=identity.device,
        dtype=identity.dtype,
        threads=identity.threads,
        eos_token_ids=(),
        mask_token_id=None,
        block_size=None,
    )


def _record(
    manifest: Manifest,
    entry: PlanEntry,
    sample: Sample,
    answer: ForeignAnswer | None,
    *,
    suite: Suite,
    source: str,
) -> GenRecord:
    error = None
    if answer is None:
        error = GenError(kind="MissingPrediction", message=f"no prediction in {source}", stage="import")
    elif answer.error:
        error = GenError(kind="FailedPrediction", message=answer.error, stage="import")
    told = answer if error is None else None
    text = told.text if told is not None else ""
    budgets = suite.max_new_tokens
    return GenRecord(
        run_id=manifest.run_id,
        session_id=entry.arm,
        sample_id=sample.sample_id,
        arm=entry.arm,
        rep=entry.rep,
        slot=entry.slot,
        attempt=1,
        task=sample.task,
        suite_sha=manifest.identity.suite_sha,
        input_sha=sample.image_sha256,
        prompt_sha=NO_PROMPT,
        max_new_tokens=max(budgets.values()) if sample.task == "page" else budgets[sample.task],
        status="ok" if error is None else "error",
        error=error,
        stop_reason=told.stop_reason if told is not None else "error",
        loop_flag=told is not None and told.loop_flag is True,
        text=text,
        text_sha=sha256_text(text),
        pieces=() if told is None else _pieces(sample, told),
        imported=True,
        timing_source="import",
        submit_ns=0,
        done_ns=0,
    )


def _pieces(sample: Sample, answer: ForeignAnswer) -> tuple[Piece, ...]:
    """The answer as one piece, where more than its text was told."""
    if answer.token_ids is None and answer.counters is None:
        return ()
    task: Task = "text" if sample.task == "page" else sample.task
    trace = None
    if answer.counters is not None:
        trace = Trace(counters=answer.counters, rounds=None, times=answer.times or Times())
    return (
        Piece(
            label=sample.task,
            task=task,
            text=answer.text,
            token_ids=answer.token_ids or (),
            stop_reason=answer.stop_reason,
            loop_flag=answer.loop_flag is True,
            trace=trace,
        ),
    )


def _ended(manifest: Manifest, *, failed: int, now: datetime) -> State:
    total = len(manifest.plan)
    return State(
        phase="complete",
        done=total,
        total=total,
        failed=failed,
        sessions=len(manifest.arms),
        heartbeat_unix=now.timestamp(),
    )
