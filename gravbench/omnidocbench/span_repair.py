"""Second looks at matched rows: mixed pairs compared as text, and badly matched paragraphs re-searched.

OmniDocBench v1.6 scorer, "cross-category adaptation" and "local span repair".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from gravbench.metrics.edit_distance import normalized_distance
from gravbench.omnidocbench.formula_text import strip_delimiters
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.lines import FORMULA_KINDS, Row, inline_last
from gravbench.omnidocbench.markdown_items import Item
from gravbench.omnidocbench.text import Normalizer, inline_as_formula

POOR = 0.45
LONG_TRUTH_CHARS = 80
REACH = 8
MIN_GAIN = 0.2
TOLERANCE = 1e-12
_INLINE = re.compile(r"\$[^$]+\$|\\\([^)]*\\\)")
_MATH_MACROS = ("\\frac", "\\sum", "\\int", "\\sqrt", "\\left", "\\right")


def _as_text(kind: str, text: str, normalizer: Normalizer) -> str:
    """Formulas lose their delimiters; inline math becomes plain text where it can."""
    return normalizer.unicode(strip_delimiters(text) if kind in FORMULA_KINDS else text)


def compare_mixed_as_text(row: Row, normalizer: Normalizer) -> None:
    """A formula paired with a text item: both sides are compared as text."""
    if not row.gt_category or not row.pred_category:
        return
    if (row.gt_category in FORMULA_KINDS) == (row.pred_category in FORMULA_KINDS):
        return
    row.gt = _as_text(row.gt_category, row.gt, normalizer)
    row.pred = _as_text(row.pred_category, row.pred, normalizer)
    row.norm_gt, row.norm_pred = normalizer.text(row.gt), normalizer.text(row.pred)
    row.distance = normalized_distance(row.norm_gt, row.norm_pred)


def has_math_hint(text: str) -> bool:
    """Inline math, one of six macros, or a script together with a dollar or backslash."""
    if _INLINE.search(text) or any(macro in text for macro in _MATH_MACROS):
        return True
    return ("^" in text or "_" in text) and ("$" in text or "\\" in text)


@dataclass(frozen=True, slots=True)
class _Span:
    """Pool items first..last as a replacement prediction."""

    first: int
    last: int
    norm: str
    distance: float

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class _Pool:
    """Predicted items, inline formulas last, and the normalised text of runs of them."""

    def __init__(self, items: Sequence[Item], normalizer: Normalizer) -> None:
        self.items = inline_last(items)
        self._normalizer = normalizer
        self._shown = [_as_text(item.category, item.content, normalizer) for item in self.items]
        self._norms = [normalizer.text(shown) for shown in self._shown]
        # joining cannot create maths or one of the two-character sequences that clean() deletes
        self._plain = [
            not any(char in shown for char in "$\\") and not shown.rstrip("\t\n").endswith("/")
            for shown in self._shown
        ]
        self._runs: dict[tuple[int, int], str] = {}

    def norm(self, first: int, last: int) -> str:
        """Normalised text of the joined items first..last."""
        if first == last:
            return self._norms[first]
        key = (first, last)
        if key not in self._runs:
            if all(self._plain[first : last + 1]):
                self._runs[key] = "".join(self._norms[first : last + 1])
            else:
                self._runs[key] = self._normalizer.text("".join(self._shown[first : last + 1]))
        return self._runs[key]

    def owned(self, row: Row) -> list[int]:
        """Pool items of a row's prediction.

        Quirk: the row's numbers count split lines without the empty ones, yet serve as pool numbers here;
        only where none of them fits do ranges around the row's position count.
        """
        numbers = sorted({number for number in row.pred_idx if number < len(self.items)})
        if numbers or row.pred_position is None:
            return numbers
        position = row.pred_position
        return [i for i, item in enumerate(self.items) if item.start <= position <= item.end]


def _worth_a_look(row: Row) -> bool:
    if row.gt_category not in ("title", "text_block") or row.distance <= POOR:
        return False
    return row.gt_category == "title" or has_math_hint(row.gt) or len(row.norm_gt) >= LONG_TRUTH_CHARS


def _truth_text(row: Row, hint: bool, normalizer: Normalizer) -> str:
    return normalizer.text(inline_as_formula(row.gt) if hint else normalizer.unicode(row.gt))


def _best_span(
    row: Row, pool: _Pool, owned: Sequence[int], taken: np.ndarray, normalizer: Normalizer
) -> _Span | None:
    """Closest run of free neighbouring items; ties go to the shorter, then to the nearer one.

    Runs that could not be accepted are passed over by length or by a distance limit, which changes nothing.
    """
    hint = has_math_hint(row.gt)
    truth = _truth_text(row, hint, normalizer)
    if not truth:
        return None
    highest = 0.45 if hint else 0.35
    low = max(0, min(owned) - REACH) if owned else 0
    high = min(len(pool.items) - 1, max(owned) + REACH) if owned else len(pool.items) - 1
    size = len(truth)
    best: _Span | None = None
    for first in range(low, high + 1):
        for last in range(first, min(high, first + (8 if hint else 4) - 1) + 1):
            if taken[last] or (pool.items[last].category == FORMULA and not hint):
                break
            norm = pool.norm(first, last)
            longer = max(size, len(norm))
            if not norm or abs(size - len(norm)) > highest * longer:
                continue
            edits = Levenshtein.distance(truth, norm, score_cutoff=int(highest * longer) + 1)
            span = _Span(first, last, norm, edits / longer)
            if span.distance <= highest and (best is None or _is_better(span, best, owned)):
                best = span
    return best if best is not None and best.distance < row.distance - MIN_GAIN else None


def _is_better(span: _Span, best: _Span, owned: Sequence[int]) -> bool:
    if span.distance + TOLERANCE < best.distance:
        return True
    if span.distance > best.distance + TOLERANCE or span.length > best.length:
        return False
    if span.length < best.length:
        return True
    return bool(owned) and abs(span.first - owned[0]) < abs(best.first - owned[0])


def repair_spans(rows: Sequence[Row], items: Sequence[Item], normalizer: Normalizer) -> None:
    """Give poorly matched titles and paragraphs a better run of predictions that no other row owns.

    Accepted in order of decreasing gain, no prediction twice; only the prediction side changes.
    """
    wanting = [row for row in rows if _worth_a_look(row)]
    if not wanting or not items:
        return
    pool = _Pool(items, normalizer)
    owned = {id(row): pool.owned(row) for row in rows}
    owners = np.zeros(len(pool.items), dtype=np.int64)
    for numbers in owned.values():
        owners[numbers] += 1
    offers: list[tuple[float, Row, _Span]] = []
    for row in wanting:
        mine = owned[id(row)]
        others = owners.copy()
        others[mine] -= 1
        if span := _best_span(row, pool, mine, others > 0, normalizer):
            offers.append((row.distance - span.distance, row, span))
    used: set[int] = set()
    for _, row, span in sorted(offers, key=lambda offer: offer[0], reverse=True):
        run = range(span.first, span.last + 1)
        if used.intersection(run):
            continue
        used.update(run)
        row.pred_idx = tuple(run)
        row.pred = "".join(pool.items[number].content for number in run)
        row.pred_position = pool.items[span.first].start
        row.pred_category = "text_block"
        row.norm_pred, row.distance = span.norm, span.distance
