"""Regions of an OmniDocBench page object: categories, polygons, order.

The annotation file is foreign: it is read for the fields in use and keeps the rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gravbench.errors import DataError
from gravbench.regions import Point, Region

CATEGORY_LABELS: dict[str, str] = {
    "text_block": "text",
    "title": "paragraph_title",
    "table": "table",
    "equation_isolated": "formula",
    "equation_caption": "formula_number",
    "code_txt": "algorithm",
    "code_txt_caption": "figure_title",
    "code_algorithm": "algorithm",
    "code_algorithm_caption": "figure_title",
    "reference": "reference_content",
    "figure": "image",
    "figure_caption": "figure_title",
    "figure_footnote": "vision_footnote",
    "table_caption": "figure_title",
    "table_footnote": "vision_footnote",
    "header": "header",
    "footer": "footer",
    "page_number": "number",
    "page_footnote": "footnote",
}
"""Categories that the official scorer reads, and figures, as labels of the layout model."""

UNREAD_CATEGORIES = frozenset(
    {
        *("abandon", "list_group", "equation_semantic", "equation_explanation"),
        *("text_mask", "table_mask", "chart_mask", "algorithm_mask", "unknown_mask", "need_mask"),
        "organic_chemical_formula_mask",
    }
)
"""Categories of the release that nobody scores: grouping boxes and masks."""


SHAPE_TOLERANCE = 0.02
"""Aspect ratios may differ by this share: a resized image is rounded to whole pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedRegion:
    """A region with its ground truth: text, LaTeX or HTML; empty where the annotation has none."""

    region: Region
    category: str
    content: str
    attributes: Mapping[str, Any]


def annotated_regions(entry: Mapping[str, Any]) -> tuple[AnnotatedRegion, ...]:
    """Regions that are not ignored, in reading order; those without an order come last, in file order.

    Polygons are in pixels of the annotated page size. An empty layout, an unknown category or a broken
    polygon is a `DataError`.
    """
    blocks = entry.get("layout_dets")
    if not isinstance(blocks, list) or not blocks:
        raise DataError("layout_dets is empty: the page has no annotated region")
    found: list[tuple[float, AnnotatedRegion]] = []
    for index, block in enumerate(blocks):
        category = block.get("category_type")
        if category in UNREAD_CATEGORIES or block.get("ignore", False):
            continue
        if category not in CATEGORY_LABELS:
            raise DataError(
                f"layout_dets[{index}].category_type is {category!r}, "
                "expected a category of OmniDocBench v1.6"
            )
        order = block.get("order")
        place = float(order) if isinstance(order, int | float) else math.inf
        found.append((place, _region(block, index, category)))
    found.sort(key=lambda pair: pair[0])
    return tuple(region for _, region in found)


def page_scale(entry: Mapping[str, Any], size: tuple[int, int]) -> tuple[float, float]:
    """Factors from annotated pixels to those of an image of `size`; 1 and 1 when the sizes agree.

    Some pages of the release have width and height exchanged; their polygons are right. Another shape than
    the image's, either way round, is a `DataError`.
    """
    info = entry["page_info"]
    width, height = info.get("width"), info.get("height")
    if not isinstance(width, int | float) or not isinstance(height, int | float) or min(width, height) <= 0:
        raise DataError(f"page_info.width and height are {width!r} and {height!r}, expected pixels")
    for first, second in ((width, height), (height, width)):
        factors = size[0] / first, size[1] / second
        if abs(factors[0] / factors[1] - 1) <= SHAPE_TOLERANCE:
            return factors
    raise DataError(
        f"page_info says {width} x {height} pixels, the image has {size[0]} x {size[1]}: another shape"
    )


def scaled(region: Region, factors: tuple[float, float]) -> Region:
    """The region in an image that is larger or smaller than annotated."""
    if factors == (1.0, 1.0):
        return region
    polygon = tuple((x * factors[0], y * factors[1]) for x, y in region.polygon)
    return region.model_copy(update={"polygon": polygon})


def _region(block: Mapping[str, Any], index: int, category: str) -> AnnotatedRegion:
    content = block.get({"table": "html", "equation_isolated": "latex"}.get(category, "text"))
    attributes = block.get("attribute")
    return AnnotatedRegion(
        region=Region(
            region_id=str(block.get("anno_id", index)),
            label=CATEGORY_LABELS[category],
            polygon=_polygon(block.get("poly"), index),
        ),
        category=category,
        content=content if isinstance(content, str) else "",
        attributes=attributes if isinstance(attributes, dict) else {},
    )


def _polygon(value: Any, index: int) -> tuple[Point, ...]:
    numbers = value if isinstance(value, list) else []
    good = all(isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n) for n in numbers)
    if not good or len(numbers) < 6 or len(numbers) % 2:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise DataError(f"layout_dets[{index}].poly is {shown}, expected 8 numbers")
    return tuple(zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True))
