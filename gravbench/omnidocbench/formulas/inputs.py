"""What the formula stage matches: candidate pool, line-by-line ground truth, ways to cut predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from gravbench.metrics.edit_distance import distance_matrix
from gravbench.omnidocbench.formulas.logic_cases import rewrite_logic_cases
from gravbench.omnidocbench.formulas.normal_form import strip_delimiters
from gravbench.omnidocbench.ground_truth import FORMULA
from gravbench.omnidocbench.markdown.items import Item
from gravbench.omnidocbench.matching.lines import (
    Predicted,
    PredictedLines,
    SourceKey,
    TruthLines,
    predicted,
    predicted_lines,
    split_predictions,
)
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
    rewritten = [replace(p, item=replace(p.item, content=rewrite_logic_cases(p.item.content))) for p in pool]
    changed = sum(a.item.content != b.item.content for a, b in zip(pool, rewritten, strict=True))
    return rewritten, changed


@dataclass(frozen=True, slots=True)
class FormulaInputs:
    """Ground-truth lines and one ordered reading of the predictions."""

    truth: TruthLines
    predicted: PredictedLines
    distances: NDArray[np.float64]
    """Normalised, [truth, predicted]."""


def formula_inputs(truth: TruthLines, ordered: Sequence[Predicted], normalizer: Normalizer) -> FormulaInputs:
    """Lines of `ordered` predictions against `truth`."""
    lines = predicted_lines(ordered, normalizer)
    return FormulaInputs(truth, lines, distance_matrix(truth.norm, lines.norm))


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
