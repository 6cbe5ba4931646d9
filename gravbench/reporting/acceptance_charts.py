"""What drafting did: accepted tokens, acceptance by position, and quality against speed."""

from __future__ import annotations

from gravbench.analysis.bootstrap import Interval
from gravbench.arms import is_ar
from gravbench.reporting import plots
from gravbench.reporting.charts import (
    MAX_SERIES,
    Bars,
    Chart,
    Line,
    any_batch,
    best_first,
    described,
    interval_lines,
    main_metric,
    named_arms,
    over_ar,
)
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.tables import interval, number, table

SHOWN_POSITIONS = 64
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
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None][:4]
    bars = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        counts = sorted(found.histogram.items())
        rounds = sum(n for _, n in counts)
        heights = tuple(n / rounds for _, n in counts)
        bars.append(Bars(label=a.label, x=tuple(k for k, _ in counts), heights=heights))
        rows += [(a.label, str(k), str(n), f"{n / rounds:.1%}") for k, n in counts]
    return Chart(
        key="accepted",
        title=title,
        note="Only rounds that drafted. The verifier's own tokens (seed, correction, bonus) are left out; "
        "drafts accepted behind the end of an output are in.",
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
    """P(accepted >= j) by Kaplan-Meier, and given j - 1; rounds cut by the end leave the risk set there."""
    title = "Acceptance by draft position"
    arms = [(a, a.arm.acceptance) for a in best_first(document) if a.arm.acceptance is not None][:3]
    lines = []
    rows: list[tuple[str, ...]] = []
    for a, found in arms:
        assert found is not None
        positions = found.positions[:SHOWN_POSITIONS]
        survival = found.survival
        told = [p for p in positions if p.position in survival and p.at_risk >= MIN_ROUNDS]
        lines.append(
            Line(
                label=f"{a.label}, P(≥ j)",
                x=tuple(float(p.position) for p in told),
                y=tuple(survival[p.position] for p in told),
            )
        )
        given = [p for p in positions if p.conditional is not None and p.reached >= MIN_ROUNDS]
        lines.append(
            Line(
                label=f"{a.label}, given j−1",
                x=tuple(float(p.position) for p in given),
                y=tuple(p.conditional or 0.0 for p in given),
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
        "where ten rounds or more tell.",
        svg=plots.line_chart(
            lines[:MAX_SERIES],
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
    """Quality against decode speedup over `ar` at the same batch size, one mark a strategy; `ar` is at 1."""
    title = "Quality against speed"
    rows: list[tuple[str, ...]] = []
    lines = []
    for a in named_arms(document):
        speed = Interval(value=1.0) if is_ar(a.arm.arm) else a.arm.decode
        metric = main_metric(a.part.levels)
        if speed is None or metric is None:
            continue
        level = a.part.levels[metric].points
        lines += interval_lines(a.label, [speed.value], [level], joined=False)
        rows.append((a.label, interval(speed, "×"), metric, interval(level), str(a.part.levels[metric].n)))
    return Chart(
        key="pareto",
        title=title,
        note="Right and up is better. Bars are 95 % intervals of the quality level; "
        "strategies share their samples, so judge differences by the table of differences, not by overlap."
        + (_SAME_SIZE if any_batch(document) else ""),
        svg=plots.line_chart(
            lines[:MAX_SERIES],
            key="pareto",
            title=title,
            description=described("Quality in points", lines),
            x_label=f"decode {over_ar(document)}",
            y_label="quality, points",
        )
        if lines
        else None,
        table=table(title, ("strategy", "decode", "metric", "points", "n"), rows, left=frozenset({0, 2}))
        if rows
        else None,
    )
