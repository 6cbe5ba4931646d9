"""Turning a run into reference outputs: say what would change, then write it.

The only writer of `reference_outputs/`. What it writes is sorted, one record a line, full precision, no
times: a second blessing of an unchanged run changes PROVENANCE.toml alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from pydantic import JsonValue

from gravbench import options
from gravbench.analysis.comparison import identity_differences, sample_problem
from gravbench.analysis.counters import summarise_counters
from gravbench.analysis.identity import is_identical
from gravbench.analysis.loaded import LoadedRun, RunData, run_data
from gravbench.arms import identity_base
from gravbench.errors import NotComparableError
from gravbench.gate.reference import (
    DATA_FILES,
    RUN_FILE,
    TOLERANCES_FILE,
    Reference,
    ReferenceRun,
    arm_folder,
    as_generation,
    as_prediction,
    file_sha,
)
from gravbench.options import DEFAULT_MODEL, options_of
from gravbench.records import Record
from gravbench.scorers.contract import means_of
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.schema import GenRecord, RunIdentity, ScoreRecord, record_bytes

COUNTED = (
    "samples",
    "tokens_out",
    "decode_tokens",
    "decode_forwards",
    "rounds",
    "draft_offered",
    "draft_accepted",
    "loops",
    "stopped_by_length",
    "tpf_all",
    "accepted_draft",
    "tau_round",
)
MAIN_PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "rapidfuzz")


class BlessChange(Record):
    """What blessing does to one strategy: `lines` in words; `new` when there was no reference before."""

    arm: str
    new: bool
    lines: tuple[str, ...]


def bless_changes(run: LoadedRun, reference: Reference | None) -> tuple[BlessChange, ...]:
    """Differences between what is vouched for now and this run, strategy by strategy."""
    changes = [_change(run, arm, reference) for arm in run.arms]
    left = sorted(set(reference.arms) - set(run.arms)) if reference else []
    return (
        *changes,
        *(
            BlessChange(arm=arm, new=False, lines=("not in this run: remove its folder, or run it too",))
            for arm in left
        ),
    )


def check_blessable(run: LoadedRun, *, allow_differing: bool = False) -> None:
    """A run vouches for something when all samples succeeded, its command can be said, and (unless allowed)
    every strategy wrote what ar wrote; `NotComparableError` (exit 3) otherwise."""
    if run.manifest.identity.shard is not None:
        raise NotComparableError(
            f"{run.name}: shard {run.manifest.identity.shard} of a plan",
            hint="Bless the whole run: gravbench merge SHARD... --out RUN",
        )
    failed = sorted({u.sample_id for u in run.units for r in u.records.values() if r.status != "ok"})
    if failed:
        raise NotComparableError(
            f"{run.name}: {len(failed)} samples failed, first {failed[0]}",
            hint="Bless a run in which every sample succeeded.",
        )
    _check_command(run)
    differing = [] if allow_differing else _differing(run)
    if differing:
        raise NotComparableError(
            f"{run.name}: not the text of ar: {'; '.join(differing)}",
            hint="Its own gate would fail at ar_identity: find the cause, or add --allow-differing.",
        )


def check_whole(run: LoadedRun, folder: Path) -> None:
    """A reference comes whole from one run: strategies that would stay behind are refused (exit 3)."""
    own = {arm_folder(arm) for arm in run.arms}
    left = sorted({path.parent.name for path in folder.glob(f"*/{RUN_FILE}")} - own)
    if left:
        raise NotComparableError(
            f"{folder}: has {', '.join(left)}, which {run.name} has not; a reference comes from one run",
            hint="Run these strategies too, or remove their folders first.",
        )


def _check_command(run: LoadedRun) -> None:
    """Runs on changed data cannot be asked for again."""
    data = run.manifest.protocol.get("data")
    if isinstance(data, dict) and data.get("drifted"):
        raise NotComparableError(
            f"{run.name}: was made on a changed copy of the data ({data.get('label')})",
            hint="Bless a run on the data the suite names.",
        )


def _differing(run: LoadedRun) -> list[str]:
    """`selfspec in 2 of 14 samples, first s-1`, a strategy each."""
    found = []
    for arm in run.arms:
        base = identity_base(arm, run.arms)
        if base is None:
            continue
        pairs = [(unit.records[base], unit.records[arm]) for unit in run.units]
        names = [own.sample_id for ar, own in pairs if not is_identical(ar, own)]
        if names:
            found.append(f"{arm} in {len(names)} of {len(pairs)} samples, first {names[0]}")
    return found


def write_reference(
    run: LoadedRun, folder: Path, *, quality: Mapping[str, Mapping[str, float]], provenance: str
) -> list[Path]:
    """Write every strategy of `run` below `folder`; returns the strategy folders.

    run.json goes last and carries the digests of the files beside it, so a write cut short is noticed.
    """
    written = []
    for arm in run.arms:
        target = folder / arm_folder(arm)
        make_folder(target, option="--to")
        records = run.records(arm)
        write_atomic(target / DATA_FILES[0], _lines([as_prediction(r) for r in records]), option="--to")
        scores = [score for own in run.unit_scores(arm) for score in sorted(own, key=lambda s: s.metric)]
        write_atomic(target / DATA_FILES[1], _lines(scores), option="--to")
        if not (target / TOLERANCES_FILE).exists():
            write_atomic(target / TOLERANCES_FILE, _empty_tolerances(run, arm).encode(), option="--to")
        write_atomic(target / "PROVENANCE.toml", provenance.encode(), option="--to")
        description = _run_record(run, arm, quality[arm], target)
        absent = {"data"} if description.data is None else None
        pretty = orjson.dumps(
            description.model_dump(mode="json", by_alias=True, exclude=absent),
            option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
        )
        write_atomic(target / RUN_FILE, pretty, option="--to")
        written.append(target)
    return written


def provenance_text(run: LoadedRun, *, reason: str, who: str, date: str) -> str:
    """PROVENANCE.toml: why, who, when, the command that makes the run again, and with what it was made."""
    environment = run.manifest.environment
    packages = environment.get("packages")
    git = environment.get("git")
    cpu = environment.get("cpu")
    data = run_data(run.manifest.protocol)
    fields: dict[str, JsonValue] = {
        "reason": reason,
        "who": who,
        "date": date,
        "command": command_of(run.manifest.identity, model=_model_name(run)),
        "data": None if data is None else data.label,
        "gravbench": environment.get("gravbench"),
        "commit": git.get("commit") if isinstance(git, dict) else None,
        "uncommitted_changes": git.get("dirty_diff_sha") is not None if isinstance(git, dict) else None,
        "python": environment.get("python"),
        "os": environment.get("os"),
        "cpu": cpu.get("model") if isinstance(cpu, dict) else None,
    }
    lines = [f"{key} = {_toml(value)}" for key, value in fields.items() if value is not None]
    if isinstance(packages, dict):
        lines += ["", "[packages]"]
        lines += [f"{name} = {_toml(packages[name])}" for name in MAIN_PACKAGES if name in packages]
    return "\n".join(lines) + "\n"


def command_of(identity: RunIdentity, *, model: str | None = None) -> str:
    """The `gravbench run` that asks the same question; folders of the machine it ran on are left out.

    `model` is the name of the checkpoint. Where it, or that of a layout, is not shipped, the name alone
    stands: the digest in run.json says which it was.
    """
    return options.command_of(options_of(identity, model=None if model == DEFAULT_MODEL else model))


def _model_name(run: LoadedRun) -> str | None:
    """The checkpoint's name; `None` for the toy, whose table is part of the backend unless it is named."""
    name = run.manifest.model.get("model")
    return None if name is None or run.manifest.identity.backend == name else str(name)


