"""The verbs `omnidoc` and `verify-scorer`. Each parses, calls one function, prints, returns a code.

Everything heavy is imported inside the verbs, and nothing here imports a model stack.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def omnidoc(
    gt: Annotated[Path, typer.Option("--gt", help="OmniDocBench.json with the ground truth.")],
    predictions: Annotated[Path, typer.Option("--predictions", help="Folder of Markdown files, one a page.")],
    out: Annotated[Path | None, typer.Option("--out", help="Write the full result here, as JSON.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Processes at most (all CPUs); results do not depend on it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result (without its rows) as one JSON document.")
    ] = False,
) -> None:
    """Score a folder of Markdown files by the official OmniDocBench v1.6 rules."""
    from gravbench.cli.omnidoc_report import ScoreOptions, print_report, run_scoring, write_result
    from gravbench.omnidocbench.cdm import default_cache_dir
    from gravbench.omnidocbench.cdm.rows import find_cdm

    if out is not None:
        write_result(out, None)
    processes = jobs or _usable_cpus()
    cdm = find_cdm(default_cache_dir(), workers=processes)
    document = run_scoring(ScoreOptions(gt, predictions, processes), cdm=cdm)
    if out is not None:
        write_result(out, document)
    if as_json:
        from gravbench.omnidocbench.document import encode

        shown = {key: value for key, value in document.items() if key != "rows"}
        sys.stdout.buffer.write(encode(shown))
    else:
        print_report(document)


def verify_scorer(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Recorded official results to check against.")
    ],
    chromium: Annotated[
        bool, typer.Option("--chromium", help="olmOCR-Bench's equations in the system's Chromium.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as one JSON document.")] = False,
) -> None:
    """Check the scorers against recorded results of the official OmniDocBench or olmOCR-Bench.

    Exits 1 on any difference. A folder of the first may hold one of the second, named olmocr.
    """
    from gravbench.cli.omnidoc_report import print_verification
    from gravbench.olmocr.verification import holds_olmocr_results, verify_olmocr
    from gravbench.omnidocbench.verification import default_tools, verify

    if holds_olmocr_results(folder):
        reports = verify_olmocr(folder, chromium=chromium)
    else:
        reports = verify(folder, default_tools())
        if holds_olmocr_results(folder / "olmocr"):
            reports |= verify_olmocr(folder / "olmocr", chromium=chromium)
    print_verification(reports, as_json=as_json)
    if any(report.failed for report in reports.values()):
        raise typer.Exit(1)
