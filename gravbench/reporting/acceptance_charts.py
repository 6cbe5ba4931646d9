"""What drafting did: accepted tokens, acceptance by position, and quality against speed."""

from __future__ import annotations

from gravbench.analysis.bootstrap import Interval
from gravbench.arms import is_ar
from gravbench.reporting import plots
from gravbench.reporting.charts import (
    Bars,
    Chart,
    Line,
    any_batch,
    best_first,
    described,
    left_out,
    limits,
    main_metric,
    named_arms,
    over_ar,
    palette,
)
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.tables import interval, number, table

DRAWN_BARS, DRAWN_BY_POSITION = 4, 2
"""Strategies of which there is room for bars, and for lines by position."""
SHOWN_POSITIONS = 64
MOST_MARKS = 14
"""Strategies whose names fit beside the plane of speed and quality."""
MIN_ROUNDS = 10
"""Rounds a drawn probability rests on; the table has every position."""
_SAME_SIZE = (
    " Each strategy is held against ar at its own batch size, so every ar stands at 1 and the gain of "
    "batching is not in the picture."
)


def acceptance_charts(document: ReportDocument) -> list[Chart]:
    """The charts of a page's part on acceptance, in order."""
    return [accepted_histogram(document), acceptance_by_position(document)]


def quality_charts(document: ReportDocument) -> list[Chart]:
    """The charts of a page's part on quality, in order."""
    return [pareto(document)]


def accepted_histogram(document: ReportDocument) -> Chart:
    """How many drafts a round accepted, as a share of the rounds that drafted."""
    title = "Accepted draft tokens per round"
    colours = palette(document)
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None]
    bars = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        counts = sorted(found.histogram.items())
        rounds = sum(n for _, n in counts)
        heights = tuple(n / rounds for _, n in counts)
        x = tuple(k for k, _ in counts)
        bars.append(Bars(label=a.label, x=x, heights=heights, colour=colours[a.label]))
        rows += [(a.label, str(k), str(n), f"{n / rounds:.1%}") for k, n in counts]
    return Chart(
        key="accepted",
        title=title,
        note="Only rounds that drafted. The verifier's own tokens (seed, correction, bonus) are left out; "
        "drafts accepted behind the end of an output are in."
        + (f" Drawn: the {DRAWN_BARS} fastest; the table has all." if len(bars) > DRAWN_BARS else ""),
        svg=plots.bar_chart(
            bars[:DRAWN_BARS],
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
    """P(accepted >= j) by Kaplan-Meier, and given j - 1; rounds cut by the end leave the risk set there."""
    title = "Acceptance by draft position"
    colours = palette(document)
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None]
    lines = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        positions = found.positions[:SHOWN_POSITIONS]
        survival = found.survival
        told = [p for p in positions if p.position in survival and p.at_risk >= MIN_ROUNDS]
        lines.append(
            Line(
                label=f"{a.label}, P(≥\u00a0j)",
                x=tuple(float(p.position) for p in told),
                y=tuple(survival[p.position] for p in told),
                colour=colours[a.label],
            )
        )
        given = [p for p in positions if p.conditional is not None and p.reached >= MIN_ROUNDS]
        lines.append(
            Line(
                label=f"{a.label}, given\u00a0j−1",
                x=tuple(float(p.position) for p in given),
                y=tuple(p.conditional or 0.0 for p in given),
                colour=colours[a.label],
                dash=1,
            )
        )
        rows += [
            (
                a.label,
                str(p.position),
                str(p.at_risk),
                str(p.reached),
                str(p.accepted),
                number(survival.get(p.position), 3),
                number(p.conditional, 3),
            )
            for p in positions
        ]
    lines = [line for line in lines if line.x]
    return Chart(
        key="position",
        title=title,
        note="P(≥ j) is the running product of the shares given j−1 (Kaplan-Meier). A round cut by EOS or "
        "the budget leaves the risk set at the cut (right-censoring), as nothing is known behind it. Drawn "
        "where ten rounds or more tell."
        + (
            f" Drawn: the {DRAWN_BY_POSITION} fastest; the table has all."
            if len(arms) > DRAWN_BY_POSITION
            else ""
        ),
        svg=plots.line_chart(
            lines[: 2 * DRAWN_BY_POSITION],
            key="position",
            title=title,
            description=described("Acceptance probability", lines),
            x_label="position in the draft",
            y_label="probability",
        )
        if lines
        else None,
        table=table(
            title,
            ("strategy", "position", "at risk", "reached", "accepted", "P(≥ j)", "P(≥ j | ≥ j−1)"),
            rows,
        )
        if rows
        else None,
    )


def pareto(document: ReportDocument) -> Chart:
    """Decode speedup over `ar` at the same batch size against quality, one mark a strategy; `ar` is at 1."""
    title = "Speed against quality"
    colours = palette(document)
    rows: list[tuple[str, ...]] = []
    marks: list[Line] = []
    for a in named_arms(document):
        speed = Interval(value=1.0) if is_ar(a.arm.arm) else a.arm.decode
        metric = main_metric(a.part.levels)
        if speed is None or metric is None:
            continue
        level = a.part.levels[metric].points
        low, high = ((end,) for end in limits(level))
        x, y = (level.value,), (speed.value,)
        marks.append(Line(label=a.label, x=x, y=y, low=low, high=high, joined=False, colour=colours[a.label]))
        rows.append((a.label, interval(speed, "×"), metric, interval(level), str(a.part.levels[metric].n)))
    return Chart(
        key="pareto",
        title=title,
        note="Right and up is better. Bars are 95 % intervals of the quality level; "
        "strategies share their samples, so judge differences by the table of differences, not by overlap."
        + (_SAME_SIZE if any_batch(document) else "")
        + left_out(marks, MOST_MARKS),
        svg=plots.line_chart(
            marks[:MOST_MARKS],
            key="pareto",
            title=title,
            description=described("Decode speedup", marks),
            x_label="quality, points",
            y_label=f"decode {over_ar(document)}",
            ratio=True,
        )
        if marks
        else None,
        table=table(title, ("strategy", "decode", "metric", "points", "n"), rows, left=frozenset({0, 2}))
        if rows
        else None,
    )
