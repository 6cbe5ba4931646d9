"""Ghostscript runs: PDF pages to the exact pixels of the official path, but only where there is ink.

The official path is ImageMagick at 200 dpi, which runs Ghostscript's `pngalpha` device and then loses the
alpha channel: a pixel a glyph touches at all keeps its full colour. Compressing whole white pages is what
costs there. Here a `bbox` run finds the ink, the crop box of every page is overwritten on a 9 pt grid (25 px:
the sub-pixel phase stays), and one `pngalpha` run draws just that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from gravbench.omnidocbench.cdm.colour import LEVEL, LEVELS
from gravbench.omnidocbench.cdm.tex import CROP_PLACEHOLDER, environment
from gravbench.omnidocbench.cdm.tools import Finished, Limits, run_limited

GRID_PT = 9
MARGIN_PT = 4.0
PT_PER_PIXEL = 0.36
_PLACEHOLDER = CROP_PLACEHOLDER.encode()
_MEDIA_BOX = re.compile(rb"/MediaBox \[0 0 ([0-9.]+) ([0-9.]+)\]")
_BBOX = re.compile(r"^%%HiResBoundingBox: (\S+) (\S+) (\S+) (\S+)", re.MULTILINE)
_COMMON = ("-q", "-dSAFER", "-dBATCH", "-dNOPAUSE")
_DRAW = (
    *_COMMON,
    *("-dNOPROMPT", "-dMaxBitmap=500000000", "-dAlignToPixels=0", "-dGridFitTT=2", "-sDEVICE=pngalpha"),
    *("-dTextAlphaBits=4", "-dGraphicsAlphaBits=4", "-r200x200"),
)


class RasterError(Exception):
    """Ghostscript did not draw every page."""


@dataclass(frozen=True)
class Page:
    """The inked part of a page: RGB pixels, and where they lie on the full page."""

    pixels: NDArray[np.uint8]
    """[rows, columns, 3]"""
    left: int
    top: int
    width: int
    height: int
    """Size of the full page in pixels."""


@dataclass(frozen=True)
class _Crop:
    """Crop box in points, origin at the lower left, and the page it is on."""

    left: int
    bottom: int
    page_width: float
    page_height: float


def draw_pages(
    pdfs: Sequence[Path], wanted: Sequence[frozenset[int]], *, folder: Path, gs: Path, limits: Limits
) -> list[dict[int, Page]]:
    """Pages of each PDF by index, only the wanted ones. `RasterError` if any is missing."""
    sizes = [_page_sizes(pdf) for pdf in pdfs]
    boxes = _ink_boxes(pdfs, sum(map(len, sizes)), folder=folder, gs=gs, limits=limits)
    crops: list[list[_Crop]] = []
    cropped: list[Path] = []
    at = 0
    for pdf, pages, keep in zip(pdfs, sizes, wanted, strict=True):
        inked = [boxes[at + index] if index in keep else None for index in range(len(pages))]
        cropped.append(folder / f"crop{len(cropped)}.pdf")
        crops.append(_write_cropped(pdf, cropped[-1], pages, inked))
        at += len(pages)
    files = _draw(
        cropped, [*_DRAW, "-dUseCropBox"], sum(map(len, sizes)), folder=folder, gs=gs, limits=limits
    )
    drawn: list[dict[int, Page]] = []
    at = 0
    for pdf_crops, keep in zip(crops, wanted, strict=True):
        drawn.append({index: _load_crop(files[at + index], pdf_crops[index]) for index in sorted(keep)})
        at += len(pdf_crops)
    return drawn


def draw_whole(pdf: Path, *, folder: Path, gs: Path, limits: Limits) -> list[Page]:
    """All pages of a PDF in full, as the official path does it: for a file whose pages cannot be cropped."""
    files = _draw([pdf], list(_DRAW), None, folder=folder, gs=gs, limits=limits)
    pages = []
    for file in files:
        pixels = _load(file)
        pages.append(Page(pixels, 0, 0, pixels.shape[1], pixels.shape[0]))
    return pages


def croppable_pages(pdf: Path) -> int:
    """How many pages carry the placeholder in plain text; 0 when any page does not."""
    try:
        return len(_page_sizes(pdf))
    except RasterError:
        return 0


def _page_sizes(pdf: Path) -> list[tuple[float, float]]:
    """Page sizes in points, in page order."""
    data = pdf.read_bytes()
    sizes = [(float(width), float(height)) for width, height in _MEDIA_BOX.findall(data)]
    if len(sizes) != data.count(_PLACEHOLDER) or not sizes:
        raise RasterError(f"{pdf.name}: {len(sizes)} page sizes, {data.count(_PLACEHOLDER)} crop boxes")
    return sizes


def _ink_boxes(
    pdfs: Sequence[Path], pages: int, *, folder: Path, gs: Path, limits: Limits
) -> list[tuple[float, float, float, float]]:
    """Left, bottom, right, top of the ink of each page, in points; all zero on an empty page."""
    finished = _ghostscript([*_COMMON, "-sDEVICE=bbox"], pdfs, "bbox", folder=folder, gs=gs, limits=limits)
    boxes = [(float(a), float(b), float(c), float(d)) for a, b, c, d in _BBOX.findall(finished.errors())]
    if finished.returncode != 0 or len(boxes) != pages:
        raise RasterError(_why(finished, f"{len(boxes)} of {pages} bounding boxes"))
    return boxes


def _write_cropped(
    pdf: Path,
    target: Path,
    sizes: Sequence[tuple[float, float]],
    inked: Sequence[tuple[float, float, float, float] | None],
) -> list[_Crop]:
    """A copy with the placeholders overwritten, same length, so that the file's offsets stay valid."""
    data = bytearray(pdf.read_bytes())
    crops = []
    at = 0
    for (width, height), box in zip(sizes, inked, strict=True):
        left = bottom = 0
        right, top = float(GRID_PT), float(GRID_PT)
        if box is not None and box[2] > box[0] and box[3] > box[1]:
            left, bottom = (max(0, math.floor((edge - MARGIN_PT) / GRID_PT) * GRID_PT) for edge in box[:2])
            right = min(width, math.ceil((box[2] + MARGIN_PT) / GRID_PT) * GRID_PT)
            top = min(height, math.ceil((box[3] + MARGIN_PT) / GRID_PT) * GRID_PT)
        entry = f"/CropBox [{left:05d} {bottom:05d} {right:09.3f} {top:09.3f}]".encode()
        at = data.index(_PLACEHOLDER, at)
        data[at : at + len(_PLACEHOLDER)] = entry
        if len(entry) != len(_PLACEHOLDER):
            raise RasterError(f"{pdf.name}: crop box {entry.decode()} does not fit its place")
        crops.append(_Crop(left, bottom, width, height))
    target.write_bytes(data)
    return crops


