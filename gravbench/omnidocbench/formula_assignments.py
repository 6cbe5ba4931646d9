"""What the formula stage matches: pool, truth line by line, cuts of predictions; and its dynamic program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gravbench.metrics.edit_distance import EditTable
from gravbench.omnidocbench.formula_lines import rewrite_logic_cases
from gravbench.omnidocbench.formula_text import strip_delimiters
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.lines import (
    Predicted,
    PredictedLines,
    SourceKey,
    TruthLines,
    predicted,
    predicted_lines,
    split_predictions,
)
from gravbench.omnidocbench.markdown_items import Item
from gravbench.omnidocbench.text import Normalizer

RESCUED = frozenset({"text_formula", "image_formula", "formula_rescue", "table_formula_rescue"})
MAX_CUT_LINES = 8
MAX_CUTS = 128


def reported_kind(item: Item) -> str:
    """Category of a formula prediction; every rescued one reads as a display formula."""
    return FORMULA if item.kind in RESCUED else item.kind


def candidate_pool(items: Mapping[str, Sequence[Item]]) -> list[Predicted]:
    """Predicted formulas, display and inline, then rescued texts; exact duplicates once."""
    rescued = [replace(item, category=FORMULA) for item in items.get("formula_rescue", ())]
    pool: dict[SourceKey, Predicted] = {}
    for candidate in map(predicted, (*items.get(FORMULA, ()), *rescued)):
        pool.setdefault(candidate.source, candidate)
    return list(pool.values())


def in_pool_order(pool: Sequence[Predicted]) -> list[Predicted]:
    """By start, inline behind display, end; stable."""
    return sorted(
        pool,
        key=lambda p: (p.item.start, reported_kind(p.item) == "equation_inline", p.item.end),
    )


def with_logic_rewritten(pool: Sequence[Predicted]) -> tuple[list[Predicted], int]:
    """The pool with statement-listing `cases` as arrays, and how many changed; sources stay as they were."""
    if not any("\\begin{cases}" in p.item.content for p in pool):
        return list(pool), 0
    rewritten = [replace(p, item=replace(p.item, content=rewrite_logic_cases(p.item.content))) for p in pool]
    changed = sum(a.item.content != b.item.content for a, b in zip(pool, rewritten, strict=True))
    return rewritten, changed


@dataclass(frozen=True, slots=True)
class FormulaInputs:
    """Ground-truth lines and one ordered reading of the predictions."""

    truth: TruthLines
    predicted: PredictedLines
    table: EditTable
    """Of the ground-truth lines."""

    @property
    def distances(self) -> NDArray[np.float64]:
        """Normalised, [truth, predicted]."""
        return self.table.distances(self.predicted.norm)


def formula_inputs(
    truth: TruthLines, ordered: Sequence[Predicted], normalizer: Normalizer, table: EditTable | None = None
) -> FormulaInputs:
    """Lines of `ordered` predictions against `truth`."""
    lines = predicted_lines(ordered, normalizer)
    return FormulaInputs(truth, lines, table or EditTable(truth.norm))


def merged_content(parts: Sequence[str]) -> str:
    """Formula parts as a single-column array of braced parts; one part alone stays bare, none is ''."""
    pieces = [stripped for part in parts if (stripped := strip_delimiters(part.strip()))]
    if len(pieces) <= 1:
        return "".join(pieces)
    return "\\begin{array}{l} " + " \\\\ ".join("{" + piece + "}" for piece in pieces) + " \\end{array}"


def _in_brackets(content: str) -> str:
    stripped = content.strip()
    if not stripped:
        return ""
    for left, right in (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)")):
        if stripped.startswith(left) and stripped.endswith(right):
            return stripped
    return f"\\[{stripped}\\]"


def _joined(lines: Sequence[Predicted]) -> Predicted:
    if len(lines) == 1:
        return lines[0]
    item = replace(
        lines[0].item,
        content=_in_brackets(merged_content([line.item.content for line in lines])),
        start=lines[0].item.start,
        end=lines[-1].item.end,
        fine=FORMULA,
    )
    return replace(lines[0], item=item)


def _cuts(lines: Sequence[Predicted]) -> list[list[Predicted]]:
    """Every way to cut lines into consecutive groups, from all in one to each alone (binary counting)."""
    cuts: list[list[Predicted]] = []
    for mask in range(1 << (len(lines) - 1)):
        groups: list[Predicted] = []
        start = 0
        for boundary in range(len(lines) - 1):
            if mask & (1 << boundary):
                groups.append(_joined(lines[start : boundary + 1]))
                start = boundary + 1
        groups.append(_joined(lines[start:]))
        cuts.append(groups)
    return cuts


def cut_readings(pool: Sequence[Predicted]) -> list[list[Predicted]]:
    """All readings of the predictions with multi-line formulas cut in every way.

    Empty when nothing can be cut or when there would be more than 128; formulas of more than 8 lines stay
    whole.
    """
    options: list[list[list[Predicted]]] = []
    total, cuttable = 1, False
    for whole in in_pool_order(pool):
        lines = split_predictions([whole])
        if not 1 < len(lines) <= MAX_CUT_LINES:
            options.append([[whole]])
            continue
        cuttable = True
        total *= 1 << (len(lines) - 1)
        if total > MAX_CUTS:
            return []
        options.append(_cuts(lines))
    if not cuttable:
        return []
    return [[item for option in choice for item in option] for choice in product(*options)]


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


def _runs(items: Sequence[Predicted], count: int, limits: Limits) -> list[list[tuple[int, ...]]]:
    """Runs of at most `count` predictions from each start, shorter before longer, depth first.

    A run's parts are of one source formula, or neighbouring display formulas; a run that may not be has no
    longer one that may.
    """
    sources = [item.source for item in items[:count]]
    display = [reported_kind(item.item) == FORMULA for item in items[:count]]
    found: list[tuple[int, ...]] = []

    def grow(run: tuple[int, ...], skips: int, same: bool, neighbours: bool) -> None:
        found.append(run)
        if len(run) >= limits.items:
            return
        last = run[-1]
        for following in range(last + 1, min(count, run[0] + limits.span, last + 2 + skips)):
            skipped = following - last - 1
            one_source = same and sources[following] == sources[last]
            close = neighbours and not skipped and display[following]
            if one_source or close:
                grow((*run, following), skips - skipped, one_source, close)

    segments = []
    for start in range(count):
        found = []
        grow((start,), limits.skips, True, display[start])
        segments.append(found)
    return segments


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


_Step = tuple[int, int, tuple[int, ...]]
"""How a state was reached: the cell before it, and the run matched (empty: something was skipped)."""


def assign_runs(inputs: FormulaInputs, *, gaps: bool) -> list[tuple[int, ...]]:
    """Run of predictions of every truth line (empty: none); [] when there are no predictions.

    With `gaps` also [] when no two predictions share a source: gaps would then allow nothing new.
    """
    norms, items = inputs.predicted.norm, inputs.predicted.items
    truths, predictions = len(inputs.truth.norm), len(norms)
    if predictions == 0 or (gaps and len({item.source for item in items[:predictions]}) == predictions):
        return []
    segments = _runs(items, predictions, limits_for(truths, predictions, gaps=gaps))
    runs = [run for segment in segments for run in segment]
    texts = [" ".join([norms[number] for number in run]) for run in runs]
    edits, longer = inputs.table.edits(texts), inputs.table.longer(texts)
    shares: list[list[float]] = (edits / longer).tolist()
    is_inline = [reported_kind(item.item) == "equation_inline" for item in items]
    inline = [int(len(run) == 1 and is_inline[run[0]]) for run in runs]
    ends = [[run[-1] + 1 for run in segment] for segment in segments]
    best: list[list[State | None]] = [[None] * (predictions + 1) for _ in range(truths + 1)]
    step: list[list[_Step | None]] = [[None] * (predictions + 1) for _ in range(truths + 1)]
    best[0][0] = (0.0, 0, 0, 0)
    for truth in range(truths + 1):
        row, below = best[truth], best[truth + 1] if truth < truths else []
        number = 0
        for prediction in range(predictions + 1):
            state = row[prediction]
            assert state is not None  # every cell can be reached by skipping
            cost, edited, characters, inlined = state
            skipped = (cost + 1.0, edited, characters, inlined)
            here = (truth, prediction, ())
            if prediction < predictions and _is_better(skipped, row[prediction + 1]):
                row[prediction + 1], step[truth][prediction + 1] = skipped, here
            if truth == truths:
                continue
            if _is_better(skipped, below[prediction]):
                below[prediction], step[truth + 1][prediction] = skipped, here
            if prediction == predictions:
                continue
            for end in ends[prediction]:
                total, known = cost + shares[truth][number], below[end]
                if known is None or total <= known[0] + TOLERANCE:
                    characters_now = characters + int(longer[truth, number])
                    changed = edited + int(edits[truth, number])
                    state = (total, changed, characters_now, inlined + inline[number])
                    if _is_better(state, known):
                        below[end], step[truth + 1][end] = state, (truth, prediction, runs[number])
                number += 1
    return _walked_back(step, truths, predictions)


def _walked_back(
    step: Sequence[Sequence[_Step | None]], truths: int, predictions: int
) -> list[tuple[int, ...]]:
    runs: list[tuple[int, ...]] = [()] * truths
    truth, prediction = truths, predictions
    while came := step[truth][prediction]:
        truth, prediction, run = came
        if run:
            runs[truth] = run
    return runs
