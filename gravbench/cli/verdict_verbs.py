"""The verbs that judge and show: status, compare, gate, bless, report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.verbs import JsonFlag, ReportOption, RunArgument

RefereeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Judge differing tokens with this checkpoint in float32: gravity-tiny or a folder.",
        show_default=False,
    ),
]


PageDataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="OmniDocBench.json and images/ of two results: pictures and truth for the report.",
        show_default=False,
    ),
]


def status(run: RunArgument, json: JsonFlag = False) -> int:
    """Look at a run that is under way, cut short or damaged: how far it is, and tables marked as partial."""
    from gravbench.cli import status_command

    return status_command.status(run, as_json=json)


def compare(
    base: Annotated[
        Path,
        typer.Argument(metavar="A", help="A run folder, or a result of omnidoc --out.", show_default=False),
    ],
    own: Annotated[
        Path | None,
        typer.Argument(
            metavar="B", help="Another of its kind, held against A. Without it, A against its own ar arm."
        ),
    ] = None,
    base_arm: Annotated[
        str | None, typer.Option(help="Strategy of A, with --own-arm.", show_default=False)
    ] = None,
    own_arm: Annotated[
        str | None, typer.Option(help="Strategy of B, with --base-arm.", show_default=False)
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
    force: Annotated[
        bool, typer.Option("--force", help="Compare unlike runs on their common samples, with a banner.")
    ] = False,
    max_errors: Annotated[
        str,
        typer.Option(help="Samples that may have failed in a run: a share or a number; above it exit 3."),
    ] = "1%",
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="ATTRIBUTE",
            help="Differences of every metric by this attribute: language, layout, ...",
            show_default=False,
        ),
    ] = None,
    data: PageDataOption = None,
    report: ReportOption = None,
    json: JsonFlag = False,
) -> int:
    """Is it the same text, is it faster, by how much: one run against its ar arm, or two runs."""
    from gravbench.cli import compare_command

    return compare_command.compare(
        base,
        own,
        base_arm=base_arm,
        own_arm=own_arm,
        referee=referee,
        forward_cost=forward_cost,
        resamples=resamples,
        seed=seed,
        force=force,
        max_errors=max_errors,
        by=by or (),
        data=data,
        report=report,
        as_json=json,
    )


def gate(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder; mode candidate needs it.")
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder of reference outputs of one suite. Default: the shipped one of RUN's suite.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="TOML file laid over the default policy, or the shipped new-weights.", show_default=False
        ),
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="candidate: a run against the reference. rescore: score stored predictions again. "
            "regenerate: decode again, exact."
        ),
    ] = "candidate",
    suite: Annotated[
        str | None,
        typer.Option(help="Suite name or manifest, for rescore and regenerate.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Checkpoint for regenerate. Default: gravity-tiny.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Page data for rescore and regenerate, as for run.", show_default=False
        ),
    ] = None,
    referee: RefereeOption = None,
    mde: Annotated[
        bool, typer.Option("--mde", help="Also print how large a loss this run would have shown.")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML to this file.", show_default=False)
    ] = None,
    json: JsonFlag = False,
) -> int:
    """May this change merge? 0 pass (or inconclusive, with a notice), 1 fail, 3 not comparable."""
    from gravbench.cli import gate_command

    return gate_command.gate(
        run,
        reference=reference,
        policy=policy,
        mode=mode,
        suite=suite,
        model=model,
        data=data,
        referee=referee,
        with_mde=mde,
        junit=junit,
        as_json=json,
    )


def bless(
    run: RunArgument,
    reason: Annotated[str, typer.Option(help="Why this run is what we vouch for now.", show_default=False)],
    who: Annotated[
        str | None, typer.Option(help="Who says so. Default: git's user.name.", show_default=False)
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(help="Root of reference outputs. Default: reference_outputs/ here.", show_default=False),
    ] = None,
    allow_differing: Annotated[
        bool, typer.Option("--allow-differing", help="Bless strategies whose text is not that of ar.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False,
    json: JsonFlag = False,
) -> int:
    """Print what would change in the reference outputs, then write them from a run."""
    from gravbench.cli import bless_command

    return bless_command.bless(
        run, reason=reason, who=who, to=to, allow_differing=allow_differing, dry_run=dry_run, as_json=json
    )


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Run folders, or results of omnidoc; later ones are held against the first.",
        ),
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
    data: PageDataOption = None,
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
        data=data,
        resamples=resamples,
        seed=seed,
        as_json=json,
        argv=("gravbench", *sys.argv[1:]),
    )
