"""TEDS of one table crop: the OmniDocBench v1.6 function on one pair, normalisation included."""

from __future__ import annotations

from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError
from gravbench.metrics.teds import teds_pair

SIGNATURE = "teds|costs:omnidoc16|norm:omnidoc16|agg:crop_mean|v:3"
WORST = 0.0


def crop_teds(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
    """1 - tree edit distance / larger node count; 1 is best, 0 for an empty or tableless side.

    Like the official scorer, a side whose normal form is empty enters as it is. Counts: `nodes_gt` and
    `nodes_pred`, 0 when no tree was built, and `teds_s`, the same score on structure alone.
    """
    result = teds_pair(*(_compared(text) for text in (reference, prediction)))
    counts = {
        "nodes_gt": float(result.nodes_gt),
        "nodes_pred": float(result.nodes_pred),
        "teds_s": result.teds_s,
    }
    return result.teds, counts


def _compared(text: str) -> str:
    try:
        return normalize_html_table(text) or text
    except RefusedMarkupError:  # no tree can be built of it
        return ""
