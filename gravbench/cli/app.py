"""The verbs and their options. Bodies live in the `*_command` modules, imported when a verb runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import gravbench
from gravbench.cli.omnidoc_command import register as register_omnidoc
from gravbench.cli.run_options import (
    AllowDriftOption,
    BackendOption,
    BatchSizeOption,
    CudaGraphsFlag,
    DataOption,
    DeviceOption,
    DtypeOption,
    FreshFlag,
    InFlightOption,
    LayoutModelOption,
    LayoutOption,
    LimitOption,
    MaxErrorsOption,
    ModelOption,
    OutOption,
    PagesOption,
    QuietFlag,
    SeedOption,
    StrategyOption,
    StratifyOption,
    SuiteOption,
    ThreadsOption,
    run_options,
)

app = typer.Typer(
    name="gravbench",
    help="Measure self-speculative document OCR: quality, acceptance and speed against plain AR decoding.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
suites_app = typer.Typer(help="What there is to evaluate.", no_args_is_help=True)
app.add_typer(suites_app, name="suites")
register_omnidoc(app)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"gravbench {gravbench.__version__}")
        raise typer.Exit


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Taken before any verb; `--debug` is handled where errors are printed."""
    del version, debug


@app.command()
def run(
    suite: SuiteOption,
    strategy: StrategyOption = None,
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
    batch_size: BatchSizeOption = 1,
    in_flight: InFlightOption = 1,
    seed: SeedOption = 0,
    threads: ThreadsOption = 1,
    max_errors: MaxErrorsOption = "1%",
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    fresh: FreshFlag = False,
) -> int:
    """Run strategies over a suite in interleaved pairs; print quality, acceptance and speed.

    Repeating the same command continues an unfinished run.
    """
    from gravbench.cli.run_command import run_suite

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
        in_flight=in_flight,
        seed=seed,
        threads=threads,
        max_errors=max_errors,
        fresh=fresh,
        argv=("gravbench", *sys.argv[1:]),
    )
    return run_suite(options, batch_size=batch_size, as_json=json, quiet=quiet)


@app.command()
def score(
    run: RunArgument,
    suite: Annotated[
        str | None,
        typer.Option(help="Suite of the references. Default: the run's own.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the run's pages. Default: where the run read them.",
            show_default=False,
        ),
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Score a finished run again from its records. Loads no model; refuses other pages than the run's."""
    from gravbench.cli.score_command import score_run

    return score_run(run, suite=suite, data=data, as_json=json)


@app.command()
def export(
    run: RunArgument,
    clockless: Annotated[
        bool,
        typer.Option(
            "--clockless", help="Predictions, token ids, counters and scores; nothing a clock wrote."
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="File to write. Default: stdout.", show_default=False)
    ] = None,
) -> int:
    """Write a finished run as JSON lines that can be compared byte for byte."""
    from gravbench.cli.export_command import export_run

    return export_run(run, clockless=clockless, out=out)


@app.command()
def doctor(
    forward_cost: Annotated[
        bool, typer.Option("--forward-cost", help="Also measure c(Q)/c(1), the cost of a forward on Q rows.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="gravity-tiny or a checkpoint folder. Default: gravity-tiny.", show_default=False),
    ] = None,
    threads: ThreadsOption = 1,
    json: JsonFlag = False,
) -> int:
    """Check this machine: versions, disk, suites, the shipped model."""
    from gravbench.cli.doctor_command import run_doctor

    return run_doctor(forward_cost=forward_cost, model=model, threads=threads, as_json=json)


@suites_app.command("list")
def suites_list(json: JsonFlag = False) -> int:
    """Name the suites this installation can find."""
    from gravbench.cli.suites_command import list_all

    return list_all(as_json=json)


@suites_app.command("show")
def suites_show(
    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)], json: JsonFlag = False
) -> int:
    """Show one suite: samples by task, prompts, budgets, digest."""
    from gravbench.cli.suites_command import show

    return show(name, as_json=json)


@suites_app.command("verify")
def suites_verify(
    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of its pages.", show_default=False)
    ] = None,
    json: JsonFlag = False,
) -> int:
    """Check a suite's data: digests, annotations, every image. Exit 5 when something is wrong."""
    from gravbench.cli.suite_data_command import verify

    return verify(name, data=data, as_json=json)


@suites_app.command("fetch")
def suites_fetch(
    name: Annotated[str, typer.Argument(help="Suite name.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to fill. Default: its place in GRAVBENCH_DATA.", show_default=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> int:
    """Download a suite's pages at their pinned revision, resume, verify. Research data, not ours to ship."""
    from gravbench.cli.suite_data_command import fetch

    return fetch(name, data=data, quiet=quiet)


@app.command()
def train(
    out: Annotated[
        Path, typer.Option(help="Training folder; an unfinished one continues.", show_default=False)
    ],
    init: Annotated[
        Path | None,
        typer.Option(
            help="GLM-OCR checkpoint folder to start from. Default: a new small model.", show_default=False
        ),
    ] = None,
    budget: Annotated[str, typer.Option(help="Trained wall-clock time: 90m, 2h or seconds.")] = "1h",
    processes: Annotated[int, typer.Option(min=1, help="Processes, one core each.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of crops, noise and weights.")] = 0,
    block: Annotated[int, typer.Option(min=1, help="Block size runs will draft by default.")] = 8,
    matrix_lr: Annotated[
        float | None,
        typer.Option(min=0.0, help="Muon rate. Default: 0.02, with --init 0.001.", show_default=False),
    ] = None,
    other_lr: Annotated[
        float | None,
        typer.Option(min=0.0, help="AdamW rate. Default: 2e-3, with --init 1e-4.", show_default=False),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")] = False,
) -> int:
    """Train a model that reads and drafts: AR and block diffusion jointly, on synthetic crops."""
    from gravbench.cli.train_command import run_training

    return run_training(
        out=out,
        init=init,
        budget=budget,
        processes=processes,
        seed=seed,
        block=block,
        matrix_lr=matrix_lr,
        other_lr=other_lr,
        device=device,
        quiet=quiet,
    )
