"""The official page metrics under their official names, for runs and for `gravbench omnidoc` alike."""

from __future__ import annotations

from dataclasses import replace

from gravbench.omnidocbench.aggregate import FORMULA_SIGNATURE, OVERALL_SIGNATURE, TEXT_SIGNATURE
from gravbench.scorers.contract import Metric

TEXT, FORMULA, FORMULA_CDM = "text_block_Edit_dist", "display_formula_Edit_dist", "display_formula_CDM"
TEDS, TEDS_S, ORDER = "table_TEDS", "table_TEDS_structure_only", "reading_order_Edit_dist"
SCORER = "omnidocbench-1.6"
"""The scorer's name in the manifest of a suite."""
OVERALL = "overall"

METRICS = (
    Metric(
        name=TEXT,
        label="text edit",
        direction="lower",
        definition="Edits / longer sides of all matched text of a page, mean over pages with text.",
        signature=TEXT_SIGNATURE,
        tasks=("page",),
    ),
    Metric(
        name=FORMULA,
        label="formula edit",
        direction="lower",
        definition="Edits / longer sides of all matched display formulas of a page, mean over pages with "
        "them.",
        signature=FORMULA_SIGNATURE,
        tasks=("page",),
    ),
    Metric(
        name=FORMULA_CDM,
        label="CDM",
        direction="higher",
        definition="Character detection matching of rendered formulas: F1 of matched glyph boxes, mean over "
        "a page's formulas, then over pages with formulas.",
        signature="cdm|agg:page_ALL|match:omnidoc16-formula|v:2",
        tasks=("page",),
    ),
    Metric(
        name=TEDS,
        label="TEDS",
        direction="higher",
        definition="1 − tree edit distance / larger tree, cell text included, mean over a page's tables, "
        "then over pages with tables.",
        signature="teds|agg:page_ALL|match:omnidoc16-table|v:2",
        tasks=("page",),
    ),
    Metric(
        name=TEDS_S,
        label="TEDS-S",
        direction="higher",
        definition="TEDS on the structure of tables alone, without cell text.",
        signature="teds|structure:only|agg:page_ALL|match:omnidoc16-table|v:2",
        tasks=("page",),
    ),
    Metric(
        name=ORDER,
        label="order edit",
        direction="lower",
        definition="Edits between the orders of matched blocks / longer order, mean over pages with one.",
        signature="ned|unit:block|agg:ALL_page_avg|match:omnidoc16-quick|v:2",
        tasks=("page",),
    ),
    Metric(
        name=OVERALL,
        label="Overall",
        unit="points",
        direction="higher",
        range=(0.0, 100.0),
        definition="OmniDocBench's Overall: mean of the points of text edit, TEDS and CDM; none "
        "without all three.",
        signature=OVERALL_SIGNATURE,
        tasks=("page",),
        parts=(TEXT, TEDS, FORMULA_CDM),
        parts_needed=3,
    ),
)

MARKDOWN_NAMES = {
    TEXT: ("markdown_text_ned", "text NED"),
    TEDS: ("markdown_table_teds", "table TEDS"),
    TEDS_S: ("markdown_table_teds_s", "TEDS-S"),
    FORMULA: ("markdown_formula_ned", "formula NED"),
    ORDER: ("markdown_order_ned", "order NED"),
}
"""Official metric -> its name and label where the truth is Markdown that this program cut into blocks."""

MARKDOWN_METRICS = tuple(
    replace(
        metric,
        name=MARKDOWN_NAMES[metric.name][0],
        label=MARKDOWN_NAMES[metric.name][1],
        definition=f"{metric.definition.removesuffix('.')}; the truth is Markdown, cut like a prediction. No "
        "figure of OmniDocBench.",
        signature=f"{metric.signature}|truth:markdown|pipes:first",
    )
    for metric in METRICS
    if metric.name in MARKDOWN_NAMES
)
