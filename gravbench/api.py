"""What `import gravbench` offers: the verbs of the command line as functions that return what they found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.analysis.comparison import Comparison, compare_one, compare_runs
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.analysis.summary import Summary
from gravbench.cli import report_command, run_command
from gravbench.cli.run_loading import load_with_facts
from gravbench.errors import UsageError
from gravbench.options import RunOptions
from gravbench.runner.run import Outcome

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

    `NotComparableError` for runs that do not answer the same question, unless `force`.
    """
    options = AnalysisOptions(seed=seed, resamples=resamples)
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
