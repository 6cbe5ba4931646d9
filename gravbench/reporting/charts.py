"""What charts share: the strategies of a document, the drawing with its table, lines with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.quality import composites, is_composite
from gravbench.analysis.run_analysis import ArmAnalysis, GroupRow
from gravbench.analysis.speed import SpeedEstimate
from gravbench.arms import AR, batch_of, is_ar
from gravbench.reporting.document import ArmPart, ReportDocument, RunPart
from gravbench.reporting.tables import Table

MAX_SERIES = 8
COLOURS = 7
"""Colours of strategies; the one after them is ar's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of one series. `low` and `high` are limits of intervals, all or none: of y, and of x where
    the points are not joined.

    `colour` is a place in the palette, the same for one strategy in every chart of a page (`None`: the place
    of the line in its chart). `dash` tells lines of one colour apart: 0 solid, 1 dashed, 2 dotted.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    joined: bool = True
    colour: int | None = None
    dash: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Heights over integers; `colour` as in `Line`."""

    label: str
    x: tuple[int, ...]
    heights: tuple[float, ...]
    colour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Bars from `starts` to `ends`; `totals` marks those that stand on the ground."""

    labels: tuple[str, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    totals: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawing, or the reason why there is none, and its table."""

    key: str
    title: str
    note: str
    svg: Markup | None
    table: Table | None
    narrow: Markup | None = None
    """The same drawing for a phone, where the chart leads the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One strategy of one run. `label` carries the run only where there are several."""

    label: str
    run: RunPart
    part: ArmPart
    arm: ArmAnalysis

    @property
    def among_runs(self) -> bool:
        """Whether the document holds other runs too."""
        return self.label != self.part.arm

    @property
    def against(self) -> str:
        """The `ar` arm that text and quality are held against."""
        return self.arm.base or AR

    @property
    def over(self) -> str:
        """The `ar` arm that times are held against, where there are times."""
        return self.arm.speed_base or self.against


def named_arms(document: ReportDocument) -> list[Named]:
    """Every strategy of every run, in order."""
    several = len(document.runs) > 1
    return [
        Named(label=f"{run.name} · {part.arm}" if several else part.arm, run=run, part=part, arm=arm)
        for run in document.runs
        for part, arm in zip(run.arms, run.analysis.arms, strict=True)
    ]


def best_first(document: ReportDocument) -> list[Named]:
    """Strategies other than ar, the fastest in decoding first; those without a time last."""
    others = [a for a in named_arms(document) if not is_ar(a.part.arm)]
    return sorted(others, key=lambda a: -a.arm.decode.value if a.arm.decode else 0.0)


def palette(document: ReportDocument) -> dict[str, int]:
    """Label of every strategy -> its colour in all charts: the fastest first, ar the quiet one."""
    order = [a.label for a in best_first(document)]
    return {a.label: COLOURS for a in named_arms(document)} | {n: i % COLOURS for i, n in enumerate(order)}


def left_out(lines: Sequence[object], room: int = MAX_SERIES) -> str:
    """What a note says where a chart has room for some of its lines only."""
    more = len(lines) - room
    return f" {more} more lines stand in the table alone." if more > 0 else ""


def main_metric(found: Iterable[str]) -> str | None:
    """The first composite there is, else the first metric by name; `None` when nothing is scored."""
    names = metric_order(found)
    return next((name for name in composites() if name in names), next(iter(names), None))


def metric_order(found: Iterable[str]) -> list[str]:
    """Metrics by name, composites last."""
    return sorted(found, key=lambda name: (is_composite(name), name))


def end_to_end(given: ArmAnalysis | GroupRow) -> SpeedEstimate | None:
    """Speedup of whole pages where the run, or the group, is pages alone, else of whole requests."""
    return given.page if of_pages(given) else given.request


def of_pages(given: ArmAnalysis | GroupRow) -> bool:
    """Whether `end_to_end` is of whole pages."""
    return given.page is not None and (given.request is None or given.page.n_pairs >= given.request.n_pairs)


def end_to_end_column(groups: Iterable[GroupRow]) -> str:
    """Head of a column of `end_to_end`: on a page suite it says page, on a mixed one that pages are whole."""
    kinds = {of_pages(group) for group in groups if end_to_end(group) is not None}
    if kinds == {True}:
        return "page end to end"
    return "end to end, pages whole" if True in kinds else "end to end"


def any_batch(document: ReportDocument) -> bool:
    """Whether an arm of any run decodes several requests together."""
    return any(batch_of(part.arm) > 1 for run in document.runs for part in run.arms)


def over_ar(document: ReportDocument) -> str:
    """What a speedup is over, as an axis says it."""
    return "speedup over ar at the same batch size" if any_batch(document) else "speedup over ar"


def concurrency(run: RunPart, arm: str) -> int:
    """Requests under way together: the arm's batch size, or what the run says it kept in flight; else 1."""
    value = run.protocol.get("concurrency")
    return max(batch_of(arm), value if isinstance(value, int) else 1)


def interval_lines(
    label: str,
    xs: Sequence[float],
    estimates: Sequence[Interval],
    *,
    colour: int | None = None,
    dash: int = 0,
) -> list[Line]:
    """A line with its intervals; none of no points. A point without an interval gets one of no width."""
    if not estimates:
        return []
    low, high = zip(*map(limits, estimates), strict=True)
    y = tuple(e.value for e in estimates)
    return [Line(label=label, x=tuple(xs), y=y, low=low, high=high, colour=colour, dash=dash)]


def limits(given: Interval) -> tuple[float, float]:
    """Both ends of an interval; the value itself where there is none."""
    if given.low is None or given.high is None:
        return given.value, given.value
    return given.low, given.high


def described(what: str, lines: Sequence[Line]) -> str:
    """A sentence for readers who do not see the drawing: the range of every line."""
    said = [f"{line.label}: {min(line.y):.2f} to {max(line.y):.2f}" for line in lines]
    return f"{what}. " + "; ".join(said)
