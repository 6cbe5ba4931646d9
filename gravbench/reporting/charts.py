"""Which charts a report has: each with a title, what it shows in a sentence, and the table behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.overall_difference import COMPOSITE
from gravbench.analysis.run_analysis import BASE, ArmAnalysis, GroupRow
from gravbench.reporting import plots
from gravbench.reporting.document import ArmPart, ReportDocument, RunPart
from gravbench.reporting.series import Bars, Line, Waterfall
from gravbench.reporting.tables import Table, interval, milliseconds, number, table, times

MAX_SERIES = 8
SHOWN_POSITIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing, or the reason why there is none, and its table."""

    key: str
    title: str
    note: str
    svg: Markup | None
    table: Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One strategy of one run. `label` carries the run only where there are several."""

    label: str
    run: RunPart
    part: ArmPart
    arm: ArmAnalysis


def named_arms(document: ReportDocument) -> list[Named]:
    """Every strategy of every run, in order."""
    several = len(document.runs) > 1
    return [
        Named(label=f"{run.name} · {part.arm}" if several else part.arm, run=run, part=part, arm=arm)
        for run in document.runs
        for part, arm in zip(run.arms, run.analysis.arms, strict=True)
    ]


def speed_by_block(document: ReportDocument) -> Chart | None:
    """Speedup against block size; `None` with fewer than two sizes."""
    arms = [a for a in named_arms(document) if a.part.block is not None and a.arm.decode is not None]
    families: dict[str, list[Named]] = {}
    for a in arms:
        run = f"{a.run.name} · " if len(document.runs) > 1 else ""
        families.setdefault(run + a.part.arm.partition(":")[0], []).append(a)
    families = {name: _one_a_block(own) for name, own in families.items()}
    sizes = sorted({int(a.part.block or 0) for own in families.values() for a in own})
    if len(sizes) < 2:
        return None
    lines = []
    for name, own in families.items():
        for kind in ("decode", "request"):
            shown = [(a, e) for a in own if (e := getattr(a.arm, kind)) is not None]
            xs = [float(sizes.index(int(a.part.block or 0))) for a, _ in shown]
            lines += _lines(f"{name}, {_KIND[kind]}", xs, [e for _, e in shown])
    rows = [
        (a.label, str(a.part.block), interval(a.arm.decode, "×"), interval(a.arm.request, "×"),
         interval(a.arm.counters.get("tpf_all")), interval(a.arm.counters.get("tau_round")))
        for own in families.values() for a in own
    ]  # fmt: skip
    title = "Speedup against block size"
    return Chart(
        key="block",
        title=title,
        note="Masked positions a draft fills per round. Above the dotted line drafting pays.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="block",
            title=title,
            description=_range("Speedup over ar", lines),
            x_label="block size",
            y_label="speedup over ar",
            ticks=[str(size) for size in sizes],
            level=1.0,
        ),
        table=table(title, ("strategy", "block", "decode", "end to end", "tpf_all", "tau_round"), rows),
    )


def speed_by_length(document: ReportDocument) -> Chart | None:
    """Speedup against output length, decode-only and end-to-end, of the best arms."""
    arms = best_first(document)[:3]
    labels = _ordered(g.label for a in arms for g in a.arm.groups if g.kind == "length")
    if not labels:
        return None
    lines = []
    rows: list[tuple[str, ...]] = []
    for a in arms:
        groups = [g for g in a.arm.groups if g.kind == "length"]
        for kind in ("decode", "request"):
            shown = [(g, e) for g in groups if (e := getattr(g, kind)) is not None]
            xs = [float(labels.index(g.label)) for g, _ in shown]
            lines += _lines(f"{a.label}, {_KIND[kind]}", xs, [e for _, e in shown])
        rows += [(a.label, g.label, *_group_cells(g)) for g in groups]
    title = "Speedup against output length"
    return Chart(
        key="length",
        title=title,
        note="Output tokens of ar, prefill's token and EOS included. Short outputs cap every speedup.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="length",
            title=title,
            description=_range("Speedup over ar", lines),
            x_label="output tokens",
            y_label="speedup over ar",
            ticks=labels,
            level=1.0,
        )
        if lines
        else None,
        table=table(
            title, ("strategy", "tokens", "n", "decode", "end to end", "tpf_all", "tau_round"), rows,
            left=frozenset({0, 1}),
        ),
    )  # fmt: skip


def speed_by_concurrency(document: ReportDocument) -> Chart | None:
    """Speedup against requests in flight; `None` unless the runs differ in it."""
    levels = sorted({concurrency(run) for run in document.runs})
    if len(levels) < 2:
        return None
    families: dict[str, list[Named]] = {}
    for a in named_arms(document):
        if a.arm.decode is not None or a.arm.request is not None:
            families.setdefault(a.part.arm, []).append(a)
    lines = []
    for name, own in families.items():
        for kind in ("decode", "request"):
            shown = [(a, e) for a in own if (e := getattr(a.arm, kind)) is not None]
            xs = [float(levels.index(concurrency(a.run))) for a, _ in shown]
            lines += _lines(f"{name}, {_KIND[kind]}", xs, [e for _, e in shown])
    rows = [
        (a.part.arm, str(concurrency(a.run)), a.run.name, interval(a.arm.decode, "×"), interval(a.arm.request, "×"))
        for own in families.values() for a in own
    ]  # fmt: skip
    title = "Speedup against concurrency"
    return Chart(
        key="concurrency",
        title=title,
        note="Requests in flight together. Each point is a ratio inside one run.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="concurrency",
            title=title,
            description=_range("Speedup over ar", lines),
            x_label="requests in flight",
            y_label="speedup over ar",
            ticks=[str(level) for level in levels],
            level=1.0,
        ),
        table=table(title, ("strategy", "in flight", "run", "decode", "end to end"), rows, left=frozenset({0, 2})),
    )


def accepted_histogram(document: ReportDocument) -> Chart:
    """How many drafts a round accepted, as a share of the rounds that drafted."""
    title = "Accepted draft tokens per round"
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None][:4]
    bars = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        rounds = sum(found.histogram.values())
        bars.append(
            Bars(
                label=a.label,
                x=tuple(found.histogram),
                heights=tuple(count / rounds for count in found.histogram.values()),
            )
        )
        rows += [(a.label, str(k), str(n), f"{n / rounds:.1%}") for k, n in found.histogram.items()]
    return Chart(
        key="accepted",
        title=title,
        note="Only rounds that offered a draft. The verifier's own tokens (seed, correction, bonus) are not in it.",
        svg=plots.bar_chart(
            bars,
            key="accepted",
            title=title,
            description="Share of drafting rounds by number of accepted tokens. "
            + "; ".join(f"{a.label}: mean {number(a.part.counters.accepted_draft)}" for a, _ in arms),
            x_label="accepted draft tokens in a round",
            y_label="share of rounds",
        )
        if bars
        else None,
        table=table(title, ("strategy", "accepted", "rounds", "share"), rows) if rows else None,
    )


def acceptance_by_position(document: ReportDocument) -> Chart:
    """P(accepted >= j), plain and given j - 1; rounds cut by the end leave the risk set there."""
    title = "Acceptance by draft position"
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None][:3]
    lines = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        positions = found.positions[:SHOWN_POSITIONS]
        lines.append(
            Line(
                label=f"{a.label}, all before too",
                x=tuple(float(p.position) for p in positions),
                y=tuple(p.unconditional for p in positions),
            )
        )
        given = [p for p in positions if p.conditional is not None]
        lines.append(
            Line(
                label=f"{a.label}, given those before",
                x=tuple(float(p.position) for p in given),
                y=tuple(p.conditional or 0.0 for p in given),
            )
        )
        rows += [
            (a.label, str(p.position), str(p.at_risk), str(p.reached), str(p.accepted),
             number(p.unconditional, 3), number(p.conditional, 3))
            for p in positions
        ]  # fmt: skip
    lines = [line for line in lines if line.x]
    return Chart(
        key="position",
        title=title,
        note="A round cut by EOS or the budget leaves the risk set at the cut (right-censoring); otherwise short "
        "outputs would bend the tail downwards.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="position",
            title=title,
            description=_range("Acceptance probability", lines),
            x_label="position in the draft",
            y_label="probability",
        )
        if lines
        else None,
        table=table(
            title, ("strategy", "position", "at risk", "reached", "accepted", "P(≥ j)", "P(≥ j | ≥ j−1)"), rows
        )
        if rows
        else None,
    )


def pareto(document: ReportDocument) -> Chart:
    """Quality against decode speedup, one mark a strategy; ar stands at 1."""
    title = "Quality against speed"
    rows: list[tuple[str, ...]] = []
    lines = []
    for a in named_arms(document):
        speed = Interval(value=1.0) if a.arm.arm == BASE else a.arm.decode
        metric = COMPOSITE if COMPOSITE in a.part.levels else next(iter(a.part.levels), None)
        if speed is None or metric is None:
            continue
        level = a.part.levels[metric].points
        lines += _lines(a.label, [speed.value], [level], joined=False)
        rows.append((a.label, interval(speed, "×"), metric, interval(level), str(a.part.levels[metric].n)))
    return Chart(
        key="pareto",
        title=title,
        note="Right and up is better. Bars are 95 % intervals of the quality level; strategies share their samples, so "
        "judge differences by the table of differences, not by overlap.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="pareto",
            title=title,
            description=_range("Quality in points", lines),
            x_label="decode speedup over ar",
            y_label="quality, points",
        )
        if lines
        else None,
        table=table(title, ("strategy", "decode", "metric", "points", "n"), rows, left=frozenset({0, 2}))
        if rows
        else None,
    )


def amdahl_waterfall(a: Named, key: str) -> Chart | None:
    """From the request time of ar, stage by stage, to the strategy's own."""
    found = a.arm.amdahl
    if found is None:
        return None
    own_total = 1 / found.measured
    stages = [s for s in found.base_shares if found.base_shares[s] or found.own_shares.get(s)]
    labels, starts, ends, totals = ["ar"], [0.0], [1.0], [True]
    level = 1.0
    rows: list[tuple[str, ...]] = []
    for stage in stages:
        before, after = found.base_shares[stage], found.own_shares.get(stage, 0.0) * own_total
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
    rows.append(("whole request", "100.0%", f"{own_total:.1%}", f"{own_total - 1:+.1%}"))
    title = f"Where the time goes: {a.label}"
    return Chart(
        key=key,
        title=title,
        note=f"Amdahl: decoding takes {found.base_shares.get('decode', 0):.0%} of ar's request time, so "
        f"{found.decode_speedup:.2f}× in decoding predicts {found.predicted:.2f}× for requests; measured "
        f"{found.measured:.2f}×, residual {found.residual:+.1%}.",
        svg=plots.waterfall_chart(
            Waterfall(labels=tuple(labels), starts=tuple(starts), ends=tuple(ends), totals=tuple(totals)),
            key=key,
            title=title,
            description=f"Request time falls from 100 % to {own_total:.0%} of ar's.",
            x_label="share of ar's request time",
        ),
        table=table(title, ("stage", "ar", "own", "change"), rows),
    )


