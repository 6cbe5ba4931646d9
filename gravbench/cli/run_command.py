"""`gravbench run`."""

from __future__ import annotations

import os
from pathlib import Path

from gravbench.analysis.summary import summary_json
from gravbench.cli.entry import report
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.progress import make_progress
from gravbench.cli.summary_table import summary_parts
from gravbench.errors import NotComparableError
from gravbench.runner.engine import open_engine
from gravbench.runner.options import RunOptions, check_strategies, parse_error_limit
from gravbench.runner.path import run
from gravbench.suites.manifest import load_samples, load_suite


def run_suite(
    *,
    suite: str,
    strategies: tuple[str, ...],
    model: str | None,
    backend: str,
    device: str,
    dtype: str,
    out: Path | None,
    limit: int | None,
    seed: int,
    threads: int,
    max_errors: str,
    as_json: bool,
    quiet: bool,
    fresh: bool,
    argv: tuple[str, ...],
) -> int:
    """Run, print, and return 0, or 3 when more samples failed than allowed."""
    error_limit = parse_error_limit(max_errors)
    loaded = load_suite(suite)
    options = RunOptions(
        suite=suite,
        strategies=check_strategies(strategies),
        model=model,
        backend=backend,
        device=device,
        dtype=dtype,
        out=out,
        limit=limit,
        seed=seed,
        threads=threads,
        max_errors=error_limit,
        fresh=fresh,
        argv=argv,
    )
    progress = make_progress(quiet=quiet)
    outcome = run(
        options, loaded, load_samples(loaded), open_backend=open_engine, progress=progress, environ=os.environ
    )
    if as_json:
        print_json(summary_json(outcome.summary))
    elif not quiet:
        print_tables(*summary_parts(outcome.summary))
    if outcome.too_many_errors:
        report(
            f"{outcome.summary.failed_samples} of {outcome.summary.n_samples} samples failed, "
            f"more than --max-errors {max_errors} allows",
            f"Results are in {outcome.run_dir}; `error` in gen/*.jsonl says why each one failed.",
        )
        return NotComparableError.exit_code
    return 0
