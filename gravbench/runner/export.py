"""A finished run, given back: as other tools read it, or without its clocks, in bytes to compare.

What `gravbench import` takes of such lines gives the same scores. The clockless form holds predictions, token
ids, counters and scores, and no time, session, attempt, slot, host or run id: a run that was killed and
resumed exports the same bytes as one that never was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from gravbench.errors import NotComparableError, UsageError
from gravbench.store.files import make_folder, refuse_file, write_atomic
from gravbench.store.rundir import PairKey, RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord, canonical_json
from gravbench.suites.olmocr_pages import page_path

Writer = Callable[[RunDirectory, Path], list[Path]]


def answer_lines(run: RunDirectory) -> list[dict[str, Any]]:
    """One object an answer, sorted by sample, repeat and arm; what was not told is left out."""
    manifest = run.manifest()
    pairs = finished_pairs(run, manifest)
    scores: dict[tuple[str, int, str], list[ScoreRecord]] = {}
    for score in run.scores(manifest.identity.scorer):
        scores.setdefault((score.sample_id, score.rep, score.arm), []).append(score)
    return [
        _line(record, scores.get((sample_id, rep, arm), ()))
        for (sample_id, rep), arms in sorted(pairs.items())
        for arm, record in sorted(arms.items())
    ]


def _line(record: GenRecord, scores: Sequence[ScoreRecord]) -> dict[str, Any]:
    counters, times = record.counters, record.times
    line = {
        "sample_id": record.sample_id,
        "arm": record.arm,
        "rep": record.rep,
        "task": record.task,
        "text": record.text,
        "error": f"{record.error.kind}: {record.error.message}" if record.error else None,
        "stop_reason": record.stop_reason,
        "loop_flag": record.loop_flag,
        "token_ids": list(record.token_ids) if record.tells_tokens else None,
        "counters": counters.model_dump(mode="json") if counters is not None else None,
        "times": times.model_dump(mode="json", exclude_none=True) if times is not None else None,
        "scores": {score.metric: score.value for score in scores},
    }
    return {name: value for name, value in line.items() if value is not None}


def write_lines(run: RunDirectory, out: Path) -> list[Path]:
    """`out`, JSON Lines."""
    _file(out, "answers.jsonl")
    write_atomic(out, b"".join(canonical_json(line) + b"\n" for line in answer_lines(run)))
    return [out]


def write_parquet(run: RunDirectory, out: Path) -> list[Path]:
    """`out`, a Parquet table: one column a counter, a time and a score."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as fault:
        raise UsageError(
            "--format parquet needs pyarrow, which is not installed",
            hint="pip install 'gravbench[data]', or take --format jsonl.",
        ) from fault
    _file(out, "answers.parquet")
    rows = [_flat(line) for line in answer_lines(run)]
    columns = dict.fromkeys(name for row in rows for name in row)
    filled = [{name: row.get(name) for name in columns} for row in rows]
    temporary = out.with_name(f".{out.name[:40]}.tmp")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(filled), temporary)
    temporary.replace(out)
    return [out]


