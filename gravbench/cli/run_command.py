"""`gravbench run`."""

from __future__ import annotations

import os
from pathlib import Path

from gravbench.analysis.summary import summary_json
from gravbench.backends.layouts import check_layout
from gravbench.cli.entry import report
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.progress import make_progress
from gravbench.cli.summary_table import summary_parts
from gravbench.errors import NotComparableError
from gravbench.runner.engine import open_engine
from gravbench.runner.options import RunOptions, check_strategies, parse_error_limit
from gravbench.runner.path import run
from gravbench.runner.suite_data import check_drift, open_suite_data
from gravbench.suites.manifest import load_suite


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
    stratify: str | None,
    pages: str | None,
    data: Path | None,
    allow_drift: tuple[str, ...],
    layout: str,
    layout_model: str | None,
    in_flight: int,
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
        stratify=stratify,
        pages=pages,
        data=data,
        allow_drift=check_drift(allow_drift),
        layout=check_layout(layout),
        layout_model=layout_model,
        in_flight=in_flight,
        seed=seed,
        threads=threads,
        max_errors=error_limit,
        fresh=fresh,
        argv=argv,
    )
    progress = make_progress(quiet=quiet)
    opened = open_suite_data(options, loaded, note=progress.note)
    outcome = run(
        options,
        loaded,
        opened.samples,
        open_backend=open_engine,
        progress=progress,
        environ=os.environ,
        opened=opened,
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