def _draw(
    pdfs: Sequence[Path], options: list[str], pages: int | None, *, folder: Path, gs: Path, limits: Limits
) -> list[Path]:
    """PNG files in page order; `pages` is how many there must be, if known."""
    target = [*options, "-sOutputFile=page_%d.png"]
    finished = _ghostscript(target, pdfs, "draw", folder=folder, gs=gs, limits=limits)
    files: list[Path] = []
    while (file := folder / f"page_{len(files) + 1}.png").is_file():
        files.append(file)
    if finished.returncode != 0 or not files or (pages is not None and len(files) != pages):
        raise RasterError(_why(finished, f"{len(files)} of {pages or 'some'} pages"))
    return files


def _ghostscript(
    options: Sequence[str], pdfs: Sequence[Path], name: str, *, folder: Path, gs: Path, limits: Limits
) -> Finished:
    inputs = [argument for pdf in pdfs for argument in ("-f", str(pdf))]
    return run_limited(
        [str(gs), *options, *inputs],
        cwd=folder,
        env=environment(folder, gs),
        cpu_s=limits.raster_cpu_s,
        file_bytes=limits.raster_file_bytes,
        memory_kbytes=2 * limits.memory_kbytes,
        wall_s=10 + limits.wall_factor * limits.raster_cpu_s,
        name=name,
    )


def _why(finished: Finished, detail: str) -> str:
    said = (finished.errors(4096).strip() or finished.output(4096).strip()).splitlines()
    reason = finished.stopped or f"exit status {finished.returncode}"
    return f"Ghostscript ended by {reason} with {detail}" + (f": {said[-1]}" if said else "")


def _load_crop(file: Path, crop: _Crop) -> Page:
    pixels = _load(file)
    height = round(crop.page_height / PT_PER_PIXEL)
    width = round(crop.page_width / PT_PER_PIXEL)
    top = height - (round(crop.bottom / PT_PER_PIXEL) + pixels.shape[0])
    return Page(pixels, round(crop.left / PT_PER_PIXEL), top, width, height)


def _load(file: Path) -> NDArray[np.uint8]:
    """RGB of a PNG, its alpha channel thrown away; the file is removed."""
    try:
        with Image.open(file) as image:
            pixels = np.asarray(image.convert("RGB") if image.mode != "RGBA" else image)[:, :, :3]
    except (OSError, ValueError) as error:
        raise RasterError(f"{file.name} cannot be read: {error}") from error
    file.unlink()
    return pixels


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
    left, top, right, bottom = _cropped(rows, columns, pages)
    found = _by_token(rows - top, columns - left, _palette_index(colour), colours)
    return Boxes(right - left, bottom - top, tuple(found.get(number) for number in range(1, tokens + 1)))


def ink_picture(pages: Sequence[Page]) -> NDArray[np.bool_]:
    """Where the cropped image of `find_boxes` has ink: [rows, columns]."""
    rows, columns, _ = _ink(pages)
    left, top, right, bottom = _cropped(rows, columns, pages)
    picture = np.zeros((bottom - top, right - left), dtype=bool)
    picture[rows - top, columns - left] = True
    return picture


def _cropped(rows: NDArray[np.int64], columns: NDArray[np.int64], pages: Sequence[Page]) -> Box:
    """What is left of the stacked pages: all ink with its padding."""
    width = max(page.width for page in pages)
    height = sum(page.height for page in pages)
    bounds = (0, 0, 10, 10)
    if len(rows):
        bounds = (int(columns.min()), int(rows.min()), int(columns.max()), int(rows.max()))
    left, top = max(0, bounds[0] - PAD), max(0, bounds[1] - PAD)
    return left, top, min(width, bounds[2] + PAD), min(height, bounds[3] + PAD)


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
