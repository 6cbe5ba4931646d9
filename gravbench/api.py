"""What `import gravbench` offers: the verbs of the command line as functions that return what they found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gravbench.analysis.comparison import Comparison, compare_one, compare_runs
from gravbench.analysis.loaded import load_run
from gravbench.analysis.results import are_results, load_results
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.analysis.summary import Summary
from gravbench.cli import report_command, run_command
from gravbench.cli.run_loading import load_with_facts
from gravbench.errors import UsageError
from gravbench.options import RunOptions
from gravbench.records import Counters
from gravbench.runner.run import Outcome

if TYPE_CHECKING:
    import pandas as pd

    from gravbench.store.schema import GenRecord

Folder = str | Path


def run(suite: str, *, quiet: bool = True, **options: Any) -> Outcome:
    """Run (or continue) `suite` with the options of `gravbench run` by the names of `RunOptions`.

    `UsageError` for an option that does not exist or has no such value.
    """
    try:
        asked = RunOptions(suite=suite, **options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"run: {field}: {first['msg']}", hint=f"options: {', '.join(RunOptions.model_fields)}"
        ) from error
    return run_command.run_plan(asked, quiet=quiet)


def score(run_dir: Folder, *, suite: str | None = None, data: Folder | None = None) -> Summary:
    """Score a finished run again from its records and rewrite its summary; no model is touched."""
    return run_command.score_again(Path(run_dir), suite=suite, data=None if data is None else Path(data))


def compare(
    run_dir: Folder,
    other: Folder | None = None,
    *,
    arms: tuple[str, str] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
    force: bool = False,
) -> Comparison:
    """One run against its own `ar` arm, or `other` against `run_dir`; `arms` pairs a strategy of each.

    Two results of `gravbench omnidoc` are the arms of one run; the first is what the second is held against.

    `NotComparableError` for runs that do not answer the same question, unless `force`.
    """
    options = AnalysisOptions(seed=seed, resamples=resamples)
    paths = [Path(run_dir)] if other is None else [Path(run_dir), Path(other)]
    if are_results(paths):
        found = load_results(paths, force=force)
        return compare_one(found.run, options).model_copy(update={"not_comparable": found.problems})
    base = load_with_facts(Path(run_dir))
    if other is None:
        return compare_one(base, options)
    pairs = None if arms is None else [arms]
    return compare_runs(base, load_with_facts(Path(other)), options, arms=pairs, force=force)


def report(
    run_dirs: Sequence[Folder],
    out: Folder,
    *,
    title: str | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Path:
    """Write the page of one or several runs to the file `out`; returns its path."""
    report_command.write_report(
        tuple(map(Path, run_dirs)), out=Path(out), title=title, resamples=resamples, seed=seed
    )
    return Path(out)


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
    return {
        **{
            key: getattr(record, key) for key in (*KEYS, "task", "slot", "status", "stop_reason", "loop_flag")
        },
        "text": record.text,
        "error": None if record.error is None else f"{record.error.kind}: {record.error.message}",
        **({} if record.counters is None else _counts(record.counters)),
        **dict(record.times or ()),
    }


def _counts(counters: Counters) -> dict[str, Any]:
    """Counters by name; `own_...` are those that the strategy alone keeps."""
    shared = {name: value for name, value in counters if name != "own"}
    return {**shared, **{f"own_{name}": value for name, value in counters.own.items()}}


def _rounds(record: GenRecord) -> list[dict[str, Any]]:
    """Empty for a failed answer, and where an engine hides its rounds."""
    rows: list[dict[str, Any]] = []
    for piece, trace in record.answers:
        if trace.rounds is None:
            continue
        columns = {name: column for name, column in trace.rounds if isinstance(column, tuple)}
        columns |= {f"fwd_{kind}": column for kind, column in trace.rounds.forwards.items()}
        for number, values in enumerate(zip(*columns.values(), strict=True)):
            keys = {key: getattr(record, key) for key in KEYS}
            rows.append(
                {**keys, "piece": piece.region_id, "round": number, **dict(zip(columns, values, strict=True))}
            )
    return rows


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    return frame if frame.empty else frame.sort_values(KEYS, kind="stable", ignore_index=True)
