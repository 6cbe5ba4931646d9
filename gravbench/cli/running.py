"""What `run` and `sweep` do alike: open the data, run, and say what too many failures mean."""

from __future__ import annotations

import os

from gravbench.cli.entry import report
from gravbench.cli.progress import make_progress
from gravbench.errors import NotComparableError
from gravbench.runner.engine import open_engine
from gravbench.runner.options import RunOptions
from gravbench.runner.path import Outcome, run
from gravbench.runner.suite_data import open_suite_data
from gravbench.suites.manifest import load_suite


def run_plan(options: RunOptions, *, quiet: bool) -> Outcome:
    """Load the suite and its data, then run or continue the plan; progress goes to stderr."""
    suite = load_suite(options.suite)
    progress = make_progress(quiet=quiet)
    opened = open_suite_data(options, suite, note=progress.note)
    return run(
        options,
        suite,
        opened.samples,
        open_backend=open_engine,
        progress=progress,
        environ=os.environ,
        opened=opened,
    )


def exit_code(outcome: Outcome, options: RunOptions) -> int:
    """0, or 3 with its error line when more samples failed than --max-errors allows."""
    if not outcome.too_many_errors:
        return 0
    first = next(iter((outcome.summary.failures or {}).items()), None)
    named = f" The first: {': '.join(first)}" if first else ""
    report(
        f"{outcome.summary.failed_samples} of {outcome.summary.n_samples} samples failed, "
        f"more than --max-errors {options.max_errors} allows",
        f"Results are in {outcome.run_dir}; `error` in gen/*.jsonl says why each one failed.{named}",
    )
    return NotComparableError.exit_code
