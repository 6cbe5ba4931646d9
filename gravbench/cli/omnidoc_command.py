"""The verbs `omnidoc` and `verify-scorer`. Each parses, calls one function, prints, returns a code.

Everything heavy is imported inside the verbs, and nothing here imports a model stack.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gravbench.omnidocbench.cdm.rows import Cdm


def omnidoc(
    gt: Annotated[Path, typer.Option("--gt", help="OmniDocBench.json with the ground truth.")],
    predictions: Annotated[
        Path,
        typer.Option("--predictions", help="Folder of Markdown files, one a page: page_1.jpg -> page_1.md."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Write the full result here, as JSON.")] = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Processes at most (all CPUs); results do not depend on it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result (without its rows) as one JSON document.")
    ] = False,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="ATTRIBUTE", help="A table by this attribute (language, layout, ...)."),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write the leaderboard row and the --by tables here.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", help="Write every metric of every page here, as CSV; --by tables as NAME-by.csv."
        ),
    ] = None,
    official: Annotated[
        Path | None, typer.Option("--official", help="Write the official program's result files here.")
    ] = None,
    cdm_images: Annotated[
        Path | None,
        typer.Option(
            "--cdm-images", help="Draw formulas with their matched tokens into this folder, the worst first."
        ),
    ] = None,
    cdm_images_limit: Annotated[
        int, typer.Option("--cdm-images-limit", min=1, help="Draw so many formulas at most.")
    ] = 100,
    no_cdm: Annotated[bool, typer.Option("--no-cdm", help="Leave CDM out, and with it Overall.")] = False,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder for rendered formulas and converted tables.")
    ] = None,
    pages: Annotated[
        list[str] | None,
        typer.Option("--pages", metavar="GLOB", help="Only pages whose image name fits, e.g. 'exam_*'."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="NAME=VALUE", help="Only pages with this attribute value."),
    ] = None,
    match: Annotated[
        str, typer.Option("--match", help="quick_match, or simple_match, whose digits nothing verifies.")
    ] = "quick_match",
    max_errors: Annotated[
        str,
        typer.Option("--max-errors", help="Pages without a readable prediction: 1%, 0.01 or a number."),
    ] = "1%",
) -> None:
    """Score a folder of Markdown files by the official OmniDocBench v1.6 rules.

    Page image a.pdf_3.jpg is answered by the first file there is of a.pdf_3.md, a_3.mmd, a_3.md and
    a.pdf_3.jpg.md: its last four letters are taken for its ending, and small letters are not capital ones. A
    page without a file scores as an empty one.

    TeX and Ghostscript render formulas for CDM; without them CDM and Overall are not scored. LaTeXML converts
    tables written in LaTeX; without it they count as empty. `gravbench doctor` finds all three.

    Example: gravbench omnidoc --gt OmniDocBench.json --predictions out/ --by language --csv pages.csv
    """
    from gravbench.cli.omnidoc_output import print_report, write_result, write_tables
    from gravbench.cli.omnidoc_report import (
        ScoreOptions,
        check_places,
        draw_matches,
        parsed_where,
        refuse_method,
        refuse_pictures,
        refuse_too_many_errors,
        run_scoring,
    )
    from gravbench.omnidocbench.result_cache import default_cache_dir
    from gravbench.options import parse_error_limit
    from gravbench.processes import usable_cpus

    refuse_method(match)
    check_places(markdown, csv)
    refuse_pictures(cdm_images, no_cdm=no_cdm)
    limit = parse_error_limit(max_errors)
    if out is not None:
        write_result(out, None)
    processes = jobs or usable_cpus()

    def cdm() -> Cdm:
        from gravbench.omnidocbench.cdm.rows import find_cdm

        return find_cdm(cache or default_cache_dir(), workers=processes)

    options = ScoreOptions(
        gt,
        predictions,
        processes,
        tuple(pages or ()),
        parsed_where(where or ()),
        match=match,
        by=tuple(by or ()),
        latex_cache=(cache or default_cache_dir().parent) / "latexml",
    )
    document = run_scoring(options, cdm=None if no_cdm else cdm, quiet=False)
    if out is not None:
        write_result(out, document)
    if cdm_images is not None:
        draw_matches(document, cdm_images, limit=cdm_images_limit, cache_dir=cache or default_cache_dir())
    tables = write_tables(
        document, by=by or (), markdown=markdown, csv=csv, official=official, name=predictions.name
    )
    if as_json:
        from gravbench.omnidocbench.document import encode

        shown = {key: value for key, value in document.items() if key != "rows"}
        sys.stdout.buffer.write(encode(shown))
    else:
        print_report(document, tables)
    refuse_too_many_errors(document, limit)


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

    Tree distances of small tables are checked against apted and zss as well. Exits 1 on any difference. A
    folder of the first may hold one of the second, named olmocr.
    """
    from gravbench.cli.omnidoc_output import print_verification
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