def pair_scatter(a: Named, key: str) -> Chart | None:
    """One dot a sample: request time of ar against the strategy's own, both logarithmic."""
    p = a.part.pairs
    shown = [i for i in range(len(p.base_ns)) if p.base_ns[i] > 0 and p.own_ns[i] > 0]
    if not shown:
        return None
    title = f"Sample by sample: {a.label}"
    rows: list[tuple[str, ...]] = [
        (p.sample_ids[i], p.tasks[i], str(p.tokens[i]), milliseconds(p.base_ns[i]), milliseconds(p.own_ns[i]),
         times(p.base_ns[i] / p.own_ns[i]))
        for i in shown
    ]  # fmt: skip
    return Chart(
        key=key,
        title=title,
        note="Whole requests. Below the line of equal times drafting was faster. No outlier is left out.",
        svg=plots.scatter_chart(
            [p.base_ns[i] / 1e6 for i in shown],
            [p.own_ns[i] / 1e6 for i in shown],
            key=key,
            title=title,
            description=f"{len(shown)} samples; request speedup {interval(a.arm.request, '×')}.",
            x_label="ar, ms",
            y_label=f"{a.part.arm}, ms",
            guides=(1, 2, 4),
            log=True,
        ),
        table=table(
            title, ("sample", "task", "tokens", "ar", "own", "speedup"), rows, left=frozenset({0, 1})
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
        said.append(
            f"{'Steady' if s.steady else 'Not steady'}: the last three of six blocks lie within "
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
            y_label="cost per forward, ar / own",
            steps=steps,
        ),
        table=table(title, ("slot", "ar, per forward", "own, per forward", "ratio"), rows),
    )


def best_first(document: ReportDocument) -> list[Named]:
    """Strategies other than ar, the fastest in decoding first; those without a time last."""
    others = [a for a in named_arms(document) if a.part.arm != BASE]
    speed: Callable[[Named], float] = lambda a: a.arm.decode.value if a.arm.decode else 0.0  # noqa: E731
    return sorted(others, key=lambda a: -speed(a))


def concurrency(run: RunPart) -> int:
    """Requests in flight, 1 unless the run says otherwise."""
    value = run.identity.get("concurrency", run.protocol.get("concurrency"))
    return value if isinstance(value, int) else 1


_KIND = {"decode": "decode", "request": "end to end"}


def _lines(
    label: str, xs: Sequence[float], estimates: Sequence[Interval], *, joined: bool = True
) -> list[Line]:
    if not estimates:
        return []
    return [
        Line(
            label=label,
            x=tuple(xs),
            y=tuple(e.value for e in estimates),
            low=tuple(e.value if e.low is None else e.low for e in estimates),
            high=tuple(e.value if e.high is None else e.high for e in estimates),
            joined=joined,
        )
    ]


def _one_a_block(arms: Sequence[Named]) -> list[Named]:
    """One strategy a block size, smallest first; of several the first counts (they are named in the table)."""
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
        interval(g.request, "×"),
        interval(g.counters.get("tpf_all")),
        interval(g.counters.get("tau_round")),
    )


def _range(what: str, lines: Sequence[Line]) -> str:
    said = [f"{line.label}: {min(line.y):.2f} to {max(line.y):.2f}" for line in lines]
    return f"{what}. " + "; ".join(said)
