"""Single functions of the scorer against recorded cases of the official one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

from gravbench.metrics.edit_distance import normalized_distance
from gravbench.metrics.table_html import normalize_html_table, table_text_lines
from gravbench.metrics.table_tree import find_table
from gravbench.metrics.teds import teds_pair
from gravbench.omnidocbench.formula_lines import rewrite_logic_cases, split_formula
from gravbench.omnidocbench.formula_text import strip_delimiters
from gravbench.omnidocbench.ground_truth import Element
from gravbench.omnidocbench.lines import reading_order
from gravbench.omnidocbench.markdown_items import Converters, Item, extract_items
from gravbench.omnidocbench.table_conversion import LatexTables, convert_pipe_tables
from gravbench.omnidocbench.table_match import match_tables
from gravbench.omnidocbench.text import Normalizer

Case = Mapping[str, Any]
Check = Callable[[Case, Normalizer], dict[str, Any]]

_LATEX = LatexTables()
GT_ORDER = 4
PRED_START = 10
"""Order and position that the formula_split cases begin at."""


def _distance(gt: str, pred: str) -> float | None:
    return normalized_distance(gt, pred) if gt or pred else None


def check_text(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    gt, pred = normalizer.text(case["gt"]), normalizer.text(case["pred"])
    return {
        "unicode_gt": normalizer.unicode(case["gt"]),
        "unicode_pred": normalizer.unicode(case["pred"]),
        "norm_gt": gt,
        "norm_pred": pred,
        "edit": _distance(gt, pred),
    }


def check_formula(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    gt, pred = normalizer.formula(case["gt"]), normalizer.formula(case["pred"])
    return {
        "norm_gt": gt,
        "norm_pred": pred,
        "edit": _distance(gt, pred),
        "strip_delims_gt": strip_delimiters(case["gt"]),
        "to_text_gt": normalizer.formula_to_text(case["gt"]),
    }


def check_split(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    del normalizer
    truth, predicted = case["gt"], case["pred"]
    gt = [
        [f"\\[{line.latex}\\]", GT_ORDER + number / 1000.0]
        for number, line in enumerate(split_formula(truth), start=1)
    ]
    pred = [
        [f"\\[{line.latex.strip()}\\]", [PRED_START + line.first, PRED_START + line.last]]
        for line in split_formula(predicted)
    ]
    return {
        "gt": gt or [[truth, GT_ORDER]],
        "pred": pred or [[predicted, [PRED_START, PRED_START + len(predicted)]]],
        "logic_norm": rewrite_logic_cases(predicted),
    }


def _item_record(item: Item) -> dict[str, Any]:
    record: dict[str, Any] = {
        "category_type": item.category,
        "position": [item.start, item.end],
        "content": item.content,
    }
    if item.fine:
        record["fine_category_type"] = item.fine
    if item.language:
        record["language"] = item.language
    return record


def check_extraction(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    converters = Converters(normalizer.plain, _LATEX.html, convert_pipe_tables)
    items = extract_items(case["pred"], converters)
    return {"items": {name: [_item_record(item) for item in found] for name, found in items.items()}}


def check_order(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    del normalizer
    rows = [
        (
            tuple(None if order == "" else order for order in row["gt_position"]),
            None if row["pred_position"] == "" else row["pred_position"],
        )
        for row in case["gt"]
    ]
    order = reading_order(rows, case["expected"].get("img_id"))
    fields = ("gt", "pred", "img_id", "edit")
    return {} if order is None else {name: order.to_record()[name] for name in fields}


def check_teds(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    del normalizer
    norm_gt, norm_pred = normalize_html_table(case["gt"]), normalize_html_table(case["pred"])
    gt, pred = norm_gt or case["gt"], norm_pred or case["pred"]
    teds = teds_pair(gt, pred)
    return {
        "norm_gt": norm_gt,
        "norm_pred": norm_pred,
        "teds": teds.teds,
        "teds_s": teds.teds_s,
        "raises": teds.raises,
        "edit": _distance(gt, pred),
        "text_lines_pred": table_text_lines(norm_pred),
    }


def check_latex_table(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    del normalizer
    html = _LATEX.html(case["pred"])
    again = normalize_html_table(html)
    norm_gt = normalize_html_table(case["gt"])
    teds = teds_pair(norm_gt or case["gt"], again or html)
    return {"html": html, "renorm": again, "teds": teds.teds, "teds_s": teds.teds_s}


def check_assignment(case: Case, normalizer: Normalizer) -> dict[str, Any]:
    del normalizer
    gt = [
        Element("table", table.get("order"), table.get("html") or "", table.get("attribute"), number)
        for number, table in enumerate(case["gt"])
    ]
    pred = [
        Item("html_table", start, end, table.get("content") or "", table.get("fine_category_type"))
        for table in case["pred"]
        for start, end in [table["position"]]
    ]
    fields = (
        *("gt_idx", "pred_idx", "gt_position", "pred_position", "gt_category_type", "pred_category_type"),
        "edit",
    )
    rows = [row.to_record() for row in match_tables(gt, pred, "")]
    return {"rows": [{name: row[name] for name in fields} for row in rows]}


CHECKS: dict[str, Check] = {
    "text_norm": check_text,
    "formula_norm": check_formula,
    "formula_split": check_split,
    "md_extract": check_extraction,
    "reading_order": check_order,
    "table_teds": check_teds,
    "latex_table": check_latex_table,
    "table_assign": check_assignment,
}


def needs_latexml(case: Case) -> bool:
    """The case converts a LaTeX table."""
    if case["kind"] == "latex_table":
        return True
    return case["kind"] == "md_extract" and (
        "\\begin{tabular}" in case["pred"] or "\\begin{table}" in case["pred"]
    )


MAX_TREE_CASES = 20
MAX_TREE_PAIRS = 400
"""Pairs of nodes: the oracles are pure Python."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a table's tree as the official scorer builds it."""

    label: tuple[str, int, int]
    """Tag, colspan, rowspan."""
    content: tuple[str, ...] = ()
    children: tuple[_Node, ...] = ()


