"""Open a page, and cut its regions out at full resolution."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

from gravbench.errors import DataError
from gravbench.imaging import load_image
from gravbench.pages.regions import PageSample, Region, annotated_size

PAGE_PIXELS = 170_000_000
"""Pixels a page may have: below the point where the image library itself refuses."""

SKEW = 2.0
"""A polygon that leaves its bounding box by more pixels than this is cut out along its edges."""
FLAT = 1e-9
"""Share of its length that a line may be thick by rounding."""

_CORRECT_POLYGON = "Correct the polygon, or the page's width and height."


def open_page(page: PageSample) -> Image.Image:
    """A page's image as its annotation sees it; `DataError` with the reason where it has none."""
    if page.fault is not None or page.image_path is None:
        raise DataError(page.fault or f"{page.image_name}: no image")
    return load_image(page.image_path, max_pixels=PAGE_PIXELS, annotated=annotated_size(page.entry))


def cut_region(image: Image.Image, region: Region, *, grid: int = 1) -> Image.Image:
    """The region's bounding box, clipped to the page, padded with its background to multiples of `grid`.

    Outside a slanted polygon the crop shows the background as well. A region without area on the page is a
    `DataError`.
    """
    left, top, right, bottom = clipped_box(image.size, region)
    crop = image.crop((left, top, right, bottom))
    paper = background_of(crop)
    if _is_slanted(region):
        mask = Image.new("1", crop.size, 0)
        ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in region.polygon], fill=1)
        flat = Image.new(crop.mode, crop.size, paper)
        flat.paste(crop, (0, 0), mask)
        crop = flat
    width, height = (grid * math.ceil(side / grid) for side in crop.size)
    if (width, height) == crop.size:
        return crop
    padded = Image.new(crop.mode, (width, height), paper)
    padded.paste(crop, ((width - crop.width) // 2, (height - crop.height) // 2))
    return padded


def background_of(crop: Image.Image) -> int | tuple[int, ...]:
    """Median colour of the crop's outermost pixels."""
    pixels = np.asarray(crop)
    rim = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    levels = np.median(rim, axis=0).astype(int)
    return int(levels) if levels.ndim == 0 else tuple(int(level) for level in levels)


def clipped_box(size: tuple[int, int], region: Region) -> tuple[int, int, int, int]:
    """Whole pixels (left, top, right, bottom) of the region on a page of `size`; `DataError` without any."""
    left, top, right, bottom = region.box
    if not all(math.isfinite(side) for side in region.box) or _is_line(region):
        raise DataError(
            f"region {region.region_id}: polygon {_shown(region)} has no area", hint=_CORRECT_POLYGON
        )
    box = (
        max(0, math.floor(left)),
        max(0, math.floor(top)),
        min(size[0], math.ceil(right)),
        min(size[1], math.ceil(bottom)),
    )
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(
            f"region {region.region_id}: polygon {_shown(region)} lies outside the page of "
            f"{size[0]} x {size[1]} pixels",
            hint=_CORRECT_POLYGON,
        )
    return box


def _is_line(region: Region) -> bool:
    """Whether all corners lie on one line: such a polygon has a box, perhaps, but no area."""
    (x0, y0), *others = region.polygon
    x1, y1 = max(others, key=lambda point: math.hypot(point[0] - x0, point[1] - y0))
    length = math.hypot(x1 - x0, y1 - y0)
    return all(
        abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) <= FLAT * length * length for x, y in region.polygon
    )


def _is_slanted(region: Region) -> bool:
    left, top, right, bottom = region.box
    return any(min(x - left, right - x) > SKEW or min(y - top, bottom - y) > SKEW for x, y in region.polygon)


def _shown(region: Region) -> str:
    return "(" + ", ".join(f"{side:g}" for side in region.box) + ")"
