"""One row a strategy: the three answers and the speeds, with small drawings, to be sorted by any column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from gravbench.analysis.bootstrap import Interval
from gravbench.arms import is_ar
from gravbench.reporting.charts import Named, end_to_end, limits, named_arms, palette
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.tables import NONE, interval, number
from gravbench.reporting.verdicts import Answered, quality_answer, same_answer

_WIDE, _HIGH = 96.0, 14.0
"""Size of a small drawing in its own units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmCell:
    """Text, the value that it sorts by (`None`: last), its mood, and a small drawing beside it."""

    text: str
    value: float | None = None
    mood: str = ""
    detail: str = ""
    drawing: Markup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """A strategy with its cells; `colour` is its place in the palette."""

    label: str
    colour: int
    cells: tuple[ArmCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsTable:
    """Rows in the order of the runs, under `columns`, of which the first names the strategy."""

    columns: tuple[str, ...]
    rows: tuple[ArmRow, ...]


def arms_table(document: ReportDocument) -> ArmsTable:
    """Every strategy of every run; what was not measured is a dash and sorts last."""
    arms, colours = named_arms(document), palette(document)
    speeds = [s for a in arms for s in (a.arm.decode, end_to_end(a.arm)) if s is not None]
    scale = _scale(speeds)
    most = max((k for a in arms if a.arm.acceptance for k in a.arm.acceptance.histogram), default=0)
    columns = (
        "strategy",
        "same text",
        "quality",
        "tpf_all",
        "accepted_draft",
        "decode over ar",
        "end to end over ar",
        "decode predicted",
    )
    rows = [
        ArmRow(
            label=a.label,
            colour=colours[a.label],
            cells=(
                *_answers(a),
                _counter(a, "tpf_all"),
                _accepted(a, most),
                _speed(a.arm.decode, scale),
                _speed(end_to_end(a.arm), scale),
                _predicted(a),
            ),
        )
        for a in arms
    ]
    return ArmsTable(columns=columns, rows=tuple(rows))


def _answers(a: Named) -> tuple[ArmCell, ArmCell]:
    quality = quality_answer(a)
    points = [d.own for d in a.arm.quality.values()][:1] or [v.points.value for v in a.part.levels.values()][
        :1
    ]
    if is_ar(a.part.arm) and a.arm.base is None:
        value = points[0] if points else None
        return ArmCell(text="the base"), ArmCell(text=quality.answer, value=value, detail=quality.detail)
    audit = a.arm.identity
    share = audit.identical / audit.compared if audit is not None and audit.compared else None
    return _told(same_answer(a), value=share), _told(quality, value=points[0] if points else None)


def _told(answered: Answered, *, value: float | None) -> ArmCell:
    return ArmCell(text=answered.answer, value=value, mood=answered.mood, detail=answered.detail)


def _counter(a: Named, name: str) -> ArmCell:
    found = a.arm.counters.get(name)
    return ArmCell(text=number(found.value if found else None), value=found.value if found else None)


def _accepted(a: Named, most: int) -> ArmCell:
    """Mean of accepted drafts a round, with the shares of rounds by how many they accepted."""
    if a.arm.acceptance is None or not most:
        return ArmCell(text=NONE)
    counts = a.arm.acceptance.histogram
    highest, step = max(counts.values()), _WIDE / (most + 1)
    outline = "".join(
        f"M{k * step:.1f} {_HIGH:g}V{_HIGH * (1 - n / highest):.1f}h{0.85 * step:.1f}V{_HIGH:g}z"
        for k, n in sorted(counts.items())
    )
    drawing = Markup(
        '<svg class="mini" viewBox="0 0 {} {}" aria-hidden="true"><path class="f-arm" d="{}"/></svg>'
    ).format(f"{_WIDE:g}", f"{_HIGH:g}", outline)
    value = a.arm.counters["accepted_draft"].value if "accepted_draft" in a.arm.counters else None
    return ArmCell(text=number(value), value=value, drawing=drawing)


def _speed(found: Interval | None, scale: tuple[float, float]) -> ArmCell:
    if found is None:
        return ArmCell(text=NONE)
    low, high = limits(found)
    mood = "yes" if low > 1 and found.low is not None else "no" if high < 1 else "unclear"
    return ArmCell(
        text=interval(found, "×"), value=found.value, mood=mood, drawing=_bar(found.value, low, high, scale)
    )


def _bar(value: float, low: float, high: float, scale: tuple[float, float]) -> Markup:
    """The interval as a bar with its value as a dot, on one logarithmic scale with a line at 1."""

    def at(ratio: float) -> str:
        left, right = (math.log(end) for end in scale)
        return f"{3 + (_WIDE - 6) * (math.log(max(ratio, scale[0])) - left) / (right - left):.1f}"

    middle = f"{_HIGH / 2:g}"
    return Markup(
        '<svg class="mini" viewBox="0 0 {} {}" aria-hidden="true"><path class="s-quiet" d="M{} 0V{}"/>'
        '<path class="s-arm" d="M{} {}H{}"/><circle class="f-arm" cx="{}" cy="{}" r="2.5"/></svg>'
    ).format(f"{_WIDE:g}", f"{_HIGH:g}", at(1), f"{_HIGH:g}", at(low), middle, at(high), at(value), middle)


def _scale(speeds: Sequence[Interval]) -> tuple[float, float]:
    """Smallest and largest ratio of all bars, 1 among them."""
    ends = [end for s in speeds for end in (s.low, s.high, s.value) if end is not None and end > 0]
    low, high = min([*ends, 1.0]), max([*ends, 1.0])
    return (low, high) if high > low else (0.9 * low, 1.1 * high)


def _predicted(a: Named) -> ArmCell:
    model = a.arm.cost_model
    if model is None:
        return ArmCell(text=NONE)
    return ArmCell(text=f"{model.predicted:.2f}× ({model.residual:+.0%})", value=model.predicted)
