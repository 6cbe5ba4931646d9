"""Reading order: Levenshtein distance between orders of matched blocks (OmniDocBench v1.6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

Order = int | float


@dataclass(frozen=True, slots=True)
class Placed:
    """Ground-truth orders of one row (None or 0: none) and where its prediction begins (None: nowhere)."""

    orders: tuple[Order | None, ...]
    start: int | None


@dataclass(frozen=True, slots=True)
class ReadingOrder:
    """Both sequences of one page and the edits between them."""

    truth: tuple[Order, ...]
    predicted: tuple[Order, ...]
    edits: int

    @property
    def distance(self) -> float:
        """Edits / longer sequence; 0 is best, range 0..1."""
        return self.edits / max(len(self.truth), len(self.predicted))


def reading_order(rows: Sequence[Placed]) -> ReadingOrder | None:
    """Order of a page's rows; None when no row has an order.

    Truth: all orders, sorted. Predicted: orders of the rows that have a prediction, by its start (stable).
    Unmatched truth thus shortens the prediction and counts as deletions.
    """
    known = [row for row in rows if row.orders != (None,)]
    truth = sorted(order for row in known for order in row.orders if order)
    placed = sorted(
        ((row.start, row.orders) for row in known if row.start is not None), key=lambda pair: pair[0]
    )
    predicted = [order for _, orders in placed for order in orders if order]
    if not truth and not predicted:
        return None
    numbers: dict[Order, int] = {}
    encoded = [[numbers.setdefault(order, len(numbers)) for order in side] for side in (truth, predicted)]
    return ReadingOrder(tuple(truth), tuple(predicted), int(Levenshtein.distance(*encoded)))