def _change(run: LoadedRun, arm: str, reference: Reference | None) -> BlessChange:
    stored = reference.arms.get(arm) if reference else None
    counters = _counted(run.records(arm))
    if stored is None:
        n, tokens = len(run.units), int(counters.get("tokens_out", 0))
        data = run_data(run.manifest.protocol)
        named = () if data is None else (f"data: {data.label}",)
        return BlessChange(arm=arm, new=True, lines=(f"{n} samples, {tokens} tokens", *named))
    lines = [
        f"{d.field}: {d.base} -> {d.own}"
        for d in identity_differences(stored.run.identity.document(), _identity(run).document())
    ]
    lines += _data_lines(stored.run.data, run_data(run.manifest.protocol))
    keys = {(unit.sample_id, unit.rep): unit.records[arm] for unit in run.units}
    samples = sample_problem(frozenset(k for k, _ in stored.predictions), frozenset(k for k, _ in keys))
    lines += [samples] if samples else []
    common = sorted(set(keys) & set(stored.predictions))
    changed = [k[0] for k in common if keys[k].token_ids != stored.predictions[k].token_ids]
    if changed:
        more = ", ..." if len(changed) > 5 else ""
        lines.append(
            f"tokens of {len(changed)} of {len(common)} samples change: {', '.join(changed[:5])}{more}"
        )
    before = _counted([as_generation(stored, key) for key in sorted(stored.predictions)])
    lines += [
        f"{name}: {before.get(name, 0):g} -> {counters.get(name, 0):g}"
        for name in COUNTED
        if before.get(name) != counters.get(name)
    ]
    lines += _score_lines(run, arm, stored.scores)
    return BlessChange(arm=arm, new=False, lines=tuple(lines) or ("no change",))