def _cell_tokens(element: Any) -> list[str]:
    """Characters and tags in a cell; `unk` stays open and what follows an inner td is lost, officially."""
    tokens = [*(element.text or "")]
    for child in element:
        closing = [] if child.tag == "unk" else [f"</{child.tag}>"]
        tail = "" if child.tag == "td" else child.tail or ""
        tokens += [f"<{child.tag}>", *_cell_tokens(child), *closing, *tail]
    return tokens


def _node(element: Any, *, structure_only: bool) -> _Node:
    if element.tag == "td":
        label = ("td", int(element.get("colspan", "1")), int(element.get("rowspan", "1")))
        return _Node(label, () if structure_only else tuple(_cell_tokens(element)))
    children = tuple(_node(child, structure_only=structure_only) for child in element)
    return _Node((element.tag, 0, 0), (), children)


def _renaming(first: _Node, second: _Node) -> float:
    if first.label != second.label:
        return 1.0
    longer = max(len(first.content), len(second.content))
    return Levenshtein.distance(first.content, second.content) / longer if longer else 0.0


def tree_differences(case: Case) -> list[str] | None:
    """TEDS and TEDS-S of a table case by apted and by zss, where they differ from ours; None: not comparable.

    Left out are pairs that score without a tree, and large ones.
    """
    from apted import APTED, Config
    from zss import distance as zss_distance

    class Costs(Config):  # type: ignore[misc]
        def rename(self, first: _Node, second: _Node) -> float:
            return _renaming(first, second)

    gt, pred = (normalize_html_table(case[side]) or case[side] for side in ("gt", "pred"))
    ours = teds_pair(gt, pred)
    if ours.raises or not 0 < ours.nodes_gt * ours.nodes_pred <= MAX_TREE_PAIRS:
        return None
    tables: list[Any] = [find_table(gt), find_table(pred)]
    larger = max(
        sum(isinstance(e.tag, str) for e in table.iter()) - 1 for table in tables if table is not None
    )
    lines = []
    for name, value, structure_only in (("TEDS", ours.teds, False), ("TEDS-S", ours.teds_s, True)):
        first, second = (_node(table, structure_only=structure_only) for table in tables)
        found = {
            "apted": APTED(first, second, Costs()).compute_edit_distance(),
            "zss": zss_distance(first, second, lambda n: n.children, lambda _: 1, lambda _: 1, _renaming),
        }
        for oracle, distance in found.items():
            if abs(1.0 - distance / larger - value) > TREE_TOLERANCE:
                lines.append(f"{name}: {value} here, {1.0 - distance / larger} by {oracle}")
    return lines


TREE_TOLERANCE = 1e-9
