"""Charts of one strategy: where its time goes, sample by sample, and whether the machine held still."""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.arms import batch_of
from gravbench.reporting import plots
from gravbench.reporting.charts import Chart, Named, Waterfall, end_to_end, of_pages
from gravbench.reporting.tables import interval, milliseconds, number, table, times


def detail_charts(detailed: Sequence[Named]) -> list[Chart]:
    """Three of each strategy, kind by kind; those that have nothing to draw are left out."""
    found = (
        *(amdahl_waterfall(a, f"amdahl{i}") for i, a in enumerate(detailed)),
        *(pair_scatter(a, f"scatter{i}") for i, a in enumerate(detailed)),
        *(drift_chart(a, f"drift{i}") for i, a in enumerate(detailed)),
    )
    return [chart for chart in found if chart is not None]


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
