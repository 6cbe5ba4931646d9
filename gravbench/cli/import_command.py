"""`gravbench import`."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import UTC, datetime

from gravbench.analysis.summary import summary_json
from gravbench.cli.output import print_json, print_tables, say_error
from gravbench.cli.summary_table import summary_parts
from gravbench.cli.verbs import Import
from gravbench.errors import NotComparableError
from gravbench.options import RunOptions, parse_error_limit
from gravbench.provenance import capture
from gravbench.runner.foreign_predictions import read_predictions
from gravbench.runner.imported_runs import import_arm
from gravbench.runner.samples import check_drift, open_suite_data
from gravbench.suites.manifest import load_suite


def import_predictions(given: Import) -> int:
    """Bring the answers in, print the summary of all arms; 3 when more of this arm failed than allowed."""
    arm, limit = given.arm, parse_error_limit(given.max_errors)
    loaded = load_suite(given.suite)
    asked = RunOptions(
        suite=given.suite,
        data=given.data,
        where=given.where,
        pages=given.pages,
        allow_drift=check_drift(given.allow_drift or ()),
    )
    opened = open_suite_data(asked, loaded, note=lambda text: print(text, file=sys.stderr))
    found = read_predictions(given.predictions, [sample.sample_id for sample in opened.samples], arm=given.of)
    done = import_arm(
        loaded,
        opened,
        found,
        arm=arm,
        out=given.out,
        source=given.predictions.name,
        argv=tuple(shlex.split(given.command)),
        environment=capture(os.environ),
        now=datetime.now(UTC),
    )
    if given.json:
        print_json(summary_json(done.summary))
    else:
        print_tables(*summary_parts(done.summary))
    if found.caution is not None:
        print(f"gravbench: {arm}: {found.caution}", file=sys.stderr)
    failed, asked_for = done.summary.strategies[arm].failed, done.summary.n_samples * found.repeats
    if not limit.exceeded(failed, asked_for):
        return 0
    what = "samples" if found.repeats == 1 else f"answers ({found.repeats} a sample)"
    say_error(
        f"{arm}: {failed} of {asked_for} {what} have no usable prediction, more than "
        f"--max-errors {limit} allows",
        "They score worst. Complete the predictions and import them into a new folder, or allow it.",
    )
    return NotComparableError.exit_code
