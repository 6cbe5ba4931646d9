"""Formula tree score: how alike two formulas are as trees, beside the edit distance of their strings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gravbench.metrics.latex_tree import LatexTree, parse_latex_tree
from gravbench.metrics.tree_distance import Floats, LabelledTree, tree_distance

# Work limits, in characters and in steps of the tree kernel: some 3,000 nodes against as many.
MAX_CHARS = 20_000
MAX_STEPS = 40_000_000


@dataclass(frozen=True, slots=True)
class FormulaTreeScore:
    """`value` in [0, 1], 1 best, or `None` with the `reason`; `distance` in edits; no roots in `nodes`."""

    value: float | None
    distance: float | None = None
    nodes_gt: int = 0
    nodes_pred: int = 0
    reason: str | None = None


def formula_tree_score(gt: str, pred: str) -> FormulaTreeScore:
    """1 - d / max(n_gt, n_pred), clipped at 0.

    d is the ordered tree edit distance (Zhang and Shasha 1989, as in the zss package) of the two formulas
    parsed by `parse_latex_tree`: insert 1, delete 1, relabel 1, equal labels 0. n counts nodes without
    the root. Two blank formulas have no score; a blank one against any other scores 0.
    """
    if len(gt) + len(pred) > MAX_CHARS:
        return FormulaTreeScore(None, reason=f"longer than {MAX_CHARS} characters")
    labels: dict[str, int] = {}
    first, second = (_flatten(parse_latex_tree(source), labels) for source in (gt, pred))
    nodes_gt, nodes_pred = len(first.labels) - 1, len(second.labels) - 1
    larger = max(nodes_gt, nodes_pred)
    if larger == 0:
        return FormulaTreeScore(None, reason="both formulas are blank")
    if first.relevant_size() * second.relevant_size() > MAX_STEPS:
        return FormulaTreeScore(None, None, nodes_gt, nodes_pred, f"more than {MAX_STEPS} steps")
    costs: Floats = 1.0 - np.eye(len(labels))
    distance = 0.0 if first == second else tree_distance(first, second, costs)
    return FormulaTreeScore(max(0.0, 1.0 - distance / larger), distance, nodes_gt, nodes_pred)


def _flatten(tree: LatexTree, labels: dict[str, int]) -> LabelledTree:
    """Postorder arrays of `tree`; `labels` numbers the labels of both trees as they come."""
    leftmost: list[int] = []
    ids: list[int] = []
    stack: list[tuple[LatexTree, int | None]] = [(tree, None)]
    while stack:
        node, first = stack.pop()
        if first is None:
            stack.append((node, len(ids)))
            stack.extend((child, None) for child in reversed(node.children))
        else:
            leftmost.append(first)
            ids.append(labels.setdefault(node.label, len(labels)))
    return LabelledTree(tuple(leftmost), tuple(ids))
