"""Layout label -> what to do with the region (GLM-OCR page pipeline)."""

from __future__ import annotations

from typing import Literal

from gravbench.errors import DataError
from gravbench.records import Task

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


def route_of(label: str) -> Route:
    """Task of a region, or why it is not read; an unknown label is a `DataError`."""
    if label not in ROUTES:
        raise DataError(
            f"layout label {label!r} is unknown, expected one of {', '.join(sorted(ROUTES))}",
            hint="use a layout model with the labels of PP-DocLayoutV3",
        )
    return ROUTES[label]
