"""Where a browser puts the symbols of an equation, from KaTeX's HTML, without a browser.

A reduction of inline layout to what decides on neighbours: the horizontal flow, vertical lists (`vlist-t`),
font sizes, explicit shifts and lines. KaTeX's own fonts are taken to be missing, as on the official page, so
widths are those of the fallback fonts. Lengths are pixels, y grows downwards.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lxml.etree import _Element

from gravbench.olmocr.page import OverLimitError

BASE_FONT_PX = 29.04
"""24 px of the official container times KaTeX's 1.21."""
ASCENT_EM, DESCENT_EM, LINE_EM = 0.891, 0.216, 1.2
MAX_DEPTH = 400
"""Elements inside each other; deeper formulas are refused, by count."""

SIZES = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.44, 1.728, 2.074, 2.488)
_ITALIC = frozenset(["mathnormal", "mathit", "boldsymbol", "textit", "mathitsf", "mathsfit", "textitsf"])
_BOLD = frozenset(
    ["mathbf", "boldsymbol", "textbf", "mathboldsf", "textboldsf", "mathboldfrak", "textboldfrak"]
)
_UPRIGHT = frozenset(["mathrm", "mainrm"])
_ALIGNMENT = {
    **dict.fromkeys(("msupsub", "svg-align", "col-align-l"), 0.0),
    **dict.fromkeys(("mfrac", "op-limits", "accent", "mover", "munder", "x-arrow", "col-align-c"), 0.5),
    "col-align-r": 1.0,
}
"""Class of the parent of a vertical list -> share of the free width in front of an item."""
_PADDING = {
    "x-arrow-pad": (0.5, 0.5),
    "boxpad": (0.3, 0.3),
    "cancel-pad": (0.2, 0.2),
    "cancel-lap": (-0.2, -0.2),
    "anglpad": (0.03889, 0.03889),
    "cd-arrow-pad": (0.27778, 0.55556),
    "root": (0.2777777778, -0.5555555556),
}
"""Class -> space in front of and behind the content, em."""
_NO_WIDTH = frozenset(
    ["frac-line", "hline", "hdashline", "overline-line", "underline-line", "strut", "pstrut"]
)
_RESET = re.compile(r"reset-size(\d+)")
_SIZE = re.compile(r"size(\d+)")
_LENGTH = re.compile(r"([a-z-]+)\s*:\s*(-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)(em|px)?\s*(?:;|$)")


@dataclass(slots=True)
class Leaf:
    """The text of one innermost span; x and y of its box's centre, its width.

    Moved while its parents are placed.
    """

    text: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class _Context:
    """What children inherit: font size, slant, weight, alignment of list items, depth."""

    font: float
    italic: bool = False
    bold: bool = False
    align: float = 0.5
    depth: int = 0


class Advances:
    """Widths of characters in em, by slant and weight; a missing style falls back to regular."""

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self._regular = table["regular"]
        self._styled = {
            (False, False): self._regular,
            (True, False): table["italic"],
            (False, True): table["bold"],
            (True, True): table["bold_italic"],
        }

    def of(self, text: str, context: _Context) -> float:
        styled = self._styled[context.italic, context.bold]
        total = 0.0
        for character in text:
            width = styled.get(character)
            total += self._regular.get(character, 0.5) if width is None else width
        return total


@cache
def measured_advances() -> Advances:
    """The fallback fonts' widths that ship with the package."""
    data = files("gravbench.olmocr").joinpath("data").joinpath("glyph_advances.json")
    return Advances(json.loads(data.read_text(encoding="utf-8")))


def _lengths(style: str | None, font: float) -> dict[str, float]:
    """Lengths of a style attribute in pixels; KaTeX writes em throughout."""
    if not style:
        return {}
    found = {}
    for name, number, unit in _LENGTH.findall(style):
        found[name] = float(number) * (font if unit == "em" else 1.0)
    return found


@cache
def _font_scale(classes: str) -> float:
    """Factor of `sizing reset-sizeA sizeB` and of `fontsize-ensurer`."""
    names = classes.split()
    if "sizing" not in names and "fontsize-ensurer" not in names:
        return 1.0
    before = next((int(m.group(1)) for n in names if (m := _RESET.fullmatch(n))), None)
    after = next((int(m.group(1)) for n in names if (m := _SIZE.fullmatch(n))), None)
    if before is None or after is None or not (0 < before < len(SIZES) and 0 < after < len(SIZES)):
        return 1.0
    return SIZES[after] / SIZES[before]


