"""Plain numbers to be drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points of one series. `low` and `high` are limits of intervals, all or none."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    joined: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Heights over integers."""

    label: str
    x: tuple[int, ...]
    heights: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waterfall:
    """Bars from `starts` to `ends`; `totals` marks those that stand on the ground."""

    labels: tuple[str, ...]
    starts: tuple[float, ...]
    ends: tuple[float, ...]
    totals: tuple[bool, ...]
