"""Speedup against block size, output length and concurrency: decode-only and end-to-end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from gravbench.analysis.run_analysis import ArmAnalysis, GroupRow
from gravbench.analysis.speed_estimate import SpeedEstimate
from gravbench.arms import batch_of, is_ar, without_batch
from gravbench.reporting import plots
from gravbench.reporting.charts import (
    MAX_SERIES,
    Chart,
    Named,
    best_first,
    concurrency,
    described,
    end_to_end,
    end_to_end_column,
    interval_lines,
    named_arms,
    over_ar,
)
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.series import Line
from gravbench.reporting.tables import interval, table

_KIND = {"decode": "decode", "request": "end to end"}


def speed_by_block(document: ReportDocument) -> Chart | None:
    """Speedup against block size; `None` with fewer than two sizes."""
    arms = [a for a in named_arms(document) if a.part.block is not None and a.arm.decode is not None]
    families: dict[str, list[Named]] = {}
    for a in arms:
        run = f"{a.run.name} · " if len(document.runs) > 1 else ""
        batch = f", batch {batch_of(a.part.arm)}" if batch_of(a.part.arm) > 1 else ""
        families.setdefault(run + a.part.arm.partition(":")[0] + batch, []).append(a)
    families = {name: _one_a_block(own) for name, own in families.items()}
    sizes = sorted({int(a.part.block or 0) for own in families.values() for a in own})
    if len(sizes) < 2:
        return None
    lines = [
        line
        for name, own in families.items()
        for line in _lines(name, [(sizes.index(int(a.part.block or 0)), a.arm) for a in own])
    ]
    rows = [
        (
            a.label,
            str(a.part.block),
            interval(a.arm.decode, "×"),
            interval(end_to_end(a.arm), "×"),
            interval(a.arm.counters.get("tpf_all")),
            interval(a.arm.counters.get("tau_round")),
        )
        for own in families.values()
        for a in own
    ]
    title = "Speedup against block size"
    return Chart(
        key="block",
        title=title,
        note="Masked positions a draft fills per round. Above the dotted line drafting pays.",
        svg=_drawn(
            document, lines, key="block", title=title, x_label="block size", ticks=list(map(str, sizes))
        ),
        table=table(title, ("strategy", "block", "decode", "end to end", "tpf_all", "tau_round"), rows),
    )


def speed_by_length(document: ReportDocument) -> Chart | None:
    """Speedup against output length, decode-only and end-to-end, of the best arms."""
    arms = best_first(document)[:3]
    labels = _ordered(g.label for a in arms for g in a.arm.groups if g.kind == "length")
    if not labels:
        return None
    lines: list[Line] = []
    rows: list[tuple[str, ...]] = []
    for a in arms:
        groups = [g for g in a.arm.groups if g.kind == "length"]
        lines += _lines(a.label, [(labels.index(g.label), g) for g in groups])
        rows += [(a.label, g.label, *_group_cells(g)) for g in groups]
    column = end_to_end_column(g for a in arms for g in a.arm.groups if g.kind == "length")
    title = "Speedup against output length"
    return Chart(
        key="length",
        title=title,
        note="Output tokens of ar, prefill's token and EOS included. Short outputs cap every speedup.",
        svg=_drawn(document, lines, key="length", title=title, x_label="output tokens", ticks=labels)
        if lines
        else None,
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
    lines = [
        line
        for name, own in families.items()
        for line in _lines(name, [(levels.index(concurrency(a.run, a.part.arm)), a.arm) for a in own])
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
    return Chart(
        key="concurrency",
        title=title,
        note="Requests decoded together. Each point is a ratio to ar at the same number, inside one run.",
        svg=_drawn(
            document,
            lines,
            key="concurrency",
            title=title,
            x_label="requests together",
            ticks=list(map(str, levels)),
        ),
        table=table(
            title, ("strategy", "together", "run", "decode", "end to end"), rows, left=frozenset({0, 2})
        ),
    )


def _lines(name: str, points: Sequence[tuple[int, ArmAnalysis | GroupRow]]) -> list[Line]:
    """Decode and end-to-end line of one name through (tick, strategy or group), where measured."""
    found: list[Line] = []
    for kind, label in _KIND.items():
        shown = [(float(x), e) for x, given in points if (e := estimate(given, kind)) is not None]
        found += interval_lines(f"{name}, {label}", [x for x, _ in shown], [e for _, e in shown])
    return found


def _drawn(
    document: ReportDocument,
    lines: Sequence[Line],
    *,
    key: str,
    title: str,
    x_label: str,
    ticks: Sequence[str],
) -> Markup:
    """What every speedup curve shares: speedup over ar upwards, a dotted line where drafting pays."""
    return plots.line_chart(
        lines[:MAX_SERIES],
        key=key,
        title=title,
        description=described("Speedup over ar", lines),
        x_label=x_label,
        y_label=over_ar(document),
        ticks=ticks,
        level=1.0,
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
