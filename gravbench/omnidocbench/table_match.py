"""Which predicted table answers which ground-truth table (OmniDocBench v1.6, section "Table matching").

One row for each ground-truth table. Surplus predictions give no row: extra tables cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gravbench.errors import DataError
from gravbench.metrics.assignment import linear_sum_assignment
from gravbench.metrics.edit_distance import normalized_distance
from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError
from gravbench.omnidocbench.ground_truth import Element, Page
from gravbench.omnidocbench.lines import Row
from gravbench.omnidocbench.markdown_items import Item

if TYPE_CHECKING:
    from gravbench.metrics.teds import TedsResult

_Line = tuple[str, str]
"""A table as it stands and in normal form."""


def match_tables(gt: Sequence[Element], pred: Sequence[Item], image: str) -> list[Row]:
    """Least total normalised edit distance between the normal forms, each prediction used at most once.

    `gt` is already sorted by order. Tables whose raw or normal form is empty leave the lists on either side
    while positions are still read from the full lists, one place off for each table dropped before (quirk).
    So is this: prediction 0 counts as "none" for position and category, and is thus missing from the reading
    order.
    """
    gt_lines = _lines([element.content for element in gt])
    pred_lines = _lines([item.content for item in pred])
    assigned = _assign(gt_lines, pred_lines)
    rows = []
    for number, (source, norm) in enumerate(gt_lines):
        chosen, distance = assigned.get(number, (None, 1.0))
        found, found_norm = ("", "") if chosen is None else pred_lines[chosen]
        placed = pred[chosen] if chosen else None
        row = Row(
            gt_idx=(number,),
            pred_idx=() if chosen is None else (chosen,),
            gt=source,
            pred=found,
            norm_gt=norm,
            norm_pred=found_norm,
            gt_position=(gt[number].order or None,),
            pred_position=placed.start if placed else None,
            gt_category=gt[number].category,
            pred_category=placed.kind if placed else "",
            gt_attribute=(gt[number].attribute or {},),
            distance=distance,
            image=image,
        )
        rows.append(row)
    return rows


def _lines(sources: Sequence[str]) -> list[_Line]:
    # what holds no table is compared as it stands (quirk)
    pairs = ((s, normalize_html_table(s) if "<table" in s.lower() else s) for s in sources)
    return [(source, norm) for source, norm in pairs if source and norm]


def _assign(gt: Sequence[_Line], pred: Sequence[_Line]) -> dict[int, tuple[int, float]]:
    """Index of a ground-truth line -> index of its predicted line and their distance."""
    if not gt or not pred:
        return {}
    costs = np.array([[normalized_distance(g, p) for _, p in pred] for _, g in gt])
    rows, columns = linear_sum_assignment(costs)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return {row: (column, float(costs[row, column])) for row, column in pairs}


def predicted_tables(items: Mapping[str, Sequence[Item]]) -> list[Item]:
    """Predicted tables in the order that rows number them."""
    return [*items.get("html_table", ()), *items.get("latex_table", ())]


def score_tables(page: Page, items: Mapping[str, Sequence[Item]]) -> list[tuple[Row, TedsResult]]:
    """Rows of a page's tables with their scores; `DataError` for ground truth that fails officially.

    A LaTeX table that could not be converted takes part as an empty one.
    """
    if not page.tables:
        return []
    for table in page.tables:
        _refuse_unreadable(page, table)
    tables = predicted_tables(items)
    candidates = [replace(item, content="") if item.category == "latex_table" else item for item in tables]
    rows = match_tables(page.tables, candidates, page.image)
    if not rows and not any(item.content for item in candidates):
        place = page.tables[0].index
        raise DataError(
            f"page {page.index} ({page.image}): layout_dets[{place}].html is empty, as is that of every "
            "table of the page, expected HTML of at least one",
            hint="The official scorer fails on this page; fill in the html or mark the tables as ignored.",
        )
    return [(row, _score(row)) for row in rows]


def _score(row: Row) -> TedsResult:
    """TEDS of a row, entered into it; what is not a table has no normal form from here on."""
    from gravbench.metrics.teds import teds_pair  # loads lxml, which pages without tables spare

    row.norm_gt, row.norm_pred = normalize_html_table(row.gt), normalize_html_table(row.pred)
    teds = teds_pair(*row.compared)
    row.metric = {"TEDS": teds.teds, "TEDS_structure_only": teds.teds_s}
    return teds


def _refuse_unreadable(page: Page, table: Element) -> None:
    """`DataError` for a ground-truth table that no parser takes."""
    try:
        if "<![" in table.content or "&#" in table.content:
            normalize_html_table(table.content)
    except RefusedMarkupError as error:
        raise DataError(
            f"page {page.index} ({page.image}): layout_dets[{table.index}].html: {error}",
            hint="The official scorer fails on this page; correct the html or mark the table as ignored.",
        ) from error
