"""Which predicted table answers which ground-truth table (OmniDocBench v1.6, section "Table matching").

One row for each ground-truth table. Surplus predictions give no row: extra tables cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from gravbench.errors import DataError
from gravbench.metrics.assignment import linear_sum_assignment
from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError
from gravbench.metrics.teds import TedsResult, teds_pair
from gravbench.omnidocbench.ground_truth import Element, Page
from gravbench.omnidocbench.markdown.items import Item
from gravbench.omnidocbench.matching.lines import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One ground-truth table and what was assigned to it; field names are the official ones.

    `pred_idx` is `None` and the prediction empty where nothing was assigned. `pred_position` and
    `pred_category_type` are `None` where the official row holds "": also for prediction 0, whose
    index the official code takes for "none", so that this table is missing from the reading order.
    """

    gt_idx: int
    pred_idx: int | None
    gt: str
    pred: str
    norm_gt: str
    norm_pred: str
    gt_position: float | None
    pred_position: int | None
    gt_category_type: str
    pred_category_type: str | None
    gt_attribute: Mapping[str, Any] = field(default_factory=dict)
    edit: float

    def official(self) -> dict[str, Any]:
        """The row under the names, lists and empty strings of the official result files, texts left out."""
        return {
            "gt_idx": [self.gt_idx],
            "pred_idx": ["" if self.pred_idx is None else self.pred_idx],
            "gt_position": ["" if self.gt_position is None else self.gt_position],
            "pred_position": "" if self.pred_position is None else self.pred_position,
            "gt_category_type": self.gt_category_type,
            "pred_category_type": self.pred_category_type or "",
            "edit": self.edit,
        }


def match_tables(gt: Sequence[Mapping[str, Any]], pred: Sequence[Mapping[str, Any]]) -> list[TableRow]:
    """Least total normalised edit distance between the normal forms, each prediction used at most once.

    `gt`: items with `html`, and optionally `order`, `category_type`, `attribute`; already sorted by
    order. `pred`: items with `content`, `position`, and `category_type` or `fine_category_type`. Tables
    whose raw or normal form is empty leave the lists on either side while positions are still read from
    the full lists, one place off for each table dropped before: the official compaction accident.
    """
    gt_lines = _lines([str(item.get("html") or "") for item in gt])
    pred_lines = _lines([str(item.get("content") or "") for item in pred])
    assigned = _assign(gt_lines, pred_lines)
    return [
        _row(index, line, item=gt[index], chosen=assigned.get(index), pred=pred, pred_lines=pred_lines)
        for index, line in enumerate(gt_lines)
    ]


def _lines(sources: Sequence[str]) -> list[tuple[str, str]]:
    # what holds no table is compared as it stands (quirk)
    pairs = ((s, normalize_html_table(s) if "<table" in s.lower() else s) for s in sources)
    return [(source, norm) for source, norm in pairs if source and norm]


def _assign(gt: Sequence[tuple[str, str]], pred: Sequence[tuple[str, str]]) -> dict[int, tuple[int, float]]:
    """Index of a ground-truth line -> index of its predicted line and their distance."""
    if not gt or not pred:
        return {}
    costs: NDArray[np.float64] = np.array(
        [[Levenshtein.distance(g, p) / max(len(g), len(p)) for _, p in pred] for _, g in gt]
    )
    rows, columns = linear_sum_assignment(costs)
    return {
        int(row): (int(column), float(costs[row, column])) for row, column in zip(rows, columns, strict=True)
    }


def _row(
    index: int,
    line: tuple[str, str],
    *,
    item: Mapping[str, Any],
    chosen: tuple[int, float] | None,
    pred: Sequence[Mapping[str, Any]],
    pred_lines: Sequence[tuple[str, str]],
) -> TableRow:
    pred_idx, edit = chosen if chosen is not None else (None, 1.0)
    pred_raw, norm_pred = pred_lines[pred_idx] if pred_idx is not None else ("", "")
    # Index 0 is false: the official code then leaves position and category empty.
    source = pred[pred_idx] if pred_idx else None
    return TableRow(
        gt_idx=index,
        pred_idx=pred_idx,
        gt=line[0],
        pred=pred_raw,
        norm_gt=line[1],
        norm_pred=norm_pred,
        gt_position=item.get("order") or None,
        pred_position=source["position"][0] if source else None,
        gt_category_type=str(item.get("category_type", "table")),
        pred_category_type=_category(source) if source else None,
        gt_attribute=item.get("attribute") or {},
        edit=edit,
    )


def _category(item: Mapping[str, Any]) -> str:
    return str(item.get("fine_category_type") or item.get("category_type") or "html_table")


def _table_candidates(items: Mapping[str, Sequence[Item]]) -> list[dict[str, object]]:
    """Predicted tables for matching; LaTeX that could not be converted stays as an empty table."""
    tables = [(item, item.content) for item in items.get("html_table", ())]
    tables += [(item, "") for item in items.get("latex_table", ())]
    return [
        {
            "content": content,
            "position": [item.start, item.end],
            "category_type": "html_table",
            "fine_category_type": item.fine,
        }
        for item, content in tables
    ]


def table_texts(items: Mapping[str, Sequence[Item]]) -> list[str]:
    """Predicted tables as they stand, in the order that rows number them."""
    return [item.content for name in ("html_table", "latex_table") for item in items.get(name, ())]


def _table_row(found: TableRow, image: str) -> tuple[Row, TedsResult]:
    norm_gt = normalize_html_table(found.gt)
    norm_pred = normalize_html_table(found.pred)
    row = Row(
        gt_idx=(found.gt_idx,),
        pred_idx=() if found.pred_idx is None else (found.pred_idx,),
        gt=found.gt,
        pred=found.pred,
        norm_gt=norm_gt,
        norm_pred=norm_pred,
        gt_position=(found.gt_position,),
        pred_position=found.pred_position,
        gt_category=found.gt_category_type,
        pred_category=found.pred_category_type or "",
        gt_attribute=(found.gt_attribute,),
        distance=found.edit,
        image=image,
    )
    teds = teds_pair(*row.compared)
    row.metric = {"TEDS": teds.teds, "TEDS_structure_only": teds.teds_s}
    return row, teds


def score_tables(page: Page, items: Mapping[str, Sequence[Item]]) -> list[tuple[Row, TedsResult]]:
    """Rows of a page's tables with their scores; `DataError` for ground truth that fails officially."""
    if not page.tables:
        return []
    candidates = _table_candidates(items)
    truth = [
        {"html": table.content, "order": table.order, "attribute": table.attribute, "category_type": "table"}
        for table in page.tables
    ]
    for table in page.tables:
        _refuse_unreadable(page, table)
    found = match_tables(truth, candidates)
    if not found and not any(table["content"] for table in candidates):
        place = page.tables[0].index
        raise DataError(
            f"page {page.index} ({page.image}): layout_dets[{place}].html is empty, as is that of every "
            "table of the page, expected HTML of at least one",
            hint="The official scorer fails on this page; fill in the html or mark the tables as ignored.",
        )
    return [_table_row(row, page.image) for row in found]


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