def _flat(line: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in line.items():
        if isinstance(value, dict):
            shown = {key: inner for key, inner in value.items() if key != "own"}
            flat |= {f"{name}.{key}": inner for key, inner in shown.items()}
        else:
            flat[name] = value
    return flat


def write_markdown_folders(run: RunDirectory, out: Path) -> list[Path]:
    """`out/ARM/PAGE.md`, as `gravbench omnidoc --predictions` and the official program read them."""
    return _folders(run, out, lambda record: f"{record.sample_id}.md")


def write_olmocr_folders(run: RunDirectory, out: Path) -> list[Path]:
    """`out/ARM/PAGE_pg1_repeatN.md`, as olmOCR-Bench reads them; pages of its own suites in their folders.

    A page id that ends in `_pgN` names its page; any other is the first page of its document. A page that
    failed has no file: an empty one would pass tests of absence.
    """
    tested = run.manifest().identity.scorer.startswith("olmocr-bench")
    return _folders(run, out, lambda record: _olmocr_name(record, tested=tested))


def _olmocr_name(record: GenRecord, *, tested: bool) -> str | None:
    if record.status != "ok":
        return None
    stem, _, page = record.sample_id.rpartition("_pg")
    named = record.sample_id if stem and page.isdigit() else f"{record.sample_id}_pg1"
    return f"{page_path(named) if tested else named}_repeat{record.rep + 1}.md"


def _folders(run: RunDirectory, out: Path, name_of: Callable[[GenRecord], str | None]) -> list[Path]:
    manifest = run.manifest()
    pages = [
        record
        for arms in finished_pairs(run, manifest).values()
        for record in arms.values()
        if record.task == "page"
    ]
    if not pages:
        raise NotComparableError(
            f"{run.path}: no pages in this run, and Markdown folders hold pages",
            hint="Crops go with --format jsonl or parquet.",
        )
    refuse_file(out)
    if out.is_dir() and any(out.iterdir()):
        raise UsageError(f"--out {out}: not empty", hint="Choose a new folder.")
    for record in pages:
        folder = out / record.arm.replace("/", "-")
        name = name_of(record)
        if name is None:
            continue
        place = folder / name
        make_folder(place.parent)
        place.write_text(record.text, encoding="utf-8", newline="\n")
    return [out / arm.replace("/", "-") for arm in manifest.arms]


def _file(out: Path, example: str) -> None:
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder, expected a file", hint=f"--out {out / example}")
    make_folder(out.parent)


FORMATS: dict[str, Writer] = {
    "jsonl": write_lines,
    "parquet": write_parquet,
    "omnidocbench": write_markdown_folders,
    "olmocr": write_olmocr_folders,
}


CLOCKLESS_SCHEMA = "gravbench.clockless/2"

_HEADER_FIELDS = (
    "suite",
    "suite_version",
    "suite_sha",
    "n_samples",
    "limit",
    "strategies",
    "seed",
    "model_digest",
    "dtype",
    "scorer",
    "assembler",
    "layout",
)


def clockless_lines(
    manifest: Manifest,
    pairs: Mapping[PairKey, Mapping[str, GenRecord]],
    scores: Iterable[ScoreRecord],
) -> list[bytes]:
    """A header line, then one line per (sample, rep, arm), sorted; the final newline belongs to each line."""
    by_key: dict[tuple[str, int, str], list[ScoreRecord]] = {}
    for score in scores:
        by_key.setdefault((score.sample_id, score.rep, score.arm), []).append(score)
    header: dict[str, JsonValue] = {"schema": CLOCKLESS_SCHEMA}
    identity = manifest.identity.model_dump(mode="json")
    header |= {name: identity[name] for name in _HEADER_FIELDS if identity[name] is not None}
    lines = [canonical_json(header) + b"\n"]
    for sample_id, rep in sorted(pairs):
        for arm, record in sorted(pairs[sample_id, rep].items()):
            lines.append(
                canonical_json(_clockless_line(record, by_key.get((sample_id, rep, arm), []))) + b"\n"
            )
    return lines


def _clockless_line(record: GenRecord, scores: Sequence[ScoreRecord]) -> dict[str, JsonValue]:
    return {
        "sample_id": record.sample_id,
        "rep": record.rep,
        "arm": record.arm,
        "task": record.task,
        "input_sha": record.input_sha,
        "status": record.status,
        "error": record.error.model_dump(mode="json") if record.error else None,
        "stop_reason": record.stop_reason,
        "loop_flag": record.loop_flag,
        "text": record.text,
        "pieces": [piece.model_dump(mode="json", exclude={"trace": {"times"}}) for piece in record.pieces],
        "assembly": record.assembly.model_dump(mode="json", exclude={"stages"}) if record.assembly else None,
        "scores": [
            {
                "metric": score.metric,
                "signature": score.signature,
                "value": score.value,
                "counts": dict(score.counts),
                "failed": score.failed,
            }
            for score in sorted(scores, key=lambda s: s.metric)
        ],
    }
