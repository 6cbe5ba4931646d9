"""The verbs that judge and show: compare, gate, bless, sweep, report. Importing this adds them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gravbench.cli.app import JsonFlag, RunArgument, app
from gravbench.cli.run_options import (
    AllowDriftOption,
    BackendOption,
    CudaGraphsFlag,
    DataOption,
    DeviceOption,
    DtypeOption,
    FreshFlag,
    LayoutModelOption,
    LayoutOption,
    LimitOption,
    MaxErrorsOption,
    ModelOption,
    OutOption,
    PagesOption,
    QuietFlag,
    SeedOption,
    StratifyOption,
    SuiteOption,
    ThreadsOption,
    run_options,
)

RefereeOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Judge differing tokens with this checkpoint in float32: gravity-tiny or a folder.",
        show_default=False,
    ),
]


@app.command()
def compare(
    base: Annotated[Path, typer.Argument(metavar="A", help="A run folder.", show_default=False)],
    own: Annotated[
        Path | None,
        typer.Argument(
            metavar="B", help="Another run, held against A. Without it, A against its own ar arm."
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
        as_json=json,
    )


@app.command()
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


@app.command()
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


@app.command()
def sweep(
    suite: SuiteOption,
    blocks: Annotated[str, typer.Option(help="Block sizes, comma-separated.")] = "4,8,16,32",
    batch_sizes: Annotated[
        str,
        typer.Option(help="Batch sizes, comma-separated; ar runs at each of them too, as the measure."),
    ] = "1",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            help="Strategy to run at every block size; repeatable. Default: selfspec.", show_default=False
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option(help="Further strategy, as it is; repeatable. ar is always there.", show_default=False),
    ] = None,
    model: ModelOption = None,
    backend: BackendOption = "transformers",
    device: DeviceOption = "cpu",
    dtype: DtypeOption = "float32",
    cuda_graphs: CudaGraphsFlag = False,
    out: OutOption = None,
    limit: LimitOption = None,
    stratify: StratifyOption = None,
    pages: PagesOption = None,
    data: DataOption = None,
    allow_drift: AllowDriftOption = None,
    layout: LayoutOption = "ground-truth",
    layout_model: LayoutModelOption = None,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    max_errors: MaxErrorsOption = "1%",
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    fresh: FreshFlag = False,
) -> int:
    """A curve over block sizes and strategies: all arms interleaved in one session, one run folder."""
    from gravbench.cli import sweep_command

    options = run_options(
        suite=suite,
        strategies=strategy or (),
        model=model,
        backend=backend,
        device=device,
        dtype=dtype,
        cuda_graphs=cuda_graphs,
        out=out,
        limit=limit,
        stratify=stratify,
        pages=pages,
        data=data,
        allow_drift=allow_drift or (),
        layout=layout,
        layout_model=layout_model,
        seed=seed,
        threads=threads,
        max_errors=max_errors,
        fresh=fresh,
        argv=("gravbench", *sys.argv[1:]),
    )
    return sweep_command.sweep(
        options,
        blocks=blocks,
        batch_sizes=batch_sizes,
        vary=tuple(vary or ("selfspec",)),
        as_json=json,
        quiet=quiet,
    )


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
