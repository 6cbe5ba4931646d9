"""`gravbench report`. Importing this module adds it to the command line; drawing is imported when it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.app import JsonFlag, app
from gravbench.cli.verdict_verbs import RefereeOption


@app.command()
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders; later ones are held against the first."),
    ],
    out: Annotated[Path | None, typer.Option(help="HTML file to write.", show_default=False)] = None,
    publish: Annotated[
        str | None,
        typer.Option(
            metavar="SLUG",
            help="Also write reports/YYYY-MM-SLUG/: comparison.json, the HTML rendered from it, the list.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[Path, typer.Option(help="Root of published reports.")] = Path("reports"),
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Reference outputs to hold the runs against. Default: the shipped ones of their suite.",
            show_default=False,
        ),
    ] = None,
    referee: RefereeOption = None,
    forward_cost: Annotated[
        Path | None,
        typer.Option(
            help="c(Q)/c(1) for the cost model: output of doctor --forward-cost --json.", show_default=False
        ),
    ] = None,
    resamples: Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples.")] = 10_000,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the bootstrap.")] = 0,
    json: JsonFlag = False,
) -> int:
    """Write one self-contained HTML file: verdict, curves, a gallery of samples, how it was measured."""
    from gravbench.cli import report_command

    return report_command.report(
        tuple(runs),
        out=out,
        publish=publish,
        root=to,
        title=title,
        reference=reference,
        referee=referee,
        forward_cost=forward_cost,
        resamples=resamples,
        seed=seed,
        as_json=json,
        argv=("gravbench", *sys.argv[1:]),
    )
