"""pandas frames of a finished run, for questions that no table of ours answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gravbench.analysis.loaded import load_run
from gravbench.analysis.pieces import pieces_of
from gravbench.records import Counters

if TYPE_CHECKING:
    from gravbench.store.schema import GenRecord

KEYS = ["sample_id", "rep", "arm"]


@dataclass(frozen=True, slots=True)
class Frames:
    """One run. All three have the columns `sample_id`, `rep` and `arm`, on which they merge.

    `answers`: a row an answer, with task, status, text, every counter and every time (ns; absent: NaN).
    `scores`: a row a metric of an answer, with value (NaN: unscored, `reason` says why).
    `rounds`: a row a round of an answer, in order, with the piece (region of a page) it belongs to.
    """

    answers: pd.DataFrame
    scores: pd.DataFrame
    rounds: pd.DataFrame


def frames(run_dir: str | Path) -> Frames:
    """The frames of a finished, scored run; `NotComparableError` while pairs or scores are missing."""
    run = load_run(Path(run_dir))
    records = [record for unit in run.units for record in unit.records.values()]
    scores = [score.model_dump(exclude={"counts", "notes"}) for own in run.scores.values() for score in own]
    return Frames(
        answers=_frame([_answer(record) for record in records]),
        scores=_frame(scores),
        rounds=_frame([row for record in records for row in _rounds(record)]),
    )


def _answer(record: GenRecord) -> dict[str, Any]:
    trace = record.trace
    return {
        **{
            key: getattr(record, key) for key in (*KEYS, "task", "slot", "status", "stop_reason", "loop_flag")
        },
        "text": record.text,
        "error": None if record.error is None else f"{record.error.kind}: {record.error.message}",
        **({} if trace is None else {**_counts(trace.counters), **dict(trace.times)}),
    }


def _counts(counters: Counters) -> dict[str, Any]:
    """Counters by name; `own_...` are those that the strategy alone keeps."""
    shared = {name: value for name, value in counters if name != "own"}
    return {**shared, **{f"own_{name}": value for name, value in counters.own.items()}}


def _rounds(record: GenRecord) -> list[dict[str, Any]]:
    """Empty for a failed answer, and where an engine hides its rounds."""
    rows: list[dict[str, Any]] = []
    for piece in pieces_of(record) or ():
        if piece.rounds is None:
            continue
        columns = {name: column for name, column in piece.rounds if isinstance(column, tuple)}
        columns |= {f"fwd_{kind}": column for kind, column in piece.rounds.forwards.items()}
        for number, values in enumerate(zip(*columns.values(), strict=True)):
            keys = {key: getattr(record, key) for key in KEYS}
            rows.append(
                {**keys, "piece": piece.region_id, "round": number, **dict(zip(columns, values, strict=True))}
            )
    return rows


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows)
    return frame if frame.empty else frame.sort_values(KEYS, kind="stable", ignore_index=True)
