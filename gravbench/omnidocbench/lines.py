"""Ground-truth and predicted items as comparable lines, and the rows that matching them gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rapidfuzz.distance import Levenshtein

from gravbench.omnidocbench.formula_lines import split_formula
from gravbench.omnidocbench.ground_truth import FORMULA, Element
from gravbench.omnidocbench.markdown_items import Item
from gravbench.omnidocbench.text import Normalizer

SourceKey = tuple[int, int, str, str, str]


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted item in matching; `source` tells the lines of one formula from those of another."""

    item: Item
    source: SourceKey

    @property
    def start(self) -> int:
        return self.item.start


def predicted(item: Item) -> Predicted:
    """An extracted item as it enters matching, its own source."""
    return Predicted(item, (item.start, item.end, item.content, item.fine or "", item.category))


@dataclass(frozen=True, slots=True)
class TruthItem:
    """A ground-truth element, or one line of a formula with an order of its own."""

    category: str
    order: Order
    content: str
    attribute: Any

    @property
    def position(self) -> Order:
        """Quirk: an order of 0 counts as none."""
        return self.order or None


@dataclass(frozen=True, slots=True)
class TruthLines:
    """Lines that have something to compare, and the items they came from.

    Quirk: lines without raw or normalised text are dropped, items are not. After one dropped line, line i
    reports position and attributes of item i, which is the item before its own.
    """

    raw: tuple[str, ...]
    norm: tuple[str, ...]
    categories: tuple[str, ...]
    items: tuple[TruthItem, ...]


@dataclass(frozen=True, slots=True)
class PredictedLines:
    """The same for predictions; position and category are those of item i (same quirk).

    `origins` are the items the lines really came from; nothing official reads them.
    """

    raw: tuple[str, ...]
    norm: tuple[str, ...]
    items: tuple[Predicted, ...]
    origins: tuple[Predicted, ...]


def truth_items(elements: Sequence[Element]) -> tuple[TruthItem, ...]:
    """Elements with multi-line formulas cut: line i of a formula gets order + i / 1000."""
    items: list[TruthItem] = []
    for element in elements:
        lines = split_formula(element.content) if element.category == FORMULA else ()
        if not lines:
            items.append(TruthItem(element.category, element.order, element.content, element.attribute))
            continue
        base = float(element.order or 0)
        items += (
            TruthItem(FORMULA, base + number / 1000.0, f"\\[{line.latex}\\]", element.attribute)
            for number, line in enumerate(lines, start=1)
        )
    return tuple(items)


def split_predictions(items: Sequence[Predicted]) -> list[Predicted]:
    """Multi-line formulas cut; each line at its offset in the formula's content."""
    split: list[Predicted] = []
    for whole in items:
        item = whole.item
        lines = split_formula(item.content) if item.category == FORMULA else ()
        if not lines:
            split.append(whole)
        split += (
            replace(
                whole,
                item=replace(
                    item,
                    content=f"\\[{line.latex.strip()}\\]",
                    start=item.start + line.first,
                    end=item.start + line.last,
                ),
            )
            for line in lines
        )
    return split


def inline_last(items: Sequence[Item]) -> list[Item]:
    """By start, inline formulas behind everything else; stable."""
    return sorted(items, key=lambda item: (item.is_inline, item.start))


def truth_lines(items: Sequence[TruthItem], normalizer: Normalizer) -> TruthLines:
    """Comparable lines of ground-truth items."""
    kept = []
    for item in items:
        is_formula = item.category == FORMULA
        norm = normalizer.formula(item.content) if is_formula else normalizer.text(item.content)
        if item.content and norm:
            kept.append((item.content, norm, item.category))
    raw, norms, categories = zip(*kept, strict=True) if kept else ((), (), ())
    return TruthLines(raw, norms, categories, tuple(items))


def predicted_lines(items: Sequence[Predicted], normalizer: Normalizer) -> PredictedLines:
    """Comparable lines of predicted items."""
    kept = []
    for origin in items:
        item = origin.item
        norm = normalizer.formula(item.content) if item.category == FORMULA else normalizer.text(item.content)
        if item.content and norm:
            kept.append((item.content, norm, origin))
    raw, norms, origins = zip(*kept, strict=True) if kept else ((), (), ())
    return PredictedLines(raw, norms, tuple(items), origins)


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
        """Edits / longer sequence; 0 is best, range 0..1."""
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


Placed = tuple[tuple[Order, ...], int | None]
"""Ground-truth orders of one row (None or 0: none) and where its prediction begins (None: nowhere)."""


def reading_order(rows: Sequence[Placed], image: str) -> OrderRow | None:
    """Order of a page's rows, their Levenshtein distance counted in blocks; None when no row has an order.

    Truth: all orders, sorted. Predicted: orders of the rows that have a prediction, by its start (stable).
    Unmatched truth thus shortens the prediction and counts as deletions.
    """
    known = [(orders, start) for orders, start in rows if orders != (None,)]
    truth = tuple(sorted(order for orders, _ in known for order in orders if order))
    placed = sorted(((start, orders) for orders, start in known if start is not None), key=lambda row: row[0])
    found = tuple(order for _, orders in placed for order in orders if order)
    if not truth and not found:
        return None
    numbers: dict[int | float, int] = {}
    encoded = [[numbers.setdefault(order, len(numbers)) for order in side] for side in (truth, found)]
    return OrderRow(image, truth, found, int(Levenshtein.distance(*encoded)))
