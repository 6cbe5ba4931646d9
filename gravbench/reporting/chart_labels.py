"""Names beside the lines of a chart, in place of a legend: none is cut, none covers another.

Widths are estimated from the number of characters, since the page's reader chooses the typeface.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from gravbench.reporting.charts import Line

EM = 0.62
"""Width of a character over the size of the type, on the wide side."""
LEADING = 1.3
"""Height of a line of type over its size."""
GAP = 6.0
"""Points between a line's end, or a point, and its name."""


class Box(NamedTuple):
    """A rectangle in points of the figure, y upwards."""

    left: float
    bottom: float
    right: float
    top: float


def name_lines(
    figure: Any, axes: Any, lines: Sequence[Line], *, colours: Sequence[str], size: float, wrap: int
) -> None:
    """Write the name of every line, or point, right of the axes, as high as its end where there is room.

    A chart of one line needs none: its title names it. `size` is that of the type in points; names are
    broken into lines of `wrap` characters.
    """
    if len(lines) < 2:
        return
    names = [_broken(line.label, wrap) for line in lines]
    heights = [len(name.split("\n")) * LEADING * size for name in names]
    widest = max(len(part) for name in names for part in name.split("\n")) * EM * size
    width, height = 72 * figure.get_figwidth(), 72 * figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0, 1 - min(0.45, (widest + 2 * GAP) / width), 1))
    figure.draw_without_rendering()
    frame = _points_of(figure, axes.bbox)
    ends = [_at(figure, axes, line.x[-1], line.y[-1]) for line in lines]
    middles = spread([y for _, y in ends], heights, low=1, high=height - 1)
    for line, name, end, middle in zip(lines, names, ends, middles, strict=True):
        colour = colours[(line.colour or 0) % len(colours)]
        _write(axes, name, end, (frame.right + 2 * GAP, middle), colour=colour, size=size)


def _write(
    axes: Any, name: str, end: tuple[float, float], place: tuple[float, float], *, colour: str, size: float
) -> None:
    """A name whose left edge is at `place`, with a thin line to the end that it names."""
    axes.annotate(
        name,
        xy=end,
        xytext=place,
        xycoords="figure points",
        textcoords="figure points",
        color=colour,
        fontsize=size,
        va="center",
        ha="left",
        annotation_clip=False,
        arrowprops={
            "arrowstyle": "-",
            "color": colour,
            "linewidth": 0.6,
            "shrinkA": 0,
            "shrinkB": 4,
            "relpos": (0, 0.5),
        },
    ).set_in_layout(False)


def _broken(name: str, width: int) -> str:
    """A name in lines of `width` characters, broken after commas and blanks first."""
    return textwrap.fill(name.replace(",", ", ").replace(",  ", ", "), width)


def spread(wanted: Sequence[float], heights: Sequence[float], *, low: float, high: float) -> list[float]:
    """Centres of boxes in order of `wanted`, moved as little as is easy so that none overlaps the next.

    Boxes are pushed upwards one after another, then down from `high`; where they do not fit between `low`
    and `high`, the lowest go below.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = list(wanted)
    floor = low
    for i in order:
        placed[i] = max(wanted[i], floor + heights[i] / 2)
        floor = placed[i] + heights[i] / 2
    ceiling = high
    for i in reversed(order):
        placed[i] = min(placed[i], ceiling - heights[i] / 2)
        ceiling = placed[i] - heights[i] / 2
    return placed


def _at(figure: Any, axes: Any, x: float, y: float) -> tuple[float, float]:
    """A point of the data in points of the figure."""
    across, up = figure.dpi_scale_trans.inverted().transform(axes.transData.transform((x, y)))
    return 72 * float(across), 72 * float(up)


def _points_of(figure: Any, bbox: Any) -> Box:
    (left, bottom), (right, top) = figure.dpi_scale_trans.inverted().transform(bbox.get_points())
    return Box(72 * float(left), 72 * float(bottom), 72 * float(right), 72 * float(top))
