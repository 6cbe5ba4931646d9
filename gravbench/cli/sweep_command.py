"""`gravbench sweep`: a curve from one interleaved session."""

from __future__ import annotations

import re

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.curve import Curve, curve_of, swept_strategies
from gravbench.arms import MAX_BATCH, is_ar
from gravbench.cli.output import print_json, print_line, print_tables, rich_table
from gravbench.cli.run_command import exit_code, run_plan
from gravbench.cli.summary_table import data_parts, timed_name
from gravbench.errors import UsageError
from gravbench.options import RunOptions
from gravbench.reporting.breakdown import tie_sentence, ties_of
from gravbench.reporting.definitions import counter_words
from gravbench.reporting.tables import NONE, Cell, Table, arm, interval, number, table
from gravbench.runner.strategies import as_arms
from gravbench.store.schema import canonical_json

MAX_BLOCK = 4096
_BATCHES = "Speedups are over ar at the same batch size; ar:batch=N over ar is the gain of batching."


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
    elif quiet:
        print_line(str(outcome.run_dir))
    else:
        print_tables(*curve_parts(curve))
    return exit_code(outcome, asked)


def parse_sizes(option: str, text: str, *, most: int) -> tuple[int, ...]:
    """`4,8,16` -> sizes in the order given, none twice; `UsageError` unless all are from 1 to `most`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,4}", part) and 1 <= int(part) <= most for part in parts):
        raise UsageError(f"{option}: '{text}'", hint=f"Sizes from 1 to {most}, for example 4,8,16.")
    return tuple(dict.fromkeys(map(int, parts)))


def curve_parts(curve: Curve) -> list[RenderableType]:
    """Title, one row a strategy, who ties with the fastest, warnings, folder."""
    title = f"{curve.suite}: {curve.n_samples} samples, {len(curve.points)} interleaved arms"
    parts: list[RenderableType] = [Text(title, style="bold"), *data_parts(curve.data)]
    parts.append(rich_table(_points(curve), caption=False))
    batched = any(p.batch > 1 for p in curve.points)
    names = ("accepted_draft", "tau_round", "tpf_all", *(("requests_per_forward",) if batched else ()))
    parts.append(Text(f"{counter_words(*names)} {_BATCHES if batched else 'Speedups are over ar.'}"))
    drafting = [
        (p.strategy, p.decode) for p in curve.points if p.decode is not None and not is_ar(p.strategy)
    ]
    if drafting:
        drafting.sort(key=lambda named: -named[1].value)
        best, fastest = drafting[0]
        ties = ties_of(drafting)
        said = tie_sentence(best, ties) if ties else ""
        parts.append(Text(f"fastest in decoding: {best}, {interval(fastest, 'x')} over ar. {said}".rstrip()))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in curve.warnings]
    return [*parts, Text(f"run folder: {curve.run_dir}")]


def _points(curve: Curve) -> Table:
    on_pages = any(p.page is not None for p in curve.points)
    batched = any(p.batch > 1 for p in curve.points)
    columns = (
        "strategy",
        *(("requests_per_forward",) if batched else ()),
        "accepted_draft",
        "tau_round",
        "tpf_all",
        "decode speedup",
        "page speedup" if on_pages else "request speedup",
        "same tokens",
    )
    rows: list[tuple[str | Cell, ...]] = [
        (
            arm(timed_name(p.strategy, p.speed_base)),
            *((number(p.requests_per_forward),) if batched else ()),
            *map(number, (p.accepted_draft, p.tau_round, p.tpf_all)),
            interval(p.decode, "×"),
            interval(p.page if on_pages else p.request, "×"),
            NONE if (i := p.identical_to_ar) is None else f"{i.n}/{i.of}",
        )
        for p in curve.points
    ]
    return table("curve", columns, rows)
