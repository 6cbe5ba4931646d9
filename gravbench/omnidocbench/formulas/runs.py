"""Monotone assignment of truth formulas to runs of predicted ones, by dynamic programming."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gravbench.metrics.edit_distance import edit_matrix
from gravbench.omnidocbench.formulas.inputs import FormulaInputs, reported_kind
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.matching.lines import Predicted

TOLERANCE = 1e-12

State = tuple[float, int, int, int]
"""Cost, character edits, characters, inline formulas used."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Longest run, widest span it may cover, and how many predictions it may skip inside."""

    items: int
    span: int
    skips: int


def limits_for(truths: int, predictions: int, *, gaps: bool) -> Limits:
    """Limits from the number of lines on both sides."""
    apart = abs(truths - predictions)
    longest = min(predictions, 12 if truths > 1 and apart >= 2 else 10)
    if not gaps:
        return Limits(longest, longest, 0)
    skips = 2 if apart >= 3 else 1 if apart >= 1 or predictions >= 4 else 0
    return Limits(longest, min(predictions, longest + 2), skips)


def _may_merge(items: Sequence[Predicted], sequence: Sequence[int]) -> bool:
    """Parts of one source formula, or consecutive display formulas."""
    if len(sequence) < 2 or len({items[number].source for number in sequence}) == 1:
        return True
    if sequence[-1] - sequence[0] + 1 != len(sequence):
        return False
    return all(reported_kind(items[number].item) == FORMULA for number in sequence)


def _runs_from(
    items: Sequence[Predicted], sequence: tuple[int, ...], count: int, limits: Limits, skips: int
) -> Iterator[tuple[int, ...]]:
    """Runs that begin with `sequence`, depth first; a run that may not merge has no longer one that may."""
    if not _may_merge(items, sequence):
        return
    yield sequence
    if len(sequence) >= limits.items:
        return
    end = min(count, sequence[0] + limits.span)
    for following in range(sequence[-1] + 1, end):
        skipped = following - sequence[-1] - 1
        if skipped > skips:
            break
        yield from _runs_from(items, (*sequence, following), count, limits, skips - skipped)


def _is_better(new: State, old: State | None) -> bool:
    """Lower cost; then fewer edits per character (having any beats none); then fewer inline formulas."""
    if old is None or new[0] + TOLERANCE < old[0]:
        return True
    if new[0] > old[0] + TOLERANCE:
        return False
    if new[2] > 0 and old[2] > 0:
        left, right = new[1] * old[2], old[1] * new[2]
        if left != right:
            return left < right
    elif new[2] != old[2]:
        return new[2] > 0
    return new[3] < old[3]


@dataclass(frozen=True, slots=True)
class _Step:
    """How a state was reached: the cell before it, and the run matched (empty: something was skipped)."""

    truth: int
    prediction: int
    run: tuple[int, ...]


def _segments(inputs: FormulaInputs, limits: Limits) -> list[list[tuple[int, ...]]]:
    count = len(inputs.predicted.norm)
    items = inputs.predicted.items
    return [list(_runs_from(items, (start,), count, limits, limits.skips)) for start in range(count)]


def assign_runs(inputs: FormulaInputs, *, gaps: bool) -> list[tuple[int, ...]]:
    """Run of predictions of every truth line (empty: none); [] when there are no predictions.

    With `gaps` also [] when no two predictions share a source: gaps would then allow nothing new.
    """
    truths, predictions = len(inputs.truth.norm), len(inputs.predicted.norm)
    items = inputs.predicted.items
    if predictions == 0 or (gaps and len({item.source for item in items[:predictions]}) == predictions):
        return []
    segments = _segments(inputs, limits_for(truths, predictions, gaps=gaps))
    texts = [" ".join(inputs.predicted.norm[number] for number in run) for runs in segments for run in runs]
    edits: list[list[int]] = edit_matrix(inputs.truth.norm, texts).tolist()
    sizes = [len(text) for text in texts]
    inline = [
        int(len(run) == 1 and reported_kind(items[run[0]].item) == "equation_inline")
        for runs in segments
        for run in runs
    ]
    best: list[list[State | None]] = [[None] * (predictions + 1) for _ in range(truths + 1)]
    step: list[list[_Step | None]] = [[None] * (predictions + 1) for _ in range(truths + 1)]
    best[0][0] = (0.0, 0, 0, 0)

    def offer(truth: int, prediction: int, state: State, came: _Step) -> None:
        if _is_better(state, best[truth][prediction]):
            best[truth][prediction] = state
            step[truth][prediction] = came

    for truth in range(truths + 1):
        size = len(inputs.truth.norm[truth]) if truth < truths else 0
        number = 0
        for prediction in range(predictions + 1):
            state = best[truth][prediction]
            assert state is not None  # every cell can be reached by skipping
            cost, edited, characters, inlined = state
            skipped = (cost + 1.0, edited, characters, inlined)
            here = _Step(truth, prediction, ())
            if prediction < predictions:
                offer(truth, prediction + 1, skipped, here)
            if truth == truths:
                continue
            offer(truth + 1, prediction, skipped, here)
            if prediction == predictions:
                continue
            for run in segments[prediction]:
                changes, longer = edits[truth][number], max(size, sizes[number])
                matched = (
                    cost + changes / longer,
                    edited + changes,
                    characters + longer,
                    inlined + inline[number],
                )
                offer(truth + 1, run[-1] + 1, matched, _Step(truth, prediction, run))
                number += 1
    return _walked_back(step, truths, predictions)


def _walked_back(
    step: Sequence[Sequence[_Step | None]], truths: int, predictions: int
) -> list[tuple[int, ...]]:
    runs: list[tuple[int, ...]] = [()] * truths
    truth, prediction = truths, predictions
    while came := step[truth][prediction]:
        if came.run:
            runs[came.truth] = came.run
        truth, prediction = came.truth, came.prediction
    return runs
