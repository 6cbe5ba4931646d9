"""The verbs that judge and show, declared: status, compare, audit, gate, bless, report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.verbs import JsonFlag, ReportOption, RunArgument, Verb

RefereeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Judge differing tokens with this checkpoint in float32: gravity-tiny or a folder.",
        show_default=False,
    ),
]

ForwardCostOption = Annotated[
    Path | None,
    typer.Option(
        help="c(Q)/c(1) for the cost model: output of doctor --forward-cost --json.", show_default=False
    ),
]
ResamplesOption = Annotated[int, typer.Option(min=100, max=1_000_000, help="Bootstrap resamples.")]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the bootstrap.")]

PageDataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="OmniDocBench.json and images/ of two results: pictures and truth for the report.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Status(Verb, body="status_command:status"):
    """Look at a run that is under way, cut short or damaged: how far it is, and tables marked as partial."""

    run: RunArgument
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Compare(Verb, body="compare_command:compare"):
    """Is it the same text, is it faster, by how much: one run against its ar arm, or two runs."""

    base: Annotated[
        Path,
        typer.Argument(metavar="A", help="A run folder, or a result of omnidoc --out.", show_default=False),
    ]
    own: Annotated[
        Path | None,
        typer.Argument(
            metavar="B", help="Another of its kind, held against A. Without it, A against its own ar arm."
        ),
    ] = None
    base_arm: Annotated[
        str | None, typer.Option(help="Strategy of A, with --own-arm.", show_default=False)
    ] = None
    own_arm: Annotated[
        str | None, typer.Option(help="Strategy of B, with --base-arm.", show_default=False)
    ] = None
    referee: RefereeOption = None
    forward_cost: ForwardCostOption = None
    resamples: ResamplesOption = 10_000
    seed: SeedOption = 0
    force: Annotated[
        bool, typer.Option("--force", help="Compare unlike runs on their common samples, with a banner.")
    ] = False
    max_errors: Annotated[
        str,
        typer.Option(help="Samples that may have failed in a run: a share or a number; above it exit 3."),
    ] = "1%"
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="ATTRIBUTE",
            help="Differences of every metric by this attribute: language, layout, ...",
            show_default=False,
        ),
    ] = None
    data: PageDataOption = None
    report: ReportOption = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Audit(Verb, body="audit_command:audit_run"):
    """Is every committed token what its own prefix calls for? Teacher-force each output once; 1 if not.

    The finding is kept in the run folder, where compare, gate and report find it.
    """

    run: RunArgument
    referee: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The run's checkpoint: gravity-tiny or a folder. Default: as the run names it.",
        ),
    ] = None
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="Only this strategy; repeatable. Default: all exact ones.", show_default=False),
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Gate(Verb, body="gate_command:gate"):
    """May this change merge? 0 pass (or inconclusive, with a notice), 1 fail, 3 not comparable."""

    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder; mode candidate needs it.")
    ] = None
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Folder of reference outputs of one suite. Default: the shipped one of RUN's suite.",
            show_default=False,
        ),
    ] = None
    policy: Annotated[
        str | None,
        typer.Option(
            help="TOML file laid over the default policy, or the shipped new-weights.", show_default=False
        ),
    ] = None
    mode: Annotated[
        str,
        typer.Option(
            help="candidate: a run against the reference. rescore: score stored predictions again. "
            "regenerate: decode again, exact."
        ),
    ] = "candidate"
    suite: Annotated[
        str | None,
        typer.Option(help="Suite name or manifest, for rescore and regenerate.", show_default=False),
    ] = None
    model: Annotated[
        str | None, typer.Option(help="Checkpoint for regenerate. Default: gravity-tiny.", show_default=False)
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Page data for rescore and regenerate, as for run.", show_default=False
        ),
    ] = None
    referee: RefereeOption = None
    mde: Annotated[
        bool, typer.Option("--mde", help="Also print how large a loss this run would have shown.")
    ] = False
    junit: Annotated[
        Path | None, typer.Option(help="Also write JUnit XML to this file.", show_default=False)
    ] = None
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Bless(Verb, body="bless_command:bless"):
    """Print what would change in the reference outputs, then write them from a run."""

    run: RunArgument
    reason: Annotated[str, typer.Option(help="Why this run is what we vouch for now.", show_default=False)]
    who: Annotated[
        str | None, typer.Option(help="Who says so. Default: git's user.name.", show_default=False)
    ] = None
    to: Annotated[
        Path | None,
        typer.Option(help="Root of reference outputs. Default: reference_outputs/ here.", show_default=False),
    ] = None
    allow_differing: Annotated[
        bool, typer.Option("--allow-differing", help="Bless strategies whose text is not that of ar.")
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would change.")] = False
    json: JsonFlag = False


@dataclass(frozen=True, kw_only=True)
class Report(Verb, body="report_command:report"):
    """Write one self-contained HTML file: verdict, curves, a gallery of samples, how it was measured."""

    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...",
            help="Run folders, or results of omnidoc; later ones are held against the first. A published "
            "folder is rendered again.",
            show_default=False,
        ),
    ] = None
    out: Annotated[Path | None, typer.Option(help="HTML file to write.", show_default=False)] = None
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead: the runs of one suite below DIR over commits, with the gate's verdicts.",
            show_default=False,
        ),
    ] = None
    publish: Annotated[
        str | None,
        typer.Option(
            metavar="SLUG",
            help="Also write reports/YYYY-MM-SLUG/: comparison.json, its HTML, a picture of it, the list.",
            show_default=False,
        ),
    ] = None
    to: Annotated[Path, typer.Option(help="Root of published reports.")] = Path("reports")
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write verdict and table for a pull request here, and the speedup curve beside it as .svg.",
            show_default=False,
        ),
    ] = None
    images: Annotated[
        bool, typer.Option("--images/--no-images", help="Whether the page may carry pictures of samples.")
    ] = True
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Reference outputs to hold the runs against. Default: the shipped ones of their suite.",
            show_default=False,
        ),
    ] = None
    referee: RefereeOption = None
    forward_cost: ForwardCostOption = None
    data: PageDataOption = None
    resamples: ResamplesOption = 10_000
    seed: SeedOption = 0
    json: JsonFlag = False
