"""Pages, their regions, what finds the regions, and what becomes of each (GLM-OCR page pipeline).

OmniDocBench's annotation of a page is foreign: it is read for the fields in use and keeps the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field

from gravbench.errors import DataError, has_controls, printable
from gravbench.records import Point, Record, Task
from gravbench.store.schema import LayoutInfo

if TYPE_CHECKING:
    from PIL import Image

Route = Task | Literal["skipped", "dropped"]

_TEXT = (
    *("abstract", "algorithm", "aside_text", "content", "doc_title", "figure_title", "formula_number"),
    *("paragraph_title", "reference_content", "seal", "text", "vertical_text", "vision_footnote"),
)
WHOLE_PAGE = "page"
"""Label of a whole page as one region; no layout model has it. Its answer is Markdown, kept as it is."""
_FORMULA = ("formula", "display_formula", "inline_formula")
_SKIPPED = ("image", "chart")
_DROPPED = ("header", "footer", "footnote", "number", "reference", "header_image", "footer_image")

ROUTES: dict[str, Route] = {
    **dict.fromkeys(_TEXT, "text"),
    WHOLE_PAGE: "text",
    "table": "table",
    **dict.fromkeys(_FORMULA, "formula"),
    **dict.fromkeys(_SKIPPED, "skipped"),
    **dict.fromkeys(_DROPPED, "dropped"),
}
"""`skipped` regions keep their place but are not read; `dropped` ones are page furniture."""


class Region(Record):
    """One region to read, in image pixels. Regions come in reading order."""

    region_id: str
    label: str
    """A label of PP-DocLayoutV3: text, paragraph_title, table, formula, formula_number, header, ..."""
    polygon: tuple[Point, ...] = Field(min_length=3)
    score: float | None = None
    """Detector confidence; `None` for annotations and rules."""

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Bounding box (left, top, right, bottom)."""
        xs = [x for x, _ in self.polygon]
        ys = [y for _, y in self.polygon]
        return min(xs), min(ys), max(xs), max(ys)


NO_DIGEST = "0" * 64
"""Of a page whose image was not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSample:
    """One annotated page of a suite. `entry` is its object in the annotation file, read by need."""

    sample_id: str
    image_name: str
    """Base name of the image: the page's id in official scoring."""
    image_path: str | None
    """Absolute path; `None` when `fault` says why there is none."""
    image_sha256: str
    """Digest of image file and annotation together."""
    entry: dict[str, Any]
    attributes: dict[str, bool | int | str]
    fault: str | None = None
    """What is wrong with this page's image; the page then fails, and others run."""
    task: Literal["page"] = "page"

    @property
    def truth(self) -> dict[str, Any]:
        return self.entry

    @property
    def content(self) -> str | None:
        """The truth as a person reads it: tests a line each, else the contents of regions in reading order.

        `None` where the regions are not those of the format.
        """
        if "tests" in self.entry:
            return "\n".join(described_test(row) for row in self.entry["tests"])
        if not has_places(self.entry):
            blocks = self.entry["layout_dets"]
            return "\n\n".join(str(b.get("text") or b.get("html") or b.get("latex")) for b in blocks)
        try:
            regions = annotated_regions(self.entry)
        except DataError:
            return None
        return "\n\n".join(region.content for region in regions if region.content)

    @property
    def page(self) -> str:
        """Name of the page that it is of: its own."""
        return self.image_name

    @property
    def annotated(self) -> tuple[float, float] | None:
        """Width and height that the annotation states, in pixels."""
        return annotated_size(self.entry)

    @property
    def listed(self) -> frozenset[str]:
        """Attributes that are lists in the annotation; in `attributes` their members are joined by `+`."""
        return listed_attributes(self.entry)

    @property
    def reference_sha(self) -> str:
        """That of image and annotation: the official scorer reads the image's name beside the annotation."""
        return self.image_sha256


def listed_attributes(entry: Mapping[str, Any]) -> frozenset[str]:
    """Names of a page's attributes whose values are lists."""
    given = entry["page_info"].get("page_attribute") or {}
    return frozenset(printable(name) for name, value in given.items() if isinstance(value, list))


class LayoutProvider(Protocol):
    """Finds the regions of a page. A page it cannot serve is a `DataError`, which costs that page alone."""

    def describe(self) -> LayoutInfo: ...

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]: ...

    def close(self) -> None: ...


def route_of(label: str) -> Route:
    """Task of a region, or why it is not read; an unknown label is a `DataError`."""
    if label not in ROUTES:
        raise DataError(
            f"layout label {label!r} is unknown, expected one of {', '.join(sorted(ROUTES))}",
            hint="use a layout model with the labels of PP-DocLayoutV3",
        )
    return ROUTES[label]


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

MAX_COORDINATE = 1_000_000
"""Sides and coordinates beyond this many pixels belong to no page."""

_CORRECT = "Correct this page in the annotation file, or restore the release's."


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedRegion:
    """A region with its ground truth: text, LaTeX or HTML; empty where the annotation has none."""

    region: Region
    category: str
    content: str
    attributes: Mapping[str, Any]