def _enter(context: _Context, classes: list[str], attribute: str) -> _Context:
    """The context inside an element of these classes."""
    if context.depth >= MAX_DEPTH:
        raise OverLimitError(f"formula nested deeper than {MAX_DEPTH} elements")
    italic, bold = context.italic, context.bold
    for name in classes:
        if name in _ITALIC:
            italic = True
        elif name in _UPRIGHT:
            italic = False
        if name in _BOLD:
            bold = True
    align = next((_ALIGNMENT[name] for name in classes if name in _ALIGNMENT), context.align)
    return _Context(context.font * _font_scale(attribute), italic, bold, align, context.depth + 1)


def _half_up(value: float) -> float:
    return math.floor(value + 0.5)


class _Flow:
    """One pass over the tree.

    Leaves are collected in document order and moved as their parents learn places.
    """

    def __init__(self, advances: Advances) -> None:
        self.leaves: list[Leaf] = []
        self._advances = advances

    def _shift(self, first: int, dx: float, dy: float = 0.0) -> None:
        if not dx and not dy:
            return
        for number in range(first, len(self.leaves)):
            self.leaves[number].x += dx
            self.leaves[number].y += dy

    def _leaf(self, text: str, context: _Context, *, block: bool) -> float:
        font = context.font
        width = self._advances.of(text, context) * font
        ascent, descent = _half_up(ASCENT_EM * font), _half_up(DESCENT_EM * font)
        y = -(ascent - descent) / 2
        if block:  # an item of a vertical list is measured as its line box
            y = -ascent - math.floor((LINE_EM * font - ascent - descent) / 2) + LINE_EM * font / 2
        self.leaves.append(Leaf(text, width / 2, y, width))
        return width

    def _children(self, element: _Element, context: _Context) -> float:
        x = self._advances.of(element.text, context) * context.font if element.text else 0.0
        for child in element:
            first = len(self.leaves)
            width = self.place(child, context)
            self._shift(first, x)
            x += width
            if child.tail:
                x += self._advances.of(child.tail, context) * context.font
        return x

    def place(self, element: _Element, outer: _Context, *, block: bool = False) -> float:
        """Put an element's leaves at x = 0 on the baseline y = 0; returns the width it takes in its line."""
        if element.tag == "svg" or not isinstance(element.tag, str) or element.tag.endswith("}svg"):
            return 0.0
        attribute = element.get("class", "")
        classes = attribute.split()
        context = _enter(outer, classes, attribute)
        style = _lengths(element.get("style"), context.font)
        if not _NO_WIDTH.isdisjoint(classes):
            return 0.0
        if "nulldelimiter" in classes:
            return 0.12 * context.font
        first = len(self.leaves)
        if "vlist-t" in classes:
            width = self._list(element, context)
        elif len(element) == 0 and element.text and element.text.strip():
            width = self._leaf(element.text, context, block=block)
        elif classes and classes[0] in ("llap", "rlap", "clap"):
            width = self._lap(element, context, classes[0])
        else:
            width = self._children(element, context)
        return self._framed(first, width, classes, style, context.font)

    def _framed(
        self, first: int, width: float, classes: list[str], style: Mapping[str, float], font: float
    ) -> float:
        """Shifts, margins and widths that an element's classes and style add."""
        down = 0.0
        if not {"delimcenter", "op-symbol", "accent-body"}.isdisjoint(classes):
            down += style.get("top", 0.0)
        down -= style.get("vertical-align", 0.0)
        before, behind = style.get("margin-left", 0.0), style.get("margin-right", 0.0)
        before += style.get("padding-left", 0.0)
        behind += style.get("padding-right", 0.0)
        for name in classes:
            pad = _PADDING.get(name)
            if pad is not None:
                before, behind = before + pad[0] * font, behind + pad[1] * font
        if "arraycolsep" in classes:
            width = style.get("width", 0.0)
        elif "rule" in classes:
            width = style.get("border-right-width", 0.0)
        elif "accent-body" in classes:
            self._shift(first, style.get("left", 0.0))
            if "accent-full" not in classes:
                width = 0.0
        elif "thinbox" in classes:
            width = 0.0
        elif not {"hide-tail", "stretchy"}.isdisjoint(classes):
            width = max(width, style.get("min-width", 0.0))
        elif not classes and "width" in style:
            width = style["width"]
        if "cd-label-left" in classes or "cd-label-right" in classes:
            left = "cd-label-left" in classes
            self._shift(first, -width - 0.3 * font if left else 0.3 * font, down)
            return 0.0
        self._shift(first, before, down)
        return before + width + behind

    def _lap(self, element: _Element, context: _Context, kind: str) -> float:
        for child in element:
            if "inner" not in child.get("class", "").split():
                continue
            first = len(self.leaves)
            width = self.place(child, context)
            self._shift(first, {"llap": -width, "rlap": 0.0, "clap": -width / 2}[kind])
        return 0.0

    def _list(self, element: _Element, context: _Context) -> float:
        """A vertical list: items on their own baselines, aligned within the widest."""
        items = []
        widest = 0.0
        for item in _items(element):
            attribute = item.get("class", "")
            inner = _enter(context, attribute.split(), attribute)
            style = _lengths(item.get("style"), inner.font)
            first = len(self.leaves)
            strut = x = 0.0
            for child in item:
                names = child.get("class", "").split()
                if "pstrut" in names:
                    strut = _lengths(child.get("style"), inner.font).get("height", 0.0)
                    continue
                start = len(self.leaves)
                width = self.place(child, inner, block=True)
                self._shift(start, x)
                x += width
            before, behind = style.get("margin-left", 0.0), style.get("margin-right", 0.0)
            items.append(
                (first, len(self.leaves), x, before, behind, style.get("top", 0.0) + strut, inner.align)
            )
            widest = max(widest, before + x + behind)
        for first, end, width, before, behind, down, align in items:
            dx = before + align * (widest - width - before - behind)
            for number in range(first, end):
                self.leaves[number].x += dx
                self.leaves[number].y += down
        return widest


