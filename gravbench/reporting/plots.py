"""Charts as inline SVG: plain numbers in, one `<svg>` out. The only import of matplotlib."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from gravbench.reporting.chart_labels import name_lines
from gravbench.reporting.charts import Bars, Line, Waterfall
from gravbench.reporting.themed_svg import FAINT, INK, PAPER, SERIES, themed

LABEL, NARROW_LABEL = 22, 13
"""Characters of a line's name before it takes a second line."""
Y_LABEL_WIDTH = 26
"""Characters of an upright label that fit beside the lowest chart; longer ones take a second line."""

MARKERS = "osD^vPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
DOTTED = 2
"""Dash of a line that was not measured: it has no marks."""
BAND = 0.13
"""Opacity of an interval's band: four on top of each other still tell their lines apart."""
WIDE, NARROW = 7.2, 4.4
"""Widths of a chart in inches: on a screen, and on a phone, where the same type is as large on less room."""
MOST_POINTS = 400
"""Points of a chart that say their numbers when pointed at; more than that no hand can tell apart."""
LEGEND_CHARACTERS = 92
LOG_TICKS = (
    (4.0, (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
    (300.0, (1.0, 2.0, 5.0)),
    (math.inf, (1.0,)),
)
"""Ratio of largest to smallest value up to which a logarithmic axis has these ticks in a decade."""
TYPE = 11
"""Points of all type: 12 pixels where a chart is as narrow as the stylesheet lets it be."""
DOT = "#3f83c9"
"""Rasterised marks cannot follow the theme: a blue that reads on white and on black."""
DOT_ALPHA = 0.9
"""One dot stands out by more than 3:1 on either ground."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gravbench",
    "font.size": TYPE,
    "axes.labelsize": TYPE,
    "xtick.labelsize": TYPE,
    "ytick.labelsize": TYPE,
    "font.family": "DejaVu Sans",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": TYPE,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "text.parse_math": False,
}


def line_chart(
    lines: Sequence[Line],
    *,
    key: str,
    title: str,
    description: str,
    x_label: str,
    y_label: str,
    ticks: Sequence[str] | None = None,
    level: float | None = None,
    ratio: bool = False,
    narrow: bool = False,
) -> Markup:
    """Lines with bands of their intervals, single points with bars to both sides; each is named at its right.

    `ticks` names x = 0, 1, ...; `level` is a horizontal guide; `ratio` makes the y axis logarithmic.
    """
    with _figure(width=NARROW if narrow else WIDE) as (figure, axes):
        drawn = [replace(n, colour=i if n.colour is None else n.colour) for i, n in enumerate(lines)]
        for index, line in enumerate(drawn):
            _draw_line(axes, line, MARKERS[index % len(MARKERS)])
        if level is not None:
            axes.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        if ticks is not None:
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlim(-0.3, len(ticks) - 0.7)
        if ratio:
            axes.set_yscale("log")
            _plain_log_ticks(axes.yaxis, *axes.get_ylim())
        axes.set_xlabel(x_label)
        axes.set_ylabel(textwrap.fill(y_label, Y_LABEL_WIDTH))
        name_lines(figure, axes, drawn, colours=SERIES, size=TYPE, wrap=NARROW_LABEL if narrow else LABEL)
        points = [
            (x, y, _read_out(line, i, ticks))
            for line in drawn
            for i, (x, y) in enumerate(zip(line.x, line.y, strict=True))
        ]
        return _svg(figure, key, title, description, axes=axes, points=points)


def _draw_line(axes: Any, line: Line, marker: str) -> None:
    colour = SERIES[(line.colour or 0) % len(SERIES)]
    if line.joined and line.low is not None and line.high is not None:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=BAND, linewidth=0)
    axes.errorbar(
        line.x,
        line.y,
        xerr=None if line.joined else _reach(line),
        color=colour,
        marker="" if line.joined and line.dash == DOTTED else marker,
        linestyle=DASHES[line.dash] if line.joined else "none",
        capsize=3,
        elinewidth=1.2,
        markerfacecolor=PAPER if line.dash else colour,
    )


def _read_out(line: Line, at: int, ticks: Sequence[str] | None) -> str:
    """`selfspec, decode at 8: 1.73 [1.66, 1.80]`, for whoever points at it."""
    x = f"{line.x[at]:.4g}" if ticks is None else ticks[int(line.x[at])]
    limits = ""
    if line.low is not None and line.high is not None and line.low[at] < line.high[at]:
        limits = f" [{line.low[at]:.2f}, {line.high[at]:.2f}]"
    if line.joined:
        return f"{line.label} at {x}: {line.y[at]:.2f}{limits}"
    return f"{line.label}: {line.y[at]:.2f} at {line.x[at]:.2f}{limits}"


def bar_chart(
    bars: Sequence[Bars], *, key: str, title: str, description: str, x_label: str, y_label: str
) -> Markup:
    """Grouped bars over integers from 0."""
    width = 0.84 / max(1, len(bars))
    with _figure() as (figure, axes):
        for index, own in enumerate(bars):
            shift = (index - (len(bars) - 1) / 2) * width
            axes.bar(
                [x + shift for x in own.x],
                own.heights,
                width=width,
                color=SERIES[(index if own.colour is None else own.colour) % len(SERIES)],
                label=own.label,
                linewidth=0,
            )
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(textwrap.fill(y_label, Y_LABEL_WIDTH))
        axes.grid(axis="x", visible=False)
        _legend(figure, axes, len(bars))
        points = [
            (x + (i - (len(bars) - 1) / 2) * width, height, f"{own.label}, {x}: {height:.1%}")
            for i, own in enumerate(bars)
            for x, height in zip(own.x, own.heights, strict=True)
        ]
        return _svg(figure, key, title, description, axes=axes, points=points)


def scatter_chart(
    x: Sequence[float],
    y: Sequence[float],
    *,
    key: str,
    title: str,
    description: str,
    x_label: str,
    y_label: str,
    guides: Sequence[float] = (),
    steps: Sequence[tuple[float, float, float]] = (),
    log_x: bool = False,
) -> Markup:
    """Dots as one picture inside the SVG; the y axis is logarithmic.

    `guides` are lines y = x / g for a logarithmic x; `steps` are (from, to, height).
    """
    with _figure() as (figure, axes):
        axes.scatter(x, y, s=14, color=DOT, alpha=DOT_ALPHA, linewidths=0, rasterized=True)
        axes.set_yscale("log")
        _plain_log_ticks(axes.yaxis, min(y), max(y))
        if log_x:
            axes.set_xscale("log")
            _plain_log_ticks(axes.xaxis, min(x), max(x))
            low, high = min(x), max(x)
            for index, guide in enumerate(guides):
                ends = [low, high * 1.0001]
                axes.plot(
                    ends,
                    [end / guide for end in ends],
                    color=SERIES[index],
                    linestyle=DASHES[index % len(DASHES)],
                    linewidth=1.3,
                    label=f"{guide:g}× faster" if guide != 1 else "equal",
                )
            _legend(figure, axes, 2)
        for left, right, height in steps:
            axes.plot([left, right], [height, height], color=INK, linewidth=2)
        axes.set_xlabel(x_label)
        axes.set_ylabel(textwrap.fill(y_label, Y_LABEL_WIDTH))
        return _svg(figure, key, title, description)


def waterfall_chart(steps: Waterfall, *, key: str, title: str, description: str, x_label: str) -> Markup:
    """Horizontal bars from one total to another; falling and rising steps differ by colour and sign."""
    with _figure(height=0.5 + 0.42 * len(steps.labels)) as (figure, axes):
        axes.set_yticks(range(len(steps.labels)), steps.labels)
        axes.invert_yaxis()
        for row, (start, end, whole) in enumerate(zip(steps.starts, steps.ends, steps.totals, strict=True)):
            colour = SERIES[0] if whole else SERIES[2] if end <= start else SERIES[1]
            axes.barh(row, abs(end - start), left=min(start, end), height=0.62, color=colour, linewidth=0)
            text = f"{end:.0%}" if whole else _change(end - start)
            axes.text(max(start, end) + 0.012, row, text, va="center")
        axes.set_xlim(0, max(*steps.starts, *steps.ends) * 1.15)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(x_label)
        return _svg(figure, key, title, description)


@contextmanager
def _figure(height: float = 3.7, width: float = WIDE) -> Iterator[tuple[Figure, Any]]:
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.tick_params(which="both", bottom=False, left=False)
        yield figure, axes


def _change(value: float) -> str:
    return "±0%" if abs(value) < 0.0005 else f"{value:+.1%}"


def _reach(line: Line) -> list[list[float]] | None:
    if line.low is None or line.high is None:
        return None
    return [
        [max(0.0, x - low) for x, low in zip(line.x, line.low, strict=True)],
        [max(0.0, high - x) for x, high in zip(line.x, line.high, strict=True)],
    ]


def _plain_log_ticks(axis: Any, low: float, high: float) -> None:
    """Ticks at 1, 2, 5 times powers of ten; fewer over many decades, more within one; plain numbers."""
    subs = next(steps for limit, steps in LOG_TICKS if high / low <= limit)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _legend(figure: Figure, axes: Any, count: int) -> None:
    """Below the axes, in as many columns as the labels leave room for."""
    handles, labels = axes.get_legend_handles_labels()
    if labels and count > 1:
        columns = max(1, min(count, LEGEND_CHARACTERS // (max(map(len, labels)) + 7)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _svg(
    figure: Figure,
    key: str,
    title: str,
    description: str,
    *,
    axes: Any = None,
    points: Sequence[tuple[float, float, str]] = (),
) -> Markup:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=130, metadata={"Date": None, "Creator": None})
    places: list[tuple[float, float, str]] = []
    if 0 < len(points) <= MOST_POINTS:
        shown = figure.transFigure.inverted().transform(axes.transData.transform([p[:2] for p in points]))
        places = [
            (round(100 * float(x), 1), round(100 - 100 * float(y), 1), said)
            for (x, y), (_, _, said) in zip(shown, points, strict=True)
        ]
    return themed(buffer.getvalue(), key=key, title=title, description=description, places=places)
