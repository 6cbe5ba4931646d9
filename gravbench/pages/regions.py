"""Pages, their regions, what finds the regions, and what becomes of each (GLM-OCR page pipeline)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field

from gravbench.errors import DataError
from gravbench.records import Point, Record, Task
from gravbench.store.run_identity import LayoutInfo

if TYPE_CHECKING:
    from PIL import Image

Route = Task | Literal["skipped", "dropped"]

_TEXT = (
    *("abstract", "algorithm", "aside_text", "content", "doc_title", "figure_title", "formula_number"),
    *("paragraph_title", "reference_content", "seal", "text", "vertical_text", "vision_footnote"),
)
_FORMULA = ("formula", "display_formula", "inline_formula")
_SKIPPED = ("image", "chart")
_DROPPED = ("header", "footer", "footnote", "number", "reference", "header_image", "footer_image")

ROUTES: dict[str, Route] = {
    **dict.fromkeys(_TEXT, "text"),
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
    def reference_sha(self) -> str:
        """That of image and annotation: the official scorer reads the image's name beside the annotation."""
        return self.image_sha256


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
