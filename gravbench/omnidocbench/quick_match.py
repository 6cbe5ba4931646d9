"""quick_match: lines of ground truth against lines of prediction, text and formulas in one pool.

OmniDocBench v1.6 scorer, "hybrid matching": page furniture first, then merging, assignment, attaching of
short truth lines to long predictions, and the left-overs. Assignment ties are broken by scipy and by
CPython's set order, as there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gravbench.metrics.assignment import linear_sum_assignment
from gravbench.metrics.edit_distance import (
    EditTable,
    has_close_window,
    largest_distance,
    normalized_distance,
)
from gravbench.omnidocbench.formula_text import strip_delimiters
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.lines import (
    IGNORED_CATEGORIES,
    Predicted,
    PredictedLines,
    Row,
    TruthItem,
    TruthLines,
)
from gravbench.omnidocbench.merge_search import Merged, merge_predictions

QUICK_MATCH, SIMPLE_MATCH = MATCH_METHODS = ("quick_match", "simple_match")
FURNITURE = 0.25
"""An ignored truth line this close to a prediction takes it out of the pool."""
ACCEPTED = 0.7
ATTACHED = 0.4


@dataclass(frozen=True, slots=True)
class Match:
    """Rows of one page and how many windows the official search would have looked at."""

    rows: list[Row]
    official_windows: int
    searched: bool = True
    """False: there was too much to search for runs to merge."""


@dataclass(frozen=True, slots=True)
class _Pool:
    """A part of the lines with the items whose fields they report, and their numbers in the whole."""

    truth_raw: list[str]
    truth: list[str]
    categories: list[str]
    truth_items: list[TruthItem]
    truth_numbers: list[int]
    raw: list[str]
    lines: list[str]
    items: list[Predicted]
    numbers: list[int]
    distances: NDArray[np.float64]
    """Normalised, [truth, lines]."""


@dataclass(slots=True)
class _Key:
    """Truth lines matched to one tuple of predicted lines."""

    truths: list[int]
    distance: float | None = None


@dataclass(slots=True)
class _Pairs:
    """Key -> truth lines, in order of appearance."""

    keys: dict[tuple[int, ...], _Key] = field(default_factory=dict)
    placed: set[int] = field(default_factory=set)

    def add(self, predicted: tuple[int, ...], truths: Sequence[int]) -> None:
        """Attach truth lines that have no key yet; a key may stay empty (it still uses its prediction up)."""
        new = [truth for truth in truths if truth not in self.placed]
        self.keys.setdefault(predicted, _Key([])).truths.extend(new)
        self.placed.update(new)


@dataclass(frozen=True, slots=True)
class _Found:
    """One truth line with its predictions (empty: none), or surplus predictions without a truth line."""

    truth: int | None
    predicted: tuple[int, ...]
    distance: float


def _assigned(pool: _Pool) -> tuple[_Pairs, list[int], Merged]:
    """Assignment on merged lines; pairs further apart than 0.7 are undone."""
    merged = merge_predictions(pool.truth, pool.lines, pool.distances)
    rows, columns = linear_sum_assignment(merged.distances)
    column_of = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    pairs = _Pairs()
    unmatched: list[int] = []
    for truth in range(len(pool.truth)):
        column = column_of.get(truth)
        if column is None or merged.distances[truth, column] > ACCEPTED:
            unmatched.append(truth)
        else:
            pairs.add(tuple(merged.groups[column]), [truth])
    return pairs, unmatched, merged


def _attach(pool: _Pool, pairs: _Pairs, unmatched: Sequence[int]) -> None:
    """Unmatched truth lines, formulas apart, that lie inside a longer prediction join it."""
    waiting = [truth for truth in unmatched if pool.categories[truth] != FORMULA]
    limits = {truth: largest_distance(len(pool.truth[truth]), ATTACHED, strict=True) for truth in waiting}
    known: dict[str, list[int]] = {}
    for number, line in enumerate(pool.lines):
        if line not in known:
            known[line] = [
                truth for truth in waiting if has_close_window(line, pool.truth[truth], limits[truth])
            ]
        if known[line]:
            pairs.add((number,), known[line])


def _measure(pool: _Pool, pairs: _Pairs) -> None:
    """Distance of each key: one truth line to the joined prediction, several to the first line (quirk)."""
    for predicted, key in pairs.keys.items():
        truths = sorted(set(key.truths))
        if len(truths) > 1:
            joined = "".join(pool.truth[truth] for truth in truths)
            key.distance = normalized_distance(joined, pool.lines[predicted[0]])
        elif truths:
            line = " ".join(pool.lines[number] for number in predicted)
            key.distance = normalized_distance(pool.truth[truths[0]], line)
        else:
            key.distance = 1.0


def _completed(pool: _Pool, pairs: _Pairs) -> list[_Found]:
    """Matches plus what is left: remaining lines are assigned to each other whatever their distance.

    Quirk: those forced pairs carry distance 1. The remaining numbers are walked in CPython's set order,
    which decides exact ties.
    """
    found = [
        _Found(truth, predicted, 1.0 if key.distance is None else key.distance)
        for predicted, key in pairs.keys.items()
        for truth in sorted(set(key.truths))
    ]
    matched_truths = set().union(*[set(key.truths) for key in pairs.keys.values()])
    truths = list(set(range(len(pool.truth))) - matched_truths)
    matched_lines = {number for predicted in pairs.keys for number in predicted}
    lines = list(set(range(len(pool.lines))) - matched_lines)
    if not lines:
        return found + [_Found(truth, (), 1.0) for truth in truths]
    if not truths:
        return [*found, _Found(None, tuple(lines), 1.0)]
    rows, columns = linear_sum_assignment(pool.distances[np.ix_(truths, lines)])
    found += (
        _Found(truths[row], (lines[column],), 1.0)
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )
    return found


def _grouped(pool: _Pool, found: Sequence[_Found]) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """(truth lines, predicted lines, distance): equal predictions merged, unmatched truth lines last."""
    groups: dict[tuple[int, ...], tuple[list[int], float]] = {}
    for entry in found:
        if entry.predicted:
            truths, _ = groups.setdefault(entry.predicted, ([], entry.distance))
            truths += [] if entry.truth is None else [entry.truth]
    rows = [(tuple(truths), predicted, distance) for predicted, (truths, distance) in groups.items()]
    done = {truth for truths, _, _ in rows for truth in truths}
    rows += [((truth,), (), 1.0) for truth in range(len(pool.truth)) if truth not in done]
    return rows


def stacked(parts: Sequence[str]) -> str:
    """Several formula lines as one single-column array."""
    body = " \\\\ ".join("{" + strip_delimiters(part) + "}" for part in parts)
    return "\\begin{array}{l} " + body + " \\end{array}"


def _category(categories: Sequence[str]) -> str:
    """Most common category that is not ignored (most common at all when none is); first seen wins ties."""
    if len(categories) == 1:
        return categories[0]
    scored = [category for category in categories if category not in IGNORED_CATEGORIES]
    return Counter(scored or categories).most_common(1)[0][0]


def _row(pool: _Pool, truths: Sequence[int], predicted: Sequence[int], distance: float, image: str) -> Row:
    """A row in the numbering of the whole page. Surplus rows of inline formulas are dropped by the caller."""
    category = _category([pool.categories[truth] for truth in truths]) if truths else ""
    kind = pool.items[predicted[0]].item.kind if predicted else ""
    truth_raw = [pool.truth_raw[truth] for truth in truths]
    raw = [pool.raw[number] for number in predicted]
    return Row(
        gt_idx=tuple(pool.truth_numbers[truth] for truth in truths),
        pred_idx=tuple(pool.numbers[number] for number in predicted),
        gt=stacked(truth_raw) if category == FORMULA and len(truths) > 1 else "".join(truth_raw),
        pred=stacked(raw) if "equation" in kind and len(raw) > 1 else "".join(raw),
        norm_gt="".join(pool.truth[truth] for truth in truths),
        norm_pred="".join(pool.lines[number] for number in predicted),
        gt_position=tuple(pool.truth_items[truth].position for truth in truths),
        pred_position=pool.items[predicted[0]].start if predicted else None,
        gt_category=category,
        pred_category=kind,
        gt_attribute=tuple(pool.truth_items[truth].attribute for truth in truths),
        distance=distance,
        image=image,
    )


def _rows(pool: _Pool, pairs: _Pairs, image: str) -> list[Row]:
    """Rows that have a truth line; surplus predictions cost nothing and are left out."""
    _measure(pool, pairs)
    grouped = _grouped(pool, _completed(pool, pairs))
    return [
        _row(pool, truths, predicted, distance, image) for truths, predicted, distance in grouped if truths
    ]


def _pool(
    truth: TruthLines,
    truth_numbers: list[int],
    predicted: PredictedLines,
    numbers: list[int],
    distances: NDArray[np.float64],
) -> _Pool:
    """A part of the page; `distances` are those of the whole."""
    return _Pool(
        truth_raw=[truth.raw[i] for i in truth_numbers],
        truth=[truth.norm[i] for i in truth_numbers],
        categories=[truth.categories[i] for i in truth_numbers],
        truth_items=[truth.items[i] for i in truth_numbers],
        truth_numbers=truth_numbers,
        raw=[predicted.raw[j] for j in numbers],
        lines=[predicted.norm[j] for j in numbers],
        items=[predicted.items[j] for j in numbers],
        numbers=numbers,
        distances=distances[np.ix_(truth_numbers, numbers)],
    )


def _furniture(
    truth: TruthLines, predicted: PredictedLines, distances: NDArray[np.float64]
) -> tuple[_Pool, _Pairs]:
    """Ignored truth lines with the predictions they hit, row by row; the last hit of a line is its match.

    A prediction hit twice is there twice.
    """
    ignored = [i for i, category in enumerate(truth.categories) if category in IGNORED_CATEGORIES]
    hits = np.argwhere(distances[ignored] < FURNITURE).tolist()
    last: dict[int, int] = {}
    for place, (row, _) in enumerate(hits):
        last[row] = place
    pairs = _Pairs()
    for row, place in last.items():
        pairs.add((place,), [row])
    return _pool(truth, ignored, predicted, [column for _, column in hits], distances), pairs


def quick_match(
    truth: TruthLines, predicted: PredictedLines, image: str, table: EditTable | None = None
) -> Match:
    """Every truth line in exactly one row, unmatched ones with an empty prediction and distance 1.

    `table`: of the truth lines, where one is there already.
    """
    if not truth.norm:
        return Match([], 0)
    distances = (table or EditTable(truth.norm)).distances(predicted.norm)
    if not predicted.norm:
        pool = _pool(truth, list(range(len(truth.norm))), predicted, [], distances)
        return Match([_row(pool, (i,), (), 1.0, image) for i in range(len(truth.norm))], 0)
    if len(truth.norm) == len(predicted.norm) == 1:
        pool = _pool(truth, [0], predicted, [0], distances)
        return Match([_row(pool, (0,), (0,), float(distances[0, 0]), image)], 0)
    furniture, furniture_pairs = _furniture(truth, predicted, distances)
    absorbed = set(furniture.numbers)
    scored = [i for i, category in enumerate(truth.categories) if category not in IGNORED_CATEGORIES]
    free = [j for j in range(len(predicted.norm)) if j not in absorbed]
    pool = _pool(truth, scored, predicted, free, distances)
    pairs, unmatched, merged = _assigned(pool)
    _attach(pool, pairs, unmatched)
    rows = _rows(pool, pairs, image) + _rows(furniture, furniture_pairs, image)
    return Match(rows, merged.official_windows, merged.searched)


def simple_match(truth: TruthLines, predicted: PredictedLines, image: str) -> Match:
    """Every truth line against the one prediction that a least-cost assignment gives it, however far apart.

    The official method of that name, by its description: no values of it were recorded to check against.
    """
    distances = EditTable(truth.norm).distances(predicted.norm)
    numbers = list(range(len(truth.norm)))
    pool = _pool(truth, numbers, predicted, list(range(len(predicted.norm))), distances)
    rows, columns = linear_sum_assignment(distances)
    column_of = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    found = []
    for number in numbers:
        column = column_of.get(number)
        lines, distance = ((), 1.0) if column is None else ((column,), float(distances[number, column]))
        found.append(_row(pool, (number,), lines, distance, image))
    return Match(found, 0)