def _items(element: _Element) -> Iterator[_Element]:
    """Items of a vertical list: children of the first cell of its first row."""
    row = next(iter(element), None)
    cell = None if row is None else next(iter(row), None)
    return iter(()) if cell is None else iter(cell)


def _extent(base: _Element, font: float) -> tuple[float, float]:
    """Ascent and descent that a base's strut asks for."""
    for child in base:
        if "strut" in child.get("class", "").split():
            style = _lengths(child.get("style"), font)
            up = style.get("vertical-align", 0.0)
            return style.get("height", 0.0) + up, -up
    return 0.0, 0.0


def lay_out(html: _Element, advances: Advances) -> list[Leaf]:
    """Symbols of a `katex-html` element in document order, text untrimmed.

    Lines are centred on the widest; y = 0 is the first line's baseline.
    """
    flow = _Flow(advances)
    root = _Context(BASE_FONT_PX)
    content = _half_up(ASCENT_EM * BASE_FONT_PX) + _half_up(DESCENT_EM * BASE_FONT_PX)
    half_leading = (LINE_EM * BASE_FONT_PX - content) / 2
    least = (
        _half_up(ASCENT_EM * BASE_FONT_PX) + half_leading,
        _half_up(DESCENT_EM * BASE_FONT_PX) + half_leading,
    )
    lines: list[tuple[int, int, float]] = []
    tags: list[tuple[int, int, float]] = []
    baseline = x = margin = 0.0
    first, (ascent, descent), below = 0, least, 0.0
    started = False

    def close_line() -> None:
        nonlocal baseline, below, started
        if started:
            baseline += below + margin + ascent
        started = True
        below = descent
        flow._shift(first, 0.0, baseline)
        lines.append((first, len(flow.leaves), x))

    for child in html:
        names = child.get("class", "").split()
        if "newline" in names:
            close_line()
            margin = _lengths(child.get("style"), BASE_FONT_PX).get("margin-top", 0.0)
            first, (ascent, descent), x = len(flow.leaves), least, 0.0
            continue
        start = len(flow.leaves)
        width = flow.place(child, root)
        up, down = _extent(child, BASE_FONT_PX)
        if "tag" in names:
            tags.append((start, len(flow.leaves), width))
            continue
        ascent, descent = max(ascent, up), max(descent, down)
        flow._shift(start, x)
        x += width
    close_line()
    widest = max(width for _, _, width in lines)
    tagged = {number for start, end, _ in tags for number in range(start, end)}
    for start, end, width in lines:
        for number in range(start, end):
            if number not in tagged:
                flow.leaves[number].x += (widest - width) / 2
    for start, end, width in tags:
        for number in range(start, end):
            flow.leaves[number].x += widest - width
    return flow.leaves
