"""`gravbench compare`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gravbench.analysis.comparison import compare_one, compare_runs
from gravbench.analysis.loaded import LoadedRun, named
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.comparison_table import comparison_parts
from gravbench.cli.output import print_json, print_tables, say_error
from gravbench.cli.report_page import check_page, write_page
from gravbench.cli.run_loading import load_with_facts, read_forward_costs, set_up_referee
from gravbench.errors import NotComparableError, UsageError
from gravbench.options import ErrorLimit, parse_error_limit
from gravbench.store.rundir import again
from gravbench.store.schema import canonical_json


def compare(
    base: Path,
    own: Path | None,
    *,
    base_arm: str | None,
    own_arm: str | None,
    referee: str | None,
    forward_cost: Path | None,
    resamples: int,
    seed: int,
    force: bool,
    max_errors: str,
    report: Path | None,
    as_json: bool,
) -> int:
    """Print the comparison; 0 whatever it shows. Unlike suites are exit 3, as are more failed samples than
    `max_errors` allows."""
    limit = parse_error_limit(max_errors)
    check_page(report)
    if (base_arm is None) != (own_arm is None) or (base_arm is not None and own is None):
        raise UsageError(
            "--base-arm and --own-arm pair strategies of two runs; one of them is not enough",
            hint="gravbench compare A B --base-arm ar --own-arm selfspec",
        )
    first = load_with_facts(base)
    second = None if own is None else load_with_facts(own)
    with tempfile.TemporaryDirectory(prefix="gravbench-crops-") as crops:
        setup = set_up_referee(referee, first, crops=Path(crops))
        options = AnalysisOptions(
            seed=seed,
            resamples=resamples,
            referee=setup.referee,
            tau=setup.tau,
            forward_costs=read_forward_costs(forward_cost),
        )
        if second is None:
            comparison = compare_one(first, options)
        else:
            arms = [(base_arm, own_arm)] if base_arm is not None and own_arm is not None else None
            comparison = compare_runs(first, second, options, arms=arms, force=force)
    if as_json:
        print_json(canonical_json(comparison.model_dump(mode="json", by_alias=True, exclude_none=True)))
    else:
        print_tables(*comparison_parts(comparison))
    if report is not None:
        write_page(
            (base,) if own is None else (base, own),
            report,
            argv=("gravbench", *sys.argv[1:]),
            seed=seed,
            say=not as_json,
            resamples=resamples,
            referee=referee,
            forward_cost=forward_cost,
        )
    return _exit_code([first, *([second] if second else [])], limit)


def _exit_code(runs: Sequence[LoadedRun], limit: ErrorLimit) -> int:
    """0, or 3 with its error line for the first run in which more samples failed than allowed."""
    for run in runs:
        failed = sorted({u.sample_id for u in run.units for r in u.records.values() if r.status != "ok"})
        n = len({unit.sample_id for unit in run.units})
        if limit.exceeded(len(failed), n):
            say_error(
                f"{run.name}: {len(failed)} of {n} samples failed, more than --max-errors {limit} allows",
                f"{named(failed)}. They score worst in every table above. When the cause is mended: "
                f"{again(run.manifest.argv)} --retry-failed",
            )
            return NotComparableError.exit_code
    return 0
