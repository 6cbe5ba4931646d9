"""`gravbench sweep`: a curve from one interleaved session."""

from __future__ import annotations

import re

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.analysis.curve import Curve, curve_of, swept_strategies
from gravbench.analysis.speed import Speedup
from gravbench.arms import MAX_BATCH
from gravbench.cli.output import ArmName, print_json, print_tables
from gravbench.cli.run_command import exit_code, run_plan
from gravbench.cli.summary_table import data_parts, timed_name
from gravbench.errors import UsageError
from gravbench.options import RunOptions
from gravbench.runner.strategies import as_arms
from gravbench.store.schema import canonical_json

MAX_BLOCK = 4096
_BATCHES = "speedups are over ar at the same batch size; ar:batch=N over ar is the gain of batching."


def sweep(
    options: RunOptions, *, blocks: str, batch_sizes: str, vary: tuple[str, ...], as_json: bool, quiet: bool
) -> int:
    """Run all arms interleaved, print the curve; 3 when more samples failed than allowed."""
    strategies = swept_strategies(
        vary=vary,
        blocks=parse_sizes("--blocks", blocks, most=MAX_BLOCK),
        batches=parse_sizes("--batch-sizes", batch_sizes, most=MAX_BATCH),
        strategies=options.strategies,
    )
    asked = as_arms(options.but(strategies=strategies))
    outcome = run_plan(asked, quiet=quiet)
    curve = curve_of(outcome.summary)
    if as_json:
        print_json(canonical_json(curve.model_dump(mode="json", by_alias=True, exclude_none=True)))
    elif not quiet:
        print_tables(*curve_parts(curve))
    return exit_code(outcome, asked)


def parse_sizes(option: str, text: str, *, most: int) -> tuple[int, ...]:
    """`4,8,16` -> sizes in the order given, none twice; `UsageError` unless all are from 1 to `most`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,4}", part) and 1 <= int(part) <= most for part in parts):
        raise UsageError(f"{option}: '{text}'", hint=f"Sizes from 1 to {most}, for example 4,8,16.")
    return tuple(dict.fromkeys(map(int, parts)))


def curve_parts(curve: Curve) -> list[RenderableType]:
    """Title, one row a strategy, warnings, folder."""
    on_pages = any(p.page is not None for p in curve.points)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    batched = any(p.batch > 1 for p in curve.points)
    for column in (
        "strategy",
        *(("together",) if batched else ()),
        "accepted",
        "committed",
        "TPF",
        "decode speedup",
        "page speedup" if on_pages else "request speedup",
        "same tokens",
    ):
        left = column == "strategy"
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    for p in curve.points:
        identity = p.identical_to_ar
        table.add_row(
            ArmName(timed_name(p.strategy, p.speed_base)),
            *((_number(p.requests_per_forward),) if batched else ()),
            *map(_number, (p.accepted_draft, p.tau_round, p.tpf_all)),
            _speedup(p.decode),
            _speedup(p.page if on_pages else p.request),
            "-" if identity is None else f"{identity.n}/{identity.of}",
        )
    title = f"{curve.suite}: {curve.n_samples} samples, {len(curve.points)} interleaved arms"
    parts: list[RenderableType] = [Text(title, style="bold"), *data_parts(curve.data), table]
    parts.append(
        Text(
            "accepted and committed are tokens a round; TPF = decode tokens / decode forwards; "
            + ("together = requests per forward; " if batched else "")
            + (_BATCHES if batched else "speedups are over ar.")
        )
    )
    parts += [Text(f"warning: {warning}", style="yellow") for warning in curve.warnings]
    return [*parts, Text(f"run folder: {curve.run_dir}")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _speedup(speedup: Speedup | None) -> str:
    if speedup is None:
        return "-"
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x"
    return f"{speedup.value:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}]"