def _data_lines(before: RunData | None, own: RunData | None) -> list[str]:
    names = ["not stated" if data is None else data.label for data in (before, own)]
    return [] if before == own else [f"data: {names[0]} -> {names[1]}"]


def _score_lines(
    run: LoadedRun, arm: str, stored: Mapping[tuple[str, int], Sequence[ScoreRecord]]
) -> list[str]:
    own = _means(run.unit_scores(arm))
    before = _means(list(stored.values()))
    return [
        f"{metric}: {before.get(metric, float('nan')):.6f} -> {own.get(metric, float('nan')):.6f}"
        for metric in sorted({*own, *before})
        if own.get(metric) != before.get(metric)
    ]


def _means(scores: Sequence[Sequence[ScoreRecord]]) -> dict[str, float]:
    ordered = sorted((s for own in scores for s in own), key=lambda s: (s.sample_id, s.rep))
    return means_of(ordered)


def _identity(run: LoadedRun) -> RunIdentity:
    """The run's identity without the list of strategies: each folder is one."""
    return run.manifest.identity.model_copy(update={"strategies": ()})


def _run_record(run: LoadedRun, arm: str, quality: Mapping[str, float], target: Path) -> ReferenceRun:
    return ReferenceRun(
        suite=run.manifest.identity.suite,
        strategy=arm,
        n_samples=len(run.units),
        identity=_identity(run),
        model=run.manifest.model,
        data=run_data(run.manifest.protocol),
        quality=dict(quality),
        counters=_counted(run.records(arm)),
        files={name: file_sha(target / name) for name in DATA_FILES},
    )


def _counted(records: Sequence[GenRecord]) -> dict[str, float]:
    summary = summarise_counters(records)
    found = {name: getattr(summary, name) for name in COUNTED}
    return {name: value for name, value in found.items() if value is not None}


def _lines(records: Sequence[Record]) -> bytes:
    return b"".join(record_bytes(record) + b"\n" for record in records)


def _empty_tolerances(run: LoadedRun, arm: str) -> str:
    return (
        f"# What {arm} on {run.manifest.identity.suite} is allowed beyond the policy; "
        "same keys as gravbench/gate/default.toml.\n# Kept when the run is blessed again.\n"
    )


def _toml(value: JsonValue) -> str:
    """A TOML value: JSON's spelling fits strings, numbers and booleans, but for the DEL character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
