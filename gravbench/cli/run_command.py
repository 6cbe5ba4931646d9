"""`gravbench run`."""

from __future__ import annotations

from dataclasses import replace

from gravbench.analysis.summary import summary_json
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.running import exit_code, run_plan
from gravbench.cli.summary_table import summary_parts
from gravbench.runner.options import RunOptions, check_strategies


def run_suite(options: RunOptions, *, batch_size: int, as_json: bool, quiet: bool) -> int:
    """Run, print, and return 0, or 3 when more samples failed than allowed."""
    asked = replace(options, strategies=check_strategies(options.strategies, batch_size=batch_size))
    outcome = run_plan(asked, quiet=quiet)
    if as_json:
        print_json(summary_json(outcome.summary))
    elif not quiet:
        print_tables(*summary_parts(outcome.summary))
    return exit_code(outcome, asked)
