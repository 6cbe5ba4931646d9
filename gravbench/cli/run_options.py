"""The options of a run, spelled once: what `run` and `sweep` take, and the `RunOptions` made of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gravbench.runner.options import RunOptions

SuiteOption = Annotated[
    str, typer.Option(help="Suite to run; `gravbench suites list` names them.", show_default=False)
]
StrategyOption = Annotated[
    list[str] | None,
    typer.Option(
        help="ar, selfspec, selfspec:block=16, ...; repeatable. Default: ar and selfspec.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="gravity-tiny, a checkpoint folder or a hub id. Default: gravity-tiny.", show_default=False
    ),
]
BackendOption = Annotated[str, typer.Option(help="Way to run the model.")]
DeviceOption = Annotated[str, typer.Option(help="cpu, cuda or cuda:N.")]
DtypeOption = Annotated[str, typer.Option(help="float32, bfloat16 or float16.")]
CudaGraphsFlag = Annotated[
    bool, typer.Option("--cuda-graphs", help="Record decode forwards once and replay them; CUDA only.")
]
OutOption = Annotated[
    Path | None, typer.Option(help="Run folder. Default: a new one under runs/.", show_default=False)
]
LimitOption = Annotated[
    int | None, typer.Option(min=1, help="Only so many samples, of all tasks in proportion.")
]
StratifyOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY", help="Attribute that --limit keeps the mixture of, e.g. layout.", show_default=False
    ),
]
PagesOption = Annotated[
    str | None,
    typer.Option(metavar="GLOB", help="Only samples whose id matches, e.g. 'page-0*'.", show_default=False),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder with OmniDocBench.json and images/. Default: the suite's own, or its place under "
        "GRAVBENCH_DATA.",
        show_default=False,
    ),
]
AllowDriftOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD", help="suite: run a changed copy of the data, named as such.", show_default=False
    ),
]
LayoutOption = Annotated[
    str, typer.Option(help="Where regions of pages come from: ground-truth, pp-doclayout-v3, whitespace.")
]
LayoutModelOption = Annotated[
    str | None, typer.Option(help="Layout checkpoint: folder or hub id.", show_default=False)
]
BatchSizeOption = Annotated[
    int, typer.Option(min=1, max=1024, help="Requests that decode together, in every strategy alike.")
]
InFlightOption = Annotated[int, typer.Option(min=1, help="Regions of a page with the backend at a time.")]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the order and the bootstrap.")]
ThreadsOption = Annotated[int, typer.Option(min=1, max=1024, help="CPU threads of the model.")]
MaxErrorsOption = Annotated[str, typer.Option(help="Failed samples allowed before exit 3: 1% or a number.")]
QuietFlag = Annotated[bool, typer.Option("--quiet", help="No progress and no table.")]
FreshFlag = Annotated[bool, typer.Option("--fresh", help="A new run, even if one could be continued.")]


def run_options(
    *,
    suite: str,
    strategies: Sequence[str],
    model: str | None,
    backend: str,
    device: str,
    dtype: str,
    cuda_graphs: bool,
    out: Path | None,
    limit: int | None,
    data: Path | None,
    layout: str,
    seed: int,
    threads: int,
    max_errors: str,
    fresh: bool,
    argv: tuple[str, ...],
    stratify: str | None = None,
    pages: str | None = None,
    allow_drift: Sequence[str] = (),
    layout_model: str | None = None,
    in_flight: int = 1,
) -> RunOptions:
    """What was asked for, checked as far as no file is needed. Strategies are the verb's own business."""
    from gravbench.pages.layouts import check_layout
    from gravbench.runner.options import RunOptions, parse_error_limit
    from gravbench.runner.suite_data import check_drift

    return RunOptions(
        suite=suite,
        strategies=tuple(strategies),
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
        allow_drift=check_drift(allow_drift),
        layout=check_layout(layout),
        layout_model=layout_model,
        in_flight=in_flight,
        seed=seed,
        threads=threads,
        max_errors=parse_error_limit(max_errors),
        fresh=fresh,
        argv=argv,
    )
