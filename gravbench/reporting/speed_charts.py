"""Charts of speed: against block size, output length and concurrency; stage by stage, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.load import Load
from gravbench.analysis.run_analysis import ArmAnalysis, GroupRow
from gravbench.analysis.speed import SpeedEstimate
from gravbench.arms import batch_of, is_ar, parse_arm, without_batch
from gravbench.reporting import plots
from gravbench.reporting.charts import (
    MAX_SERIES,
    Chart,
    Line,
    Named,
    best_first,
    concurrency,
    described,
    end_to_end,
    end_to_end_column,
    interval_lines,
    left_out,
    named_arms,
    over_ar,
    palette,
)
from gravbench.reporting.document import PairTimes, ReportDocument
from gravbench.reporting.tables import NONE, Cell, Table, interval, table, times, tint_of_ratio

TINTED = 5
"""Pairs from which on a cell of the map is tinted: fewer may be chance."""
DRAWN_BY_LENGTH = 2
"""Strategies whose lines stand against output length."""
_LATENCY: dict[str, Callable[[Load], float]] = {
    "P50": lambda load: load.latency_p50_s,
    "P99": lambda load: load.latency_p99_s,
}
_KIND = {"decode": "decode", "request": "end to end"}


def speed_charts(document: ReportDocument) -> list[Chart]:
    """The curves of a page's part on speed, in order; the first leads the page."""
    found = (
        speed_by_block(document),
        speed_by_length(document),
        speed_by_concurrency(document),
        latency_by_throughput(document),
    )
    return [chart for chart in found if chart is not None]


def speed_by_block(document: ReportDocument) -> Chart | None:
    """Speedup against block size; `None` with fewer than two sizes."""
    arms = [a for a in named_arms(document) if a.part.block is not None and a.arm.decode is not None]
    colours = palette(document)
    families: dict[str, list[Named]] = {}
    for a in arms:
        run = f"{a.run.name} · " if len(document.runs) > 1 else ""
        batch = f", batch {batch_of(a.part.arm)}" if batch_of(a.part.arm) > 1 else ""
        families.setdefault(run + parse_arm(a.part.arm).strategy + batch, []).append(a)
    families = {name: _one_a_block(own) for name, own in families.items()}
    sizes = sorted({int(a.part.block or 0) for own in families.values() for a in own})
    if len(sizes) < 2:
        return None
    lines: list[Line] = []
    for name, own in families.items():
        places = [(sizes.index(int(a.part.block or 0)), a.arm) for a in own]
        colour = min(own, key=lambda a: -a.arm.decode.value if a.arm.decode else 0.0).label
        lines += _lines(name, places, colour=colours[colour]) + _predicted(
            name, places, colour=colours[colour]
        )
    rows = [
        (
            a.label,
            str(a.part.block),
            interval(a.arm.decode, "×"),
            times(a.arm.cost_model.predicted if a.arm.cost_model else None),
            interval(end_to_end(a.arm), "×"),
            interval(a.arm.counters.get("tpf_all")),
            interval(a.arm.counters.get("tau_round")),
        )
        for own in families.values()
        for a in own
    ]
    columns = ("strategy", "block", "decode", "decode predicted", "end to end", "tpf_all", "tau_round")
    return _curve(
        document,
        lines,
        key="block",
        title="Speedup against block size",
        note="Bands are 95 % intervals; above 1 drafting pays. Dotted: what tokens per round and the cost of "
        "a round predict for decoding.",
        x_label="block size (masked positions a draft fills)",
        ticks=list(map(str, sizes)),
        table=table("Speedup against block size", columns, rows),
    )


def speed_by_length(document: ReportDocument) -> Chart | None:
    """Speedup against output length, decode-only and end-to-end, of the best arms."""
    arms, colours = best_first(document), palette(document)
    labels = _ordered(g.label for a in arms for g in a.arm.groups if g.kind == "length")
    if not labels:
        return None
    lines: list[Line] = []
    rows: list[tuple[str, ...]] = []
    for a in arms:
        groups = [g for g in a.arm.groups if g.kind == "length"]
        lines += _lines(a.label, [(labels.index(g.label), g) for g in groups], colour=colours[a.label])
        rows += [(a.label, g.label, *_group_cells(g)) for g in groups]
    column = end_to_end_column(g for a in arms for g in a.arm.groups if g.kind == "length")
    drawn = lines[: 2 * DRAWN_BY_LENGTH]
    title = "Speedup against output length"
    return _curve(
        document,
        drawn,
        key="length",
        title=title,
        note="Output tokens of ar, prefill's token and EOS included. Short outputs cap every speedup."
        + (f" Drawn: the {DRAWN_BY_LENGTH} fastest; the table has all." if len(lines) > len(drawn) else ""),
        x_label="output tokens",
        ticks=labels,
        table=table(
            title,
            ("strategy", "tokens", "n", "decode", column, "tpf_all", "tau_round"),
            rows,
            left=frozenset({0, 1}),
        ),
    )


