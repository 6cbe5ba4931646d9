"""Regions by recursive cuts along white gaps (XY cut, Nagy and Seth 1984). No weights.

Good enough to run pages end to end anywhere; it knows text, tables with rules, and nothing else.
"""

from __future__ import annotations

import hashlib
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gravbench.errors import DataError
from gravbench.pages.layouts import refuse_model
from gravbench.pages.regions import PageSample, Region
from gravbench.store.schema import LayoutInfo

NAME = "whitespace"
VERSION = 1
Mask = NDArray[np.bool_]
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class CutRules:
    """Gaps are in units of the page's median letter height; contrast is in grey levels."""

    contrast: int = 40
    row_gap: float = 1.0
    column_gap: float = 1.8
    gutter_height: float = 0.5
    gutter_width: float = 0.3
    """A column gap goes before wider row gaps when both sides have these shares of the part's size."""
    margin: int = 3
    rule_share: float = 0.8
    """A pixel row with this share of ink is a rule; two rules or more make a table."""
    max_regions: int = 400


class WhitespaceLayout:
    """Cuts a page at its widest gap, again and again; the parts come top to bottom, left to right."""

    def __init__(self, rules: CutRules | None = None) -> None:
        self._rules = rules or CutRules()

    def describe(self) -> LayoutInfo:
        text = repr((VERSION, astuple(self._rules)))
        return LayoutInfo(name=NAME, digest=hashlib.sha256(text.encode()).hexdigest())

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]:  # noqa: ARG002
        ink = ink_of(image, contrast=self._rules.contrast)
        if not ink.any():
            raise DataError("the page is blank: no ink to cut")
        unit = letter_height(ink)
        boxes = cut(ink, unit=unit, rules=self._rules)
        if len(boxes) > self._rules.max_regions:
            raise DataError(
                f"whitespace cuts give {len(boxes)} regions, expected at most {self._rules.max_regions}: "
                "the page is no line art on even paper"
            )
        return tuple(self._region(number, box, ink) for number, box in enumerate(boxes))

    def close(self) -> None:
        """Nothing to release."""

    def _region(self, number: int, box: Box, ink: Mask) -> Region:
        left, top, right, bottom = box
        part = ink[top:bottom, left:right]
        rows = part.mean(axis=1) >= self._rules.rule_share
        rules = int(np.count_nonzero(np.diff(rows.astype(np.int8), prepend=0) == 1))
        margin = self._rules.margin
        x0, y0 = max(left - margin, 0), max(top - margin, 0)
        x1, y1 = min(right + margin, ink.shape[1]), min(bottom + margin, ink.shape[0])
        return Region(
            region_id=f"{number:03}",
            label="table" if rules >= 2 and bottom - top > 20 else "text",
            polygon=((x0, y0), (x1, y0), (x1, y1), (x0, y1)),
        )


def ink_of(image: Image.Image, *, contrast: int) -> Mask:
    """[height, width], true where a pixel differs from the page's median grey by more than `contrast`."""
    grey = np.asarray(image.convert("L"), dtype=np.int16)
    return np.asarray(np.abs(grey - np.median(grey)) > contrast)


def letter_height(ink: Mask) -> float:
    """Median height of connected pieces of ink that are neither specks nor pictures; at least 4."""
    from scipy import ndimage

    labels, _ = ndimage.label(ink)
    heights = np.array([piece[0].stop - piece[0].start for piece in ndimage.find_objects(labels)])
    letters = heights[(heights >= 4) & (heights <= max(8, ink.shape[0] // 12))]
    return max(4.0, float(np.median(letters))) if len(letters) else 10.0


def cut(ink: Mask, *, unit: float, rules: CutRules) -> list[Box]:
    """Boxes (left, top, right, bottom) of the parts, in reading order."""
    found: list[Box] = []
    waiting: list[Box] = [(0, 0, ink.shape[1], ink.shape[0])]
    while waiting:
        box = _tight(ink, waiting.pop())
        if box is None:
            continue
        halves = _split(ink, box, unit=unit, rules=rules)
        if halves is None:
            found.append(box)
        else:
            waiting += reversed(halves)
    return found


def _tight(ink: Mask, box: Box) -> Box | None:
    left, top, right, bottom = box
    part = ink[top:bottom, left:right]
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    if not len(rows):
        return None
    return (
        left + int(columns[0]),
        top + int(rows[0]),
        left + int(columns[-1]) + 1,
        top + int(rows[-1]) + 1,
    )


def _split(ink: Mask, box: Box, *, unit: float, rules: CutRules) -> list[Box] | None:
    """The two halves at the gap that is widest against its threshold; None when every gap is too narrow."""
    left, top, right, bottom = box
    part = ink[top:bottom, left:right]
    row_gap, row_at = _widest_gap(np.asarray(part.any(axis=1)))
    column_gap, column_at = _widest_gap(np.asarray(part.any(axis=0)))
    by_row = row_gap / (rules.row_gap * unit)
    by_column = column_gap / (rules.column_gap * unit)
    if max(by_row, by_column) < 1:
        return None
    gutter = by_column >= 1 and _is_gutter(part, column_at, rules)
    if by_row >= by_column and not gutter:
        return [(left, top, right, top + row_at), (left, top + row_at, right, bottom)]
    return [(left, top, left + column_at, bottom), (left + column_at, top, right, bottom)]


def _is_gutter(part: Mask, at: int, rules: CutRules) -> bool:
    """Whether both sides of a column gap are text columns: wide and tall enough to be read one by one."""
    for side in (part[:, :at], part[:, at:]):
        rows = np.flatnonzero(side.any(axis=1))
        tall = len(rows) and rows[-1] - rows[0] + 1 >= rules.gutter_height * part.shape[0]
        if not tall or side.shape[1] < rules.gutter_width * part.shape[1]:
            return False
    return True


def _widest_gap(filled: Mask) -> tuple[int, int]:
    """(width, middle) of the widest run of empty entries; (0, 0) when there is none."""
    places = np.flatnonzero(filled)
    if len(places) < 2:
        return 0, 0
    gaps = np.diff(places) - 1
    widest = int(np.argmax(gaps))
    return int(gaps[widest]), int(places[widest]) + 1 + int(gaps[widest]) // 2


def open_whitespace(model: str | None, *, device: str, threads: int) -> WhitespaceLayout:  # noqa: ARG001
    """No weights, no device."""
    refuse_model(NAME, model)
    return WhitespaceLayout()
