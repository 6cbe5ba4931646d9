"""Charts as inline SVG: plain numbers in, one `<svg>` out. The only import of matplotlib.

The content security policy of a page allows no inline style, so every declaration becomes an attribute, and
the colours of ink, grid and series become classes that the stylesheet colours for light and dark.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from lxml import etree
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from gravbench.reporting.charts import Bars, Line, Waterfall

INK, FAINT, PAPER = "#010101", "#020202", "#fefefe"
SERIES = tuple(f"#03030{i}" for i in range(8))
"""Stand-in colours; the stylesheet holds the real ones."""

Y_LABEL_WIDTH = 26
"""Characters of an upright label that fit beside the lowest chart; longer ones take a second line."""

_CLASS = {INK: "ink", FAINT: "faint", PAPER: "paper", **{c: f"s{i}" for i, c in enumerate(SERIES)}}
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_SIZE = re.compile(r"([0-9.]+)px")
_URL = re.compile(r"(?:url\()?#([^)]+)\)?")
_EMPTY_WITHOUT_CHILDREN = {_SVG + "g", _SVG + "defs"}
_KEPT_STYLES = frozenset(
    {
        "fill",
        "stroke",
        "stroke-width",
        "stroke-dasharray",
        "stroke-linejoin",
        "stroke-linecap",
        "stroke-opacity",
        "fill-opacity",
        "opacity",
        "font-size",
        "font-weight",
        "text-anchor",
    }
)


def themed(svg: bytes, *, key: str, title: str, description: str) -> Markup:
    """The `<svg>` element alone, its ids prefixed by `key`, named for screen readers."""
    root = etree.fromstring(svg, etree.XMLParser(remove_comments=True, resolve_entities=False))
    for tag in ("metadata", "style"):
        for node in list(root.iter(_SVG + tag)):
            _remove(node)
    used = _used_ids(root)
    for node in root.iter():
        _restyle(node)
        _rename(node, key, used)
    _flatten(root)
    for node in list(root.iter()):
        if (node.tag in _EMPTY_WITHOUT_CHILDREN and not len(node)) or node.get("opacity") == "0":
            _remove(node)
        if node.tag != _SVG + "text":
            node.text = None
        node.tail = None
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"class": "chart", "role": "img", "aria-labelledby": f"{key}-t {key}-d"})
    for offset, (tag, text) in enumerate((("title", title), ("desc", description))):
        named = etree.Element(_SVG + tag, {"id": f"{key}-{tag[0]}"})
        named.text = text
        root.insert(offset, named)
    etree.cleanup_namespaces(root)
    return Markup(etree.tostring(root, encoding="unicode"))


def _remove(node: etree._Element) -> None:
    parent = node.getparent()
    if parent is not None:
        parent.remove(node)


def _restyle(node: etree._Element) -> None:
    declared = node.attrib.pop("style", "")
    for declaration in declared.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            if size := _SIZE.search(value):
                node.set("font-size", size[1])
        elif name == "font-size":
            node.set("font-size", value.removesuffix("px"))
        elif name in _KEPT_STYLES:
            node.set(name, value)
    classes = []
    for side in ("fill", "stroke"):
        if (themed_as := _CLASS.get(node.get(side, ""))) is not None:
            del node.attrib[side]
            classes.append(f"{side[0]}-{themed_as}")
    if classes:
        node.set("class", " ".join(classes))
    elif node.tag == _SVG + "text" and node.get("fill") is None:
        node.set("class", "f-ink")


def _used_ids(root: etree._Element) -> set[str]:
    used = set()
    for node in root.iter():
        for name in (_HREF, "href", "clip-path"):
            if (found := _URL.fullmatch(node.get(name, ""))) is not None:
                used.add(found[1])
    return used


def _rename(node: etree._Element, key: str, used: set[str]) -> None:
    own = str(node.attrib.pop("id", ""))
    if own in used:
        node.set("id", f"{key}-{own}")
    target = str(node.attrib.pop(_HREF, "") or node.attrib.pop("href", ""))
    if target:
        node.set("href", f"#{key}-{target[1:]}" if target.startswith("#") else "".join(target.split()))
    if (clip := _URL.fullmatch(node.get("clip-path", ""))) is not None:
        node.set("clip-path", f"url(#{key}-{clip[1]})")


def _flatten(root: etree._Element) -> None:
    """Groups without attributes give way to their children: fewer nodes in the page."""
    for node in list(root.iter(_SVG + "g")):
        parent = node.getparent()
        if parent is None or node.attrib:
            continue
        place = parent.index(node)
        for offset, child in enumerate(list(node)):
            parent.insert(place + offset, child)
        parent.remove(node)


MARKERS = "osD^vPX*"
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
LEGEND_CHARACTERS = 92
LOG_TICKS = (
    (4.0, (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)),
    (300.0, (1.0, 2.0, 5.0)),
    (math.inf, (1.0,)),
)
"""Ratio of largest to smallest value up to which a logarithmic axis has these ticks in a decade."""
DOT = "#3f83c9"
"""Rasterised marks cannot follow the theme: a blue that reads on white and on black."""
DOT_ALPHA = 0.9
"""One dot stands out by more than 3:1 on either ground."""

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gravbench",
    "font.size": 11,
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
    "legend.fontsize": 10,
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
) -> Markup:
    """Lines with error bars. `ticks` names x = 0, 1, ...; `level` is a horizontal guide."""
    with _figure() as (figure, axes):
        for index, line in enumerate(lines):
            colour = SERIES[index % len(SERIES)]
            axes.errorbar(
                line.x,
                line.y,
                yerr=_reach(line),
                color=colour,
                marker=MARKERS[index % len(MARKERS)],
                linestyle=DASHES[index % len(DASHES)] if line.joined else "none",
                capsize=3,
                elinewidth=1.2,
                label=line.label,
                markerfacecolor=PAPER if index % 2 else colour,
            )
        if level is not None:
            axes.axhline(level, color=INK, linewidth=1, linestyle=(0, (2, 2)))
        if ticks is not None:
            axes.set_xticks(range(len(ticks)), ticks)
            axes.set_xlim(-0.5, len(ticks) - 0.5)
        axes.set_xlabel(x_label)
        axes.set_ylabel(textwrap.fill(y_label, Y_LABEL_WIDTH))
        _legend(figure, axes, len(lines))
        return _svg(figure, key, title, description)


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
                color=SERIES[index % len(SERIES)],
                label=own.label,
                linewidth=0,
            )
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(textwrap.fill(y_label, Y_LABEL_WIDTH))
        axes.grid(axis="x", visible=False)
        _legend(figure, axes, len(bars))
        return _svg(figure, key, title, description)


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
            axes.text(max(start, end) + 0.012, row, text, va="center", fontsize=10)
        axes.set_xlim(0, max(*steps.starts, *steps.ends) * 1.15)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(x_label)
        return _svg(figure, key, title, description)


@contextmanager
def _figure(height: float = 3.7) -> Iterator[tuple[Figure, Any]]:
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=(7.2, height), layout="constrained")
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
        [max(0.0, y - low) for y, low in zip(line.y, line.low, strict=True)],
        [max(0.0, high - y) for y, high in zip(line.y, line.high, strict=True)],
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


def _svg(figure: Figure, key: str, title: str, description: str) -> Markup:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", dpi=130, metadata={"Date": None, "Creator": None})
    return themed(buffer.getvalue(), key=key, title=title, description=description)
