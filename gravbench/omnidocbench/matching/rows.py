"""Rows: one scored pair of ground truth and prediction, under the official field names when written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORMULA_KINDS = frozenset({"equation_isolated", "equation_inline"})
IGNORED_CATEGORIES = frozenset(
    {
        "figure_caption",
        "figure_footnote",
        "table_caption",
        "table_footnote",
        "code_algorithm",
        "code_algorithm_caption",
        "header",
        "footer",
        "page_footnote",
        "page_number",
        "equation_caption",
    }
)
"""Matched, so that they can absorb predicted furniture, but scored nowhere."""

Order = int | float | None


@dataclass(slots=True)
class Row:
    """Some ground-truth lines against some predicted lines. Empty index tuples: nothing on that side.

    `distance` is the matcher's; the score is taken from `norm_gt` and `norm_pred` again later.
    """

    gt_idx: tuple[int, ...]
    pred_idx: tuple[int, ...]
    gt: str
    pred: str
    norm_gt: str
    norm_pred: str
    gt_position: tuple[Order, ...]
    pred_position: int | None
    gt_category: str
    pred_category: str
    gt_attribute: tuple[Any, ...]
    distance: float
    image: str
    cdm: dict[str, str] = field(default_factory=dict)
    """`gt_cdm`, `pred_cdm`, `pred_cdm_alt` of formula rows."""
    metric: dict[str, float] = field(default_factory=dict)
    edits: int | None = None
    upper: int = 0

    @property
    def compared(self) -> tuple[str, str]:
        """What is scored: normalised texts, each falling back to the raw one when it is empty."""
        return self.norm_gt or self.gt, self.norm_pred or self.pred

    def to_record(self) -> dict[str, Any]:
        """The row under official names; an empty side is written `[""]`, a missing position `""`."""
        record: dict[str, Any] = {
            "img_id": self.image,
            "gt_idx": list(self.gt_idx) or [""],
            "pred_idx": list(self.pred_idx) or [""],
            "gt": self.gt,
            "pred": self.pred,
            "norm_gt": self.norm_gt,
            "norm_pred": self.norm_pred,
            "gt_position": ["" if order is None else order for order in self.gt_position] or [""],
            "pred_position": "" if self.pred_position is None else self.pred_position,
            "gt_category_type": self.gt_category,
            "pred_category_type": self.pred_category,
            "gt_attribute": list(self.gt_attribute),
            "edit": self.distance,
        }
        record |= self.cdm
        record["metric"] = dict(self.metric)
        if self.edits is not None:
            record["Edit_num"] = self.edits
        record["upper_len"] = self.upper
        return record


@dataclass(frozen=True, slots=True)
class OrderRow:
    """Reading order of one page: ground-truth orders sorted, and as the prediction has them."""

    image: str
    gt: tuple[int | float, ...]
    pred: tuple[int | float, ...]
    edits: int

    @property
    def upper(self) -> int:
        return max(len(self.gt), len(self.pred))

    @property
    def distance(self) -> float:
        """Edits / longer sequence."""
        return self.edits / self.upper

    def to_record(self) -> dict[str, Any]:
        return {
            "img_id": self.image,
            "gt": list(self.gt),
            "pred": list(self.pred),
            "edit": self.distance,
            "metric": {"Edit_dist": self.distance},
            "Edit_num": self.edits,
            "upper_len": self.upper,
        }


def attributes_of(values: tuple[Any, ...]) -> list[Mapping[str, Any]]:
    """Attribute mappings among `values`, nested lists opened."""
    found: list[Mapping[str, Any]] = []
    for value in values:
        if isinstance(value, Mapping):
            found.append(value)
        elif isinstance(value, list):
            found += attributes_of(tuple(value))
    return found
