"""Cut a region out of its page at full resolution."""

from __future__ import annotations

import math

import numpy as np
from PIL import Image, ImageDraw

from gravbench.errors import DataError
from gravbench.regions import Region

SKEW = 2.0
"""A polygon that leaves its bounding box by more pixels than this is cut out along its edges."""


def cut_region(image: Image.Image, region: Region, *, grid: int = 1) -> Image.Image:
    """The region's bounding box, clipped to the page, padded with its background to multiples of `grid`.

    Outside a slanted polygon the crop shows the background as well. A region without area on the page is a
    `DataError`.
    """
    left, top, right, bottom = _clipped_box(image, region)
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


def _clipped_box(image: Image.Image, region: Region) -> tuple[int, int, int, int]:
    left, top, right, bottom = region.box
    if not all(math.isfinite(side) for side in region.box) or right - left <= 0 or bottom - top <= 0:
        raise DataError(f"region {region.region_id}: polygon {_shown(region)} has no area")
    box = (
        max(0, math.floor(left)),
        max(0, math.floor(top)),
        min(image.width, math.ceil(right)),
        min(image.height, math.ceil(bottom)),
    )
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(
            f"region {region.region_id}: polygon {_shown(region)} lies outside the page of "
            f"{image.width} x {image.height} pixels"
        )
    return box


def _is_slanted(region: Region) -> bool:
    left, top, right, bottom = region.box
    return any(min(x - left, right - x) > SKEW or min(y - top, bottom - y) > SKEW for x, y in region.polygon)


def _shown(region: Region) -> str:
    return "(" + ", ".join(f"{side:g}" for side in region.box) + ")"
