"""Where each token of a formula has its ink, from mathtext's own list of glyphs and rules.

Mathtext says where it put every glyph, but not which token asked for it. Its order is that of the formula,
save for three constructions: a superscript comes before a subscript, both bounds of a sum around its sign,
and a root's index before its sign. So the tokens are brought into that order and then counted off; a formula
in which the counts differ gets no anchors at all.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from gravbench.workshop.synth.ink import Anchors
from gravbench.workshop.synth.language import ACCENTS, FUNCTIONS, target_units

_OVER_UNDER = ("\\sum", "\\prod", "\\lim")
_WORDS = (*FUNCTIONS, "\\lim")
_SILENT = ("\\left", "\\right")


@dataclass(slots=True)
class _Reader:
    """Recursive descent over the tokens; `glyphs` and `rules` collect token indices in drawing order."""

    tokens: list[str]
    at: int = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def sequence(self, stop: str) -> list[tuple[str, int]]:
        """Marks ("glyph" or "rule", token index) up to the token `stop`, which is consumed."""
        marks: list[tuple[str, int]] = []
        while self.at < len(self.tokens) and self.peek() != stop:
            marks += self.item()
        self.at += 1
        return marks

    def group(self) -> list[tuple[str, int]]:
        """A braced group."""
        self.at += 1
        return self.sequence("}")

    def item(self) -> list[tuple[str, int]]:
        """One nucleus with its scripts."""
        index, token = self.at, self.peek()
        self.at += 1
        if token in (" ", *_SILENT):
            return []
        if token == "\\frac":
            top = self.group()
            return [*top, ("rule", index), *self.group()]
        if token == "\\sqrt":
            root: list[tuple[str, int]] = []
            if self.peek() == "[":
                self.at += 1
                root = self.sequence("]")
            nucleus = [*root, ("glyph", index), ("rule", index), *self.group()]
        elif token in ACCENTS:
            nucleus = [("glyph", index), *self.group()]
        elif token in _WORDS:
            nucleus = [("glyph", index)] * (len(token) - 1)
        else:
            nucleus = [("glyph", index)]
        scripts: dict[str, list[tuple[str, int]]] = {"^": [], "_": []}
        while self.peek() in scripts:
            script = self.peek()
            self.at += 1
            scripts[script] = self.group()
        if token in _OVER_UNDER:
            return [*scripts["^"], *nucleus, *scripts["_"]]
        return [*nucleus, *scripts["^"], *scripts["_"]]


def drawing_order(tokens: list[str]) -> list[tuple[str, int]]:
    """("glyph" or "rule", token index) in the order in which mathtext draws the formula."""
    return _Reader(tokens).sequence("")


@functools.cache
def _vector_parser() -> Any:
    from matplotlib.mathtext import MathTextParser

    return MathTextParser("path")


def formula_anchors(latex: str, drawn: str, properties: Any) -> Anchors:
    """One anchor per character of `latex`, in pixels from the top left corner of the formula's ink.

    `drawn` is what mathtext was given instead (display fractions). A token's anchor, the middle of the boxes
    of all its glyphs (of the rule for a fraction), stands at its first character; None without ink.
    """
    vector = _vector_parser().parse(f"${drawn}$", 72, properties)
    glyphs = [_glyph_box(f, size, glyph, x, y) for f, size, _, glyph, x, y in vector.glyphs]
    rules = [(x, y, x + w, y + h) for x, y, w, h in vector.rects]
    none: Anchors = [None] * len(latex)
    tokens = target_units(latex)
    marks = drawing_order(tokens)
    kinds = [kind for kind, _ in marks]
    if (kinds.count("glyph"), kinds.count("rule")) != (len(glyphs), len(rules)):
        return none
    queues = {"glyph": iter(glyphs), "rule": iter(rules)}
    boxes: dict[int, list[tuple[float, float, float, float]]] = {}
    for kind, index in marks:
        boxes.setdefault(index, []).append(next(queues[kind]))
    for index, found in boxes.items():
        if tokens[index] == "\\sqrt":
            boxes[index] = found[:1]  # the sign, not the line over the radicand
    ink = _hull([*glyphs, *rules])
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    for index, found in boxes.items():
        left, low, right, high = _hull(found)
        none[starts[index]] = ((left + right) / 2 - ink[0], ink[3] - (low + high) / 2)
    return none


def _glyph_box(font: Any, size: float, glyph: int, x: float, y: float) -> tuple[float, float, float, float]:
    """Ink box (left, low, right, high) of a glyph at pen position (x, y), y upwards."""
    from matplotlib.ft2font import LoadFlags

    font.set_size(size, 72)
    left, low, right, high = (side / 64 for side in font.load_glyph(glyph, LoadFlags.NO_HINTING).bbox)
    return x + left, y + low, x + right, y + high


def _hull(boxes: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    lefts, lows, rights, highs = zip(*boxes, strict=True)
    return min(lefts), min(lows), max(rights), max(highs)
