"""Ground-truth and predicted items as comparable lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gravbench.omnidocbench.formulas.split import split_formula
from gravbench.omnidocbench.ground_truth import FORMULA, Element
from gravbench.omnidocbench.markdown.items import Item
from gravbench.omnidocbench.matching.rows import Order
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
