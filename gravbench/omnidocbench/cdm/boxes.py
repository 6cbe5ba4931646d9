"""Token boxes from coloured pixels (OmniDocBench v1.6: 8 px left around the ink, boxes grown by 1 px)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.omnidocbench.cdm.colour import LEVEL, LEVELS
from gravbench.omnidocbench.cdm.raster import Page

PAD = 8
TOLERANCE = 1
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels of the cropped image."""


@dataclass(frozen=True)
class Boxes:
    """Size of the cropped image, and a box for each token in order; `None` for a token without pixels."""

    width: int
    height: int
    boxes: tuple[Box | None, ...]


def find_boxes(pages: Sequence[Page], *, tokens: int, colours: int) -> Boxes:
    """Boxes of `tokens` tokens on pages stacked top to bottom.

    Without any ink the image is what is left of a 10 x 10 square plus padding, and no token has a box.
    """
    rows, columns, colour = _ink(pages)
    width = max(page.width for page in pages)
    height = sum(page.height for page in pages)
    if len(rows):
        bounds = (int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max()))
    else:
        bounds = (0, 0, 10, 10)
    left, top = max(0, bounds[0] - PAD), max(0, bounds[1] - PAD)
    right, bottom = min(width, bounds[2] + PAD), min(height, bounds[3] + PAD)
    found = _by_token(rows - top, columns - left, _palette_index(colour), colours)
    return Boxes(right - left, bottom - top, tuple(found.get(number) for number in range(1, tokens + 1)))


def _ink(pages: Sequence[Page]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Rows and columns on the stacked pages, and channels [pixels, 3], of what is not white in grey."""
    rows, columns, colours = [], [], []
    offset = 0
    for page in pages:
        packed = page.pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
        at = np.flatnonzero(packed != 0xFFFFFF)
        row, column = np.divmod(at, page.pixels.shape[1])
        colour = page.pixels.reshape(-1, 3)[at].astype(np.int32)
        grey = (colour @ np.array([19595, 38470, 7471], dtype=np.int32) + 0x8000) >> 16
        dark = grey != 255
        rows.append(row[dark] + page.top + offset)
        columns.append(column[dark] + page.left)
        colours.append(colour[dark])
        offset += page.height
    return np.concatenate(rows), np.concatenate(columns), np.concatenate(colours)


def _palette_index(colour: NDArray[np.int32]) -> NDArray[np.int32]:
    """Palette entry of each pixel; 0 for white and where a channel is too far from its level."""
    level = np.minimum((colour + LEVEL // 2) // LEVEL, LEVELS - 1)
    exact = (np.abs(colour - level * LEVEL) <= TOLERANCE).all(axis=1)
    white = (colour >= 255 - TOLERANCE).all(axis=1)
    index = level @ np.array([LEVELS * LEVELS, LEVELS, 1], dtype=np.int32)
    return np.where(exact & ~white, index, 0)


def _by_token(
    rows: NDArray[np.int64], columns: NDArray[np.int64], index: NDArray[np.int32], colours: int
) -> dict[int, Box]:
    mine = (index >= 1) & (index <= colours)
    if not mine.any():
        return {}
    rows, columns, index = rows[mine], columns[mine], index[mine]
    order = np.argsort(index, kind="stable")
    rows, columns, index = rows[order], columns[order], index[order]
    starts = np.flatnonzero(np.r_[True, index[1:] != index[:-1]])
    edges = (
        np.minimum.reduceat(columns, starts) - 1,
        np.minimum.reduceat(rows, starts) - 1,
        np.maximum.reduceat(columns, starts) + 1,
        np.maximum.reduceat(rows, starts) + 1,
    )
    return {
        int(number): (int(left), int(top), int(right), int(bottom))
        for number, left, top, right, bottom in zip(index[starts], *edges, strict=True)
    }