def speed_by_concurrency(document: ReportDocument) -> Chart | None:
    """Speedup against requests decoded together, batched or in flight; `None` with fewer than two levels."""
    arms = [
        a
        for a in named_arms(document)
        if not is_ar(a.part.arm) and (a.arm.decode is not None or end_to_end(a.arm) is not None)
    ]
    levels = sorted({concurrency(a.run, a.part.arm) for a in arms})
    if len(levels) < 2:
        return None
    families: dict[str, list[Named]] = {}
    for a in sorted(arms, key=lambda a: concurrency(a.run, a.part.arm)):
        families.setdefault(without_batch(a.part.arm), []).append(a)
    colours = palette(document)
    lines = [
        line
        for name, own in families.items()
        for line in _lines(
            name,
            [(levels.index(concurrency(a.run, a.part.arm)), a.arm) for a in own],
            colour=colours[own[0].label],
        )
    ]
    rows = [
        (
            a.part.arm,
            str(concurrency(a.run, a.part.arm)),
            a.run.name,
            interval(a.arm.decode, "×"),
            interval(end_to_end(a.arm), "×"),
        )
        for own in families.values()
        for a in own
    ]
    title = "Speedup against concurrency"
    return _curve(
        document,
        lines,
        key="concurrency",
        title=title,
        note="Requests decoded together. Each point is a ratio to ar at the same number, inside one run.",
        x_label="requests together",
        ticks=list(map(str, levels)),
        table=table(
            title, ("strategy", "together", "run", "decode", "end to end"), rows, left=frozenset({0, 2})
        ),
    )


def latency_by_throughput(document: ReportDocument) -> Chart | None:
    """Latency of servers against their throughput, a point a concurrency; `None` with fewer than two."""
    families: dict[str, list[tuple[Named, Load]]] = {}
    for a in named_arms(document):
        if (load := a.arm.load) is not None:
            run = f"{a.run.name} · " if len(document.runs) > 1 else ""
            families.setdefault(run + without_batch(a.part.arm), []).append((a, load))
    if len({load.concurrency for own in families.values() for _, load in own}) < 2:
        return None
    colours, lines = palette(document), list[Line]()
    for name, own in families.items():
        own.sort(key=lambda point: point[1].concurrency)
        rates = tuple(load.requests_per_s for _, load in own)
        for dash, (label, latency_of) in enumerate(_LATENCY.items()):
            latencies = tuple(1000 * latency_of(load) for _, load in own)
            colour = colours.get(own[0][0].label)
            lines.append(Line(label=f"{name}, {label}", x=rates, y=latencies, colour=colour, dash=dash))
    rows = [
        (
            name,
            str(load.concurrency),
            f"{load.requests_per_s:.2f}",
            NONE if load.tokens_per_s is None else f"{load.tokens_per_s:.0f}",
            *(f"{1000 * s:.0f}" for s in (load.latency_p50_s, load.latency_p90_s, load.latency_p99_s)),
            str(load.cut),
        )
        for name, own in families.items()
        for _, load in own
    ]
    title = "Latency against throughput"
    columns = ("strategy", "under way", "requests/s", "tokens/s", "P50 ms", "P90 ms", "P99 ms", "cut")
    shown = lines[:MAX_SERIES]
    return Chart(
        key="load",
        title=title,
        note="A point a number of requests under way, ramp-up and drain cut. Down and right is better."
        + left_out(lines),
        svg=plots.line_chart(
            shown,
            key="load",
            title=title,
            description=described("Latency in milliseconds", shown),
            x_label="requests a second",
            y_label="latency (ms)",
            ratio=True,
        ),
        table=table(title, columns, rows),
    )


