"""Tables as values, for terminal and page alike. Cells are plain text; what shows them chooses the form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.quality import QualityDifference

NONE = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Text with a tint: `tint` is -3 (bad) to 3 (good) or `None`."""

    text: str
    tint: int | None = None
    style: str = ""
    """How a terminal with colours prints it."""
    is_arm: bool = False
    """Whether it is a strategy, whose name a terminal breaks at its options alone."""

    @property
    def css(self) -> str | None:
        """Class of the tint; `None` without one."""
        if not self.tint:
            return None
        return f"{'good' if self.tint > 0 else 'bad'}{abs(self.tint)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The first column names the row. `left` columns hold words, all others numbers.

    `wide` columns are for pages: a terminal of 100 columns has no room for them.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    left: frozenset[int] = frozenset({0})
    wide: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.rows) * len(self.columns)


def table(
    caption: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str | Cell, ...]],
    *,
    left: frozenset[int] = frozenset({0}),
    wide: frozenset[int] = frozenset(),
) -> Table:
    """A table from rows of text or cells; every row has as many cells as there are columns."""
    cells = [tuple(c if isinstance(c, Cell) else Cell(text=c) for c in row) for row in rows]
    for row in cells:
        assert len(row) == len(columns)
    return Table(caption=caption, columns=columns, rows=tuple(cells), left=left, wide=wide)


def arm(name: str) -> Cell:
    """A cell that names a strategy."""
    return Cell(text=name, is_arm=True)


def number(value: float | None, digits: int = 2) -> str:
    """Fixed digits; a dash for what was not measured."""
    return NONE if value is None else f"{value:.{digits}f}"


def times(value: float | None) -> str:
    """A ratio: `1.83×`."""
    return NONE if value is None else f"{value:.2f}×"


def interval(given: Interval | None, unit: str = "", *, digits: int = 2) -> str:
    """`1.83× [1.70, 1.95]`, without brackets where there is no interval."""
    if given is None:
        return NONE
    value = f"{given.value:.{digits}f}{unit}"
    if given.low is None or given.high is None:
        return value
    return f"{value} [{given.low:.{digits}f}, {given.high:.{digits}f}]"


def signed(d: QualityDifference | None) -> str:
    """A difference in points with its interval."""
    if d is None:
        return NONE
    if d.low is None or d.high is None:
        return f"{d.difference:+.2f}"
    return f"{d.difference:+.2f} [{d.low:+.2f}, {d.high:+.2f}]"


def milliseconds(ns: float | None) -> str:
    """`12.3 ms`, `4.56 s`; a dash for what was not measured."""
    if ns is None:
        return NONE
    return f"{ns / 1e6:.1f} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def by_chance(limit: float | None) -> str:
    """What noise alone gives in 95 of 100 orders; nothing in documents without it."""
    return "" if limit is None else f" (by chance up to {limit:.1%})"


def tint_of_ratio(given: Interval | None) -> int | None:
    """A step per 25 % away from 1, at most 3; none without an interval, for it may be chance."""
    if given is None or given.low is None or given.value <= 0:
        return None
    value = given.value
    steps = (
        min(3, int(abs(value - 1) / 0.25 + 0.5)) if value >= 1 else min(3, int((1 / value - 1) / 0.25 + 0.5))
    )
    return steps if value >= 1 else -steps


def tint_of_points(d: QualityDifference | None) -> int | None:
    """A step at 0.1, 0.5 and 2 points away from 0; none without an interval."""
    if d is None or d.low is None:
        return None
    steps = sum(abs(d.difference) >= edge for edge in (0.1, 0.5, 2.0))
    return steps if d.difference > 0 else -steps
