"""Formula tree score of one formula crop, beside its edit distance."""

from __future__ import annotations

from gravbench.metrics.formula_tree import formula_tree_score

SIGNATURE = "formula_tree|parse:latex_tree|costs:unit|agg:crop_mean|v:1"
WORST = 0.0


def crop_formula_tree(prediction: str, reference: str) -> tuple[float | None, dict[str, float]]:
    """1 - tree edit distance / larger node count, 1 best; `None` for two blank or enormous formulas."""
    result = formula_tree_score(reference, prediction)
    return result.value, {"nodes_gt": float(result.nodes_gt), "nodes_pred": float(result.nodes_pred)}