def _lines(name: str, points: Sequence[tuple[int, ArmAnalysis | GroupRow]], *, colour: int) -> list[Line]:
    """Decode (solid) and end-to-end (dashed) line of one name through (tick, strategy or group)."""
    found: list[Line] = []
    for dash, (kind, label) in enumerate(_KIND.items()):
        shown = [(float(x), e) for x, given in points if (e := estimate(given, kind)) is not None]
        xs, estimates = [x for x, _ in shown], [e for _, e in shown]
        found += interval_lines(f"{name}, {label}", xs, estimates, colour=colour, dash=dash)
    return found


def _predicted(name: str, points: Sequence[tuple[int, ArmAnalysis]], *, colour: int) -> list[Line]:
    """What the cost model says of decoding, as a dotted line; none of fewer than two points."""
    found = [(float(x), a.cost_model.predicted) for x, a in points if a.cost_model is not None]
    if len(found) < 2:
        return []
    xs, ys = zip(*found, strict=True)
    return [Line(label=f"{name}, predicted", x=xs, y=ys, colour=colour, dash=plots.DOTTED)]


def _curve(
    document: ReportDocument,
    lines: Sequence[Line],
    *,
    key: str,
    title: str,
    note: str,
    x_label: str,
    ticks: Sequence[str],
    table: Table,
) -> Chart:
    """What every speedup curve shares: the ratio to ar upwards, logarithmic, with a line where it is 1.

    It is drawn twice, for a screen and for a phone.
    """

    def drawn(lines: Sequence[Line], *, narrow: bool) -> Markup:
        return plots.line_chart(
            lines,
            key=f"{key}-narrow" if narrow else key,
            title=title,
            description=described("Speedup over ar", lines),
            x_label=x_label,
            y_label=over_ar(document),
            ticks=ticks,
            level=1.0,
            ratio=True,
            narrow=narrow,
        )

    shown = lines[:MAX_SERIES]
    return Chart(
        key=key,
        title=title,
        note=note + left_out(lines),
        svg=drawn(shown, narrow=False) if shown else None,
        narrow=drawn(shown, narrow=True) if shown else None,
        table=table,
    )


def estimate(given: ArmAnalysis | GroupRow, kind: str) -> SpeedEstimate | None:
    """`decode` or end-to-end speedup of a strategy, or of it on a group."""
    return given.decode if kind == "decode" else end_to_end(given)


def _one_a_block(arms: Sequence[Named]) -> list[Named]:
    """One strategy a block size, smallest first; of several the first counts."""
    found: dict[int, Named] = {}
    for a in arms:
        found.setdefault(int(a.part.block or 0), a)
    return [found[size] for size in sorted(found)]


def _ordered(labels: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(labels), key=lambda label: int(label.split("-")[0].rstrip("+")))


def _group_cells(g: GroupRow) -> tuple[str, ...]:
    return (
        str(g.n),
        interval(g.decode, "×"),
        interval(end_to_end(g), "×"),
        interval(g.counters.get("tpf_all")),
        interval(g.counters.get("tau_round")),
    )


def speed_map(label: str, a: ArmAnalysis, pairs: PairTimes) -> Table | None:
    """Speedup of whole requests or pages by task and output length: sums over the pairs of a cell.

    Tinted by ratio where a cell has enough pairs; `None` with a single cell.
    """
    starts = sorted({int(g.label.split("-")[0].rstrip("+")) for g in a.groups if g.kind == "length"})
    names = {int(g.label.split("-")[0].rstrip("+")): g.label for g in a.groups if g.kind == "length"}
    cells: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for task, tokens, base, own in zip(pairs.tasks, pairs.tokens, pairs.base_ns, pairs.own_ns, strict=True):
        start = max((s for s in starts if s <= tokens), default=None)
        if start is not None and own > 0:
            cells.setdefault((task, start), []).append((base, own))
    if len(cells) < 2:
        return None
    rows: list[tuple[str | Cell, ...]] = [
        (task, *(_cell_of(cells.get((task, start), [])) for start in starts))
        for task in sorted({task for task, _ in cells})
    ]
    columns = ("task", *(f"{names[start]} tokens" for start in starts))
    return table(f"End-to-end speedup by task and output length (pairs): {label}", columns, rows)


def _cell_of(pairs: Sequence[tuple[int, int]]) -> Cell:
    if not pairs:
        return Cell(text=NONE)
    ratio = sum(base for base, _ in pairs) / sum(own for _, own in pairs)
    tint = tint_of_ratio(Interval(value=ratio, low=ratio, high=ratio)) if len(pairs) >= TINTED else None
    return Cell(text=f"{ratio:.2f}× ({len(pairs)})", tint=tint)
