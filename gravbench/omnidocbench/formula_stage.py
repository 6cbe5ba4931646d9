"""Formula stage: several complete assignments of formula lines, the best of them kept.

OmniDocBench v1.6 scorer, "formula stage". Ground truth is scored line by line; unmatched predicted formulas
cost nothing in the score, they only break ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gravbench.metrics.assignment import linear_sum_assignment
from gravbench.metrics.edit_distance import EditTable, edit_distance, normalized_distance
from gravbench.omnidocbench.formula_assignments import (
    RESCUED,
    FormulaInputs,
    assign_runs,
    cut_readings,
    formula_inputs,
    in_pool_order,
    merged_content,
    reported_kind,
    with_logic_rewritten,
)
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.lines import (
    Predicted,
    Row,
    SourceKey,
    TruthLines,
    inline_last,
    predicted_lines,
    split_predictions,
)
from gravbench.omnidocbench.quick_match import quick_match
from gravbench.omnidocbench.text import Normalizer

TOLERANCE = 1e-12
SQUARE_UP_TO = 600
"""Up to so many lines on both sides the assignment is the official square one; beyond, the rectangular one
of equal cost (only exact ties could fall differently)."""
_COMPLETE_KINDS = frozenset({"", "equation_inline", "equation_isolated"})


@dataclass(frozen=True, slots=True)
class Candidate:
    """A complete assignment: its rows, the items its row numbers refer to, how it came about."""

    name: str
    rows: tuple[Row, ...]
    items: tuple[Predicted, ...]
    predictions: int
    rewritten: int = 0

    @property
    def sources(self) -> set[SourceKey]:
        """Predicted formulas in use. Quirk: row numbers count lines, `items` is not compacted with them."""
        numbers = (number for row in self.rows for number in row.pred_idx if number < len(self.items))
        return {self.items[number].source for number in numbers}


def _sum(values: Iterable[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def _ranking(candidate: Candidate) -> tuple[float | int, ...]:
    """Less is better: total distance, edits per character, predictions left over, mean distance, fewer
    rewritten blocks last, truth lines without a prediction."""
    rows = candidate.rows
    total = _sum(row.distance for row in rows)
    edits = characters = 0
    for row in rows:
        if not row.pred_idx:
            continue
        characters += max(len(row.norm_gt), len(row.norm_pred))
        edits += edit_distance(row.norm_gt, row.norm_pred)
    weighted = (edits / characters if characters else 0.0) if rows else float("inf")
    mean = total / len(rows) if rows else float("inf")
    left = max(0, candidate.predictions - len(candidate.sources))
    return total, weighted, left, mean, -candidate.rewritten, sum(not row.pred_idx for row in rows)


def _ranks_before(key: tuple[float | int, ...], best: tuple[float | int, ...]) -> bool:
    """Lexicographic; floats within 1e-12 are equal."""
    for value, other in zip(key, best, strict=True):
        tolerance = TOLERANCE if isinstance(value, float) or isinstance(other, float) else 0
        if value + tolerance < other:
            return True
        if value > other + tolerance:
            return False
    return False


def _is_complete(rows: Sequence[Row], truths: int) -> bool:
    """Exactly one row for each truth line, matched to formulas only."""
    numbers = [row.gt_idx for row in rows]
    if len(rows) != truths or any(len(number) != 1 for number in numbers) or len(set(numbers)) != truths:
        return False
    return all(row.pred_category in _COMPLETE_KINDS for row in rows)


def _with_reported_kind(row: Row) -> Row:
    return replace(row, pred_category=FORMULA) if row.pred_category in RESCUED else row


def _row(inputs: FormulaInputs, truth: int, sequence: Sequence[int], image: str) -> Row:
    """A truth line with a run of predictions; an empty run leaves it unmatched at distance 1."""
    lines, item = inputs.predicted, inputs.truth.items[truth]
    norm_gt = inputs.truth.norm[truth]
    pred = norm_pred = kind = ""
    distance, position = 1.0, None
    if sequence:
        parts = [lines.raw[number] for number in sequence]
        pred = merged_content(parts) if len(parts) > 1 else parts[0]
        norm_pred = " ".join(lines.norm[number] for number in sequence).strip()
        first = lines.items[sequence[0]].item
        kind = "equation_isolated" if len(parts) > 1 else reported_kind(first)
        distance, position = normalized_distance(norm_gt, norm_pred), first.start
    return Row(
        gt_idx=(truth,),
        pred_idx=tuple(sequence),
        gt=inputs.truth.raw[truth],
        pred=pred,
        norm_gt=norm_gt,
        norm_pred=norm_pred,
        gt_position=(item.order,),
        pred_position=position,
        gt_category=inputs.truth.categories[truth],
        pred_category=kind,
        gt_attribute=(item.attribute,),
        distance=distance,
        image=image,
    )


def assign_one_to_one(distances: NDArray[np.float64]) -> list[int | None]:
    """Prediction of each truth line by least total cost; leaving one out on either side costs 1."""
    truths, predictions = distances.shape
    if truths + predictions > SQUARE_UP_TO:
        rows, columns = linear_sum_assignment(distances)
    else:
        cost = np.ones((truths + predictions, truths + predictions))
        cost[truths:, predictions:] = 0.0
        cost[:truths, :predictions] = distances
        rows, columns = linear_sum_assignment(cost)
    column_of = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    found = (column_of.get(truth) for truth in range(truths))
    return [column if column is not None and column < predictions else None for column in found]


def _one_to_one_rows(inputs: FormulaInputs, image: str) -> tuple[Row, ...]:
    if not inputs.predicted.norm:
        return tuple(_row(inputs, truth, (), image) for truth in range(len(inputs.truth.norm)))
    assigned = assign_one_to_one(inputs.distances)
    return tuple(
        _row(inputs, truth, () if number is None else (number,), image)
        for truth, number in enumerate(assigned)
    )


def _run_rows(inputs: FormulaInputs, image: str, *, gaps: bool) -> tuple[Row, ...]:
    sequences = assign_runs(inputs, gaps=gaps)
    return tuple(_row(inputs, truth, sequence, image) for truth, sequence in enumerate(sequences))


class FormulaStage:
    """One page's formulas. `candidates` yields complete assignments in the official order."""

    def __init__(
        self, truth: TruthLines, pool: Sequence[Predicted], normalizer: Normalizer, image: str
    ) -> None:
        self._truth = truth
        self._pool = pool
        self._normalizer = normalizer
        self._image = image
        self._table = EditTable(truth.norm)
        self.official_windows = 0
        self.searched = True

    def _quick_rows(self, pool: Sequence[Predicted]) -> list[Row]:
        by_item = {id(predicted.item): predicted for predicted in pool}
        ordered = [by_item[id(item)] for item in inline_last([predicted.item for predicted in pool])]
        lines = predicted_lines(ordered, self._normalizer)
        match = quick_match(self._truth, lines, self._image, self._table)
        self.official_windows += match.official_windows
        self.searched = self.searched and match.searched
        return [_with_reported_kind(row) for row in match.rows]

    def _whole(self, pool: Sequence[Predicted], prefix: str, rewritten: int) -> Iterator[Candidate]:
        """Assignments with predictions as they are; only complete ones count."""
        ordered = in_pool_order(pool)
        inputs = formula_inputs(self._truth, ordered, self._normalizer, self._table)
        attempts: tuple[tuple[str, Callable[[], tuple[Row, ...]]], ...] = (
            ("quick_unsplit", lambda: tuple(self._quick_rows(pool))),
            ("hungarian_unsplit", lambda: _one_to_one_rows(inputs, self._image)),
            ("dp_unsplit", lambda: _run_rows(inputs, self._image, gaps=False)),
            ("dp_unsplit_allow_gaps", lambda: _run_rows(inputs, self._image, gaps=True)),
        )
        for name, attempt in attempts:
            rows = attempt()
            if _is_complete(rows, len(self._truth.norm)):
                yield Candidate(prefix + name, rows, tuple(ordered), len(ordered), rewritten)

    def _cut(self, pool: Sequence[Predicted], prefix: str, rewritten: int) -> Iterator[Candidate]:
        """Assignments with multi-line predictions cut in every way, one to one."""
        seen = set()
        for reading in cut_readings(pool):
            ordered = in_pool_order(reading)
            inputs = formula_inputs(self._truth, ordered, self._normalizer, self._table)
            rows = _one_to_one_rows(inputs, self._image)
            key = tuple((row.gt_position, row.pred_idx, round(row.distance, 6)) for row in rows)
            if key not in seen:
                seen.add(key)
                yield Candidate(prefix + "split_hungarian", rows, tuple(ordered), len(pool), rewritten)

    def _split(self, pool: Sequence[Predicted], prefix: str, rewritten: int) -> Iterator[Candidate]:
        """Assignments of runs with multi-line predictions cut into all their lines."""
        ordered = in_pool_order(pool)
        split = split_predictions(ordered)
        if len(split) == len(ordered):
            return
        inputs = formula_inputs(self._truth, split, self._normalizer, self._table)
        for name, gaps in (("split_dp", False), ("split_dp_allow_gaps", True)):
            rows = _run_rows(inputs, self._image, gaps=gaps)
            if rows:
                yield Candidate(prefix + name, rows, tuple(split), len(ordered), rewritten)

    def candidates(self, current: Sequence[Row]) -> Iterator[Candidate]:
        """The hybrid result first, then every other assignment."""
        ordered = tuple(in_pool_order(self._pool))
        rows = tuple(_with_reported_kind(row) for row in current)
        if _is_complete(rows, len(self._truth.norm)):
            yield Candidate("current_match", rows, ordered, len(ordered))
        yield from self._whole(self._pool, "", 0)
        yield from self._cut(self._pool, "", 0)
        yield from self._split(self._pool, "", 0)
        rewritten, count = with_logic_rewritten(self._pool)
        if count:
            yield from self._whole(rewritten, "logic_norm_", count)
            yield from self._cut(rewritten, "logic_norm_", count)
            yield from self._split(rewritten, "logic_norm_", count)

    def best(self, current: Sequence[Row]) -> Candidate | None:
        """The best-ranked assignment; the first wins ties. None without formulas in the ground truth."""
        if not self._truth.norm:
            return None
        best: tuple[tuple[float | int, ...], Candidate] | None = None
        # An exact assignment takes one prediction a line, as a joined run has blanks that no line has.
        unused = max(0, len(self._pool) - len(self._truth.norm))
        perfect = (0.0, 0.0, unused, 0.0, 0, 0)
        for candidate in self.candidates(current):
            key = _ranking(candidate)
            if best is None or _ranks_before(key, best[0]):
                best = (key, candidate)
                if key == perfect and not with_logic_rewritten(self._pool)[1]:
                    break  # nothing is before an exact assignment that uses all it can
        return best[1] if best else None
