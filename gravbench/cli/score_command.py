"""`gravbench score`."""

from __future__ import annotations

from pathlib import Path

from gravbench.analysis.summary import summary_json
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.summary_table import summary_parts
from gravbench.runner.path import rescore
from gravbench.runner.suite_data import samples_of_run
from gravbench.store.rundir import RunDirectory
from gravbench.suites.manifest import load_suite


def score_run(run_dir: Path, *, suite: str | None, data: Path | None, as_json: bool) -> int:
    """Score again and print the summary. `suite` and `data` override where the manifest says they lie."""
    run = RunDirectory(run_dir)
    manifest = run.manifest()
    loaded = load_suite(suite or str(manifest.protocol["suite_source"]))
    summary = rescore(run_dir, loaded, samples_of_run(manifest, loaded, run.generations(), data=data))
    if as_json:
        print_json(summary_json(summary))
    else:
        print_tables(*summary_parts(summary))
    return 0