def annotated_regions(entry: Mapping[str, Any]) -> tuple[AnnotatedRegion, ...]:
    """Regions that are not ignored, in reading order; those without an order come last, in file order.

    Polygons are in pixels of the annotated page size; an id that occurs again gets `~2`, `~3`, ... An empty
    layout, an unknown category, a broken polygon, order or id is a `DataError`.
    """
    blocks = entry.get("layout_dets")
    if not isinstance(blocks, list) or not blocks:
        raise DataError("layout_dets is empty: the page has no annotated region", hint=_CORRECT)
    found: list[tuple[float, AnnotatedRegion]] = []
    for index, block in enumerate(blocks):
        category = block.get("category_type")
        if category in UNREAD_CATEGORIES or block.get("ignore", False):
            continue
        if category not in CATEGORY_LABELS:
            raise DataError(
                f"layout_dets[{index}].category_type is {category!r}, "
                "expected a category of OmniDocBench v1.6",
                hint=_CORRECT,
            )
        found.append((_place(block.get("order"), index), _region(block, index, category)))
    found.sort(key=lambda pair: pair[0])
    return _with_own_ids([region for _, region in found])


_TOLD = frozenset({"number", "category", "pdf", "page", "id", "type", "url", "checked"})
"""Fields of a test that say where it comes from, not what it asks."""


def described_test(row: Mapping[str, Any]) -> str:
    """One test of a page as a line: its type and id, and what it asks for."""
    asked = {key: value for key, value in row.items() if key not in _TOLD and value not in (None, "", False)}
    return f"{row['type']} {row['id']}: " + ", ".join(f"{key} {value!r}" for key, value in asked.items())


def has_places(entry: Mapping[str, Any]) -> bool:
    """Whether any block of a page says where it stands; Markdown or tests as its truth have none."""
    if "tests" in entry:
        return False
    blocks = entry.get("layout_dets")
    return not isinstance(blocks, list) or not blocks or any("poly" in block for block in blocks)


def annotated_size(entry: Mapping[str, Any]) -> tuple[float, float] | None:
    """Width and height that a page's annotation states, in pixels; `None` where they are no such numbers."""
    width, height = (entry["page_info"].get(side) for side in ("width", "height"))
    usable = _is_number(width) and _is_number(height) and width >= 1 and height >= 1
    return (width, height) if usable else None


def page_scale(entry: Mapping[str, Any], size: tuple[int, int]) -> tuple[float, float]:
    """Factors from annotated pixels to those of an image of `size`; 1 and 1 when the sizes agree.

    Some pages of the release have width and height exchanged; their polygons are right. Another shape than
    the image's, either way round, is a `DataError`.
    """
    stated = annotated_size(entry)
    if stated is None:
        info = entry["page_info"]
        raise DataError(
            f"page_info.width and height are {_shown(info.get('width'))} and {_shown(info.get('height'))}, "
            f"expected numbers of pixels from 1 to {MAX_COORDINATE:,}",
            hint=_CORRECT,
        )
    width, height = stated
    for first, second in ((width, height), (height, width)):
        factors = size[0] / first, size[1] / second
        if abs(factors[0] / factors[1] - 1) <= SHAPE_TOLERANCE:
            return factors
    raise DataError(
        f"page_info says {width} x {height} pixels, the image has {size[0]} x {size[1]}: another shape",
        hint="Restore the page's own image, or correct its width and height.",
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
            region_id=_region_id(block.get("anno_id", index), index),
            label=CATEGORY_LABELS[category],
            polygon=_polygon(block.get("poly"), index),
        ),
        category=category,
        content=content if isinstance(content, str) else "",
        attributes=attributes if isinstance(attributes, dict) else {},
    )


def _place(order: Any, index: int) -> float:
    """Sort key of a region; behind all others without an order."""
    if isinstance(order, bool) or not isinstance(order, int | float):
        return math.inf
    if not _is_number(order):
        raise DataError(
            f"layout_dets[{index}].order is {_shown(order)}, expected a number within {MAX_COORDINATE:,}",
            hint=_CORRECT,
        )
    return float(order)


def _region_id(value: Any, index: int) -> str:
    text = str(value)
    if has_controls(text):
        raise DataError(
            f"layout_dets[{index}].anno_id is {_shown(value)}, expected text without control characters",
            hint=_CORRECT,
        )
    return text


def _with_own_ids(regions: Sequence[AnnotatedRegion]) -> tuple[AnnotatedRegion, ...]:
    """The regions; an id that was taken before gets the first free `~N`, so that records name one region."""
    found: list[AnnotatedRegion] = []
    taken = {region.region.region_id for region in regions}
    seen: set[str] = set()
    for annotated in regions:
        name = annotated.region.region_id
        if name in seen:
            free = next(f"{name}~{n}" for n in itertools.count(2) if f"{name}~{n}" not in taken)
            taken.add(free)
            annotated = replace(annotated, region=annotated.region.model_copy(update={"region_id": free}))
        seen.add(name)
        found.append(annotated)
    return tuple(found)


def _is_number(value: Any) -> bool:
    """Whether `value` is a number that can be a place on a page: no NaN, nothing beyond `MAX_COORDINATE`."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -MAX_COORDINATE <= value <= MAX_COORDINATE
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _polygon(value: Any, index: int) -> tuple[Point, ...]:
    numbers = value if isinstance(value, list) else []
    if not all(map(_is_number, numbers)) or len(numbers) < 6 or len(numbers) % 2:
        raise DataError(
            f"layout_dets[{index}].poly is {_shown(value)}, "
            f"expected 8 numbers of pixels from -{MAX_COORDINATE:,} to {MAX_COORDINATE:,}",
            hint=_CORRECT,
        )
    return tuple(zip(map(float, numbers[::2]), map(float, numbers[1::2]), strict=True))
