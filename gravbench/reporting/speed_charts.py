"""Charts of speed: against block size, output length and concurrency; stage by stage, sample by sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from gravbench.analysis.run_analysis import ArmAnalysis, GroupRow
from gravbench.analysis.speed import SpeedEstimate
from gravbench.arms import batch_of, is_ar, parse_arm, without_batch
from gravbench.reporting import plots
from gravbench.reporting.charts import (
    MAX_SERIES,
    Chart,
    Line,
    Named,
    Waterfall,
    best_first,
    concurrency,
    described,
    end_to_end,
    end_to_end_column,
    interval_lines,
    left_out,
    named_arms,
    of_pages,
    over_ar,
    palette,
)
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.tables import Table, interval, milliseconds, number, table, times

CURVES = frozenset({"block", "length", "concurrency"})
"""Keys of the charts of which the first one drawn leads the page."""
DRAWN_BY_LENGTH = 2
"""Strategies whose lines stand against output length."""
_KIND = {"decode": "decode", "request": "end to end"}


def speed_charts(document: ReportDocument, detailed: Sequence[Named]) -> list[Chart]:
    """The charts of a page's part on speed, in order; a strategy of `detailed` has charts of its own."""
    found = (
        speed_by_block(document),
        speed_by_length(document),
        speed_by_concurrency(document),
        *(amdahl_waterfall(a, f"amdahl{i}") for i, a in enumerate(detailed)),
        *(pair_scatter(a, f"scatter{i}") for i, a in enumerate(detailed)),
        *(drift_chart(a, f"drift{i}") for i, a in enumerate(detailed)),
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


_SHARES = " Times of crops that decode together are shares of shared forwards, not latencies."
STAGE_ORDER = ("load", "image", "layout", "crop", "vision", "prefill", "decode", "assembly", "other")


def amdahl_waterfall(a: Named, key: str) -> Chart | None:
    """From the request time of the speed base, stage by stage, to the strategy's own."""
    split = stage_split(a)
    if split is None:
        return None
    base, own, what = split
    own_total = sum(own.values())
    known = sorted({*base, *own}, key=lambda s: (STAGE_ORDER.index(s) if s in STAGE_ORDER else 99, s))
    stages = [s for s in known if base.get(s) or own.get(s)]
    labels, starts, ends, totals = [a.over], [0.0], [1.0], [True]
    level = 1.0
    rows: list[tuple[str, ...]] = []
    for stage in stages:
        before, after = base.get(stage, 0.0), own.get(stage, 0.0)
        labels.append(stage)
        starts.append(level)
        level += after - before
        ends.append(level)
        totals.append(False)
        rows.append((stage, f"{before:.1%}", f"{after:.1%}", f"{after - before:+.1%}"))
    labels.append(a.part.arm)
    starts.append(0.0)
    ends.append(own_total)
    totals.append(True)
    rows.append((f"whole {what}", "100.0%", f"{own_total:.1%}", f"{own_total - 1:+.1%}"))
    title = f"Where the time goes: {a.label}"
    return Chart(
        key=key,
        title=title,
        note=_amdahl_note(base, own, what, over=a.over),
        svg=plots.waterfall_chart(
            Waterfall(labels=tuple(labels), starts=tuple(starts), ends=tuple(ends), totals=tuple(totals)),
            key=key,
            title=title,
            description=f"Time of a {what} goes from 100 % to {own_total:.0%} of {a.over}'s.",
            x_label=f"share of {a.over}'s {what} time",
        ),
        table=table(title, ("stage", a.over, "own", "change"), rows),
    )


def stage_split(a: Named) -> tuple[dict[str, float], dict[str, float], str] | None:
    """Stage times of speed base and strategy in units of the base's whole time, and what a whole is.

    Pages have layout, crops and assembly beside the model's stages; `None` where no whole was timed.
    """
    if a.part.base_stages.get("total"):
        whole = a.part.base_stages["total"]
        sides = (a.part.base_stages, a.part.own_stages)
        inner = ("total", "draft", "verify")
        base, own = ({s: ns / whole for s, ns in side.items() if s not in inner} for side in sides)
        return base, own, "page"
    if (found := a.arm.amdahl) is None:
        return None
    own_total = 1 / found.measured
    return dict(found.base_shares), {s: v * own_total for s, v in found.own_shares.items()}, "request"


def _amdahl_note(base: dict[str, float], own: dict[str, float], what: str, *, over: str) -> str:
    """predicted = 1 / ((1 - d) + d / s), d the decode share of the base, s the decode speedup."""
    share, spent, total = base.get("decode", 0.0), own.get("decode", 0.0), sum(own.values())
    if not spent or not total:
        return "Decode times are not at hand, so there is nothing to predict from."
    predicted, measured = 1 / (1 - share + spent), 1 / total
    residual = measured / predicted - 1
    return (
        f"Amdahl: decoding takes {share:.0%} of {over}'s {what} time, so {share / spent:.2f}× in decoding "
        f"predicts {predicted:.2f}× for a {what}; measured {measured:.2f}×, residual {residual:+.1%}."
    )


def pair_scatter(a: Named, key: str) -> Chart | None:
    """One dot a sample: request time of the speed base against the strategy's own, both logarithmic."""
    p = a.part.pairs
    shown = [i for i in range(len(p.base_ns)) if p.base_ns[i] > 0 and p.own_ns[i] > 0]
    if not shown:
        return None
    title = f"Sample by sample: {a.label}"
    rows: list[tuple[str, ...]] = [
        (
            p.sample_ids[i],
            p.tasks[i],
            str(p.tokens[i]),
            milliseconds(p.base_ns[i]),
            milliseconds(p.own_ns[i]),
            times(p.base_ns[i] / p.own_ns[i]),
        )
        for i in shown
    ]
    return Chart(
        key=key,
        title=title,
        note="Whole requests or pages. Below the line of equal times drafting was faster. All are shown."
        + (_SHARES if batch_of(a.part.arm) > 1 and not of_pages(a.arm) else ""),
        svg=plots.scatter_chart(
            [p.base_ns[i] / 1e6 for i in shown],
            [p.own_ns[i] / 1e6 for i in shown],
            key=key,
            title=title,
            description=f"{len(shown)} samples; speedup {interval(end_to_end(a.arm), '×')}.",
            x_label=f"{a.over}, ms",
            y_label=f"{a.part.arm}, ms",
            guides=(1, 2, 4),
            log_x=True,
        ),
        table=table(
            title, ("sample", "task", "tokens", a.over, "own", "speedup"), rows, left=frozenset({0, 1})
        ),
    )


def drift_chart(a: Named, key: str) -> Chart | None:
    """Ratio of costs per forward by slot, with the blocks of the steadiness check."""
    c = a.part.costs
    if len(c.slots) < 2:
        return None
    ratios = [b / o for b, o in zip(c.base, c.own, strict=True)]
    d, s = a.arm.drift, a.arm.steadiness
    said = []
    if d is not None:
        said.append(f"Change from first to last slot {d.change:+.1%} [{d.low:+.1%}, {d.high:+.1%}].")
    if s is not None:
        word = "No change seen beyond noise" if s.steady else "NOT STEADY"
        said.append(
            f"{word}: the last three of six blocks lie within "
            f"{s.last_three_spread:.1%}; first block {s.warm_up:+.1%} against the others."
        )
    steps = []
    if s is not None:
        for index, height in enumerate(s.block_ratios):
            low, high = (round(len(c.slots) * (index + i) / len(s.block_ratios)) for i in (0, 1))
            steps.append((c.slots[low], c.slots[high - 1], height))
    title = f"Did the machine hold still? {a.label}"
    rows: list[tuple[str, ...]] = [
        (f"{slot:g}", milliseconds(b), milliseconds(o), number(b / o, 3))
        for slot, b, o in zip(c.slots, c.base, c.own, strict=True)
    ]
    return Chart(
        key=key,
        title=title,
        note=" ".join(said) or "Too few pairs to measure drift.",
        svg=plots.scatter_chart(
            c.slots,
            ratios,
            key=key,
            title=title,
            description=" ".join(said) or "Cost ratio by slot.",
            x_label="slot (order of execution)",
            y_label=f"cost per forward, {a.over} / own",
            steps=steps,
        ),
        table=table(title, ("slot", f"{a.over}, per forward", "own, per forward", "ratio"), rows),
    )
