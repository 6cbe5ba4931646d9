from __future__ import annotations

import pytest
from omnidoc_cases import cases

from gravbench.omnidocbench.ground_truth import Element
from gravbench.omnidocbench.lines import Row
from gravbench.omnidocbench.markdown_items import Item
from gravbench.omnidocbench.recorded_functions import check_assignment
from gravbench.omnidocbench.table_match import match_tables
from gravbench.omnidocbench.text import Normalizer


def table(*cells: str) -> str:
    return "<table><tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr></table>"


def matched(truth: list[tuple[str, float | None]], predictions: list[Item]) -> list[Row]:
    elements = [Element("table", order, html, None, number) for number, (html, order) in enumerate(truth)]
    return match_tables(elements, predictions, "a.png")


def predicted(content: str, start: int, fine: str | None = None) -> Item:
    return Item("html_table", start, start + 4, content, fine)


@pytest.mark.parametrize("case", cases("table_assign"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_rows_are_reproduced(case: dict) -> None:
    rows = check_assignment(case, Normalizer())["rows"]
    assert rows == [{**row, "edit": pytest.approx(row["edit"], abs=1e-9)} for row in case["expected"]["rows"]]


def test_the_first_prediction_keeps_its_text_and_loses_its_position() -> None:
    (row,) = matched([(table("a"), None)], [predicted(table("a"), 5)])
    assert (row.pred_idx, row.pred_position, row.pred_category) == ((0,), None, "")
    assert row.norm_pred == row.norm_gt
    assert row.distance == 0.0


def test_fine_category_of_a_later_prediction_is_reported() -> None:
    predictions = [predicted(table("zzz"), 0), predicted(table("a"), 7, "md2html_table")]
    (row,) = matched([(table("a"), 3)], predictions)
    assert (row.pred_position, row.pred_category, row.gt_position) == (7, "md2html_table", (3,))


def test_empty_ground_truth_tables_give_no_row() -> None:
    assert matched([("", None), ("", None)], [predicted(table("a"), 0)]) == []
    assert matched([("", None)], []) == []


def test_a_dropped_table_shifts_the_fields_of_later_ones() -> None:
    (row,) = matched([("", 1), (table("a"), 2)], [])
    assert (row.gt_idx, row.gt_position) == ((0,), (1,))
    assert row.distance == 1.0


def test_surplus_predictions_cost_nothing() -> None:
    predictions = [predicted(table(text), n) for n, text in enumerate("abc")]
    assert len(matched([(table("b"), None)], predictions)) == 1
