"""Aggregations of edit distance under their OmniDocBench names; 0 is best, range 0..1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TEXT_SIGNATURE = "ned|unit:char|norm:omnidoc16-text|agg:ALL_page_avg|match:omnidoc16-quick|v:1"
FORMULA_SIGNATURE = "ned|unit:char|norm:omnidoc16-formula|agg:ALL_page_avg|match:omnidoc16-formula|v:1"
TABLE_SIGNATURE = "ned|unit:char|norm:omnidoc16-html|agg:ALL_page_avg|match:omnidoc16-table|v:1"


@dataclass(frozen=True, slots=True)
class EditCount:
    """Edits of one row and its longer side in characters. `edits` is None when both sides are empty."""

    page: str
    edits: int | None
    upper: int


def page_distances(counts: Iterable[EditCount]) -> dict[str, float]:
    """Page -> sum of edits / sum of longer sides, by page name; pages without characters are left out."""
    sums: dict[str, tuple[int, int]] = {}
    for count in counts:
        edits, upper = sums.get(count.page, (0, 0))
        sums[count.page] = (edits + (count.edits or 0), upper + count.upper)
    return {page: edits / upper for page, (edits, upper) in sorted(sums.items()) if upper}


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None for no values."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else None


@dataclass(frozen=True, slots=True)
class EditSummary:
    """`ALL_page_avg` is the leaderboard number of text and reading order. None: nothing to average."""

    all_page_avg: float | None
    edit_whole: float | None
    edit_sample_avg: float | None

    def official(self) -> dict[str, float | str | None]:
        """Official names; the string "NaN" alone when there was nothing to compare."""
        if self.all_page_avg is None:
            return {"ALL_page_avg": "NaN"}
        return {
            "ALL_page_avg": self.all_page_avg,
            "edit_whole": self.edit_whole,
            "edit_sample_avg": self.edit_sample_avg,
        }


def summarize_edits(counts: Sequence[EditCount]) -> EditSummary:
    """Mean of page distances, pooled distance, and mean of row distances."""
    upper = sum(count.upper for count in counts)
    return EditSummary(
        mean(list(page_distances(counts).values())),
        sum(count.edits or 0 for count in counts) / upper if upper else None,
        mean([count.edits / count.upper for count in counts if count.edits is not None]),
    )
