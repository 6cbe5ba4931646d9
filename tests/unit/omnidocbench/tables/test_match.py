from __future__ import annotations

import pytest
from omnidoc_cases import cases

from gravbench.omnidocbench.tables.match import match_tables


def table(*cells: str) -> str:
    return "<table><tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr></table>"


@pytest.mark.parametrize("case", cases("table_assign"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_rows_are_reproduced(case: dict) -> None:
    rows = [row.official() for row in match_tables(case["gt"], case["pred"])]
    assert rows == [{**row, "edit": pytest.approx(row["edit"], abs=1e-9)} for row in case["expected"]["rows"]]


def test_the_first_prediction_keeps_its_text_and_loses_its_position() -> None:
    (row,) = match_tables([{"html": table("a")}], [{"content": table("a"), "position": [5, 9]}])
    assert (row.pred_idx, row.pred_position, row.pred_category_type) == (0, None, None)
    assert row.norm_pred == row.norm_gt
    assert row.edit == 0.0


def test_fine_category_of_a_later_prediction_is_reported() -> None:
    predictions = [
        {"content": table("zzz"), "position": [0, 1]},
        {
            "content": table("a"),
            "position": [7, 8],
            "category_type": "html_table",
            "fine_category_type": "md2html_table",
        },
    ]
    (row,) = match_tables([{"html": table("a"), "order": 3}], predictions)
    assert (row.pred_position, row.pred_category_type, row.gt_position) == (7, "md2html_table", 3)


def test_empty_ground_truth_tables_give_no_row() -> None:
    assert match_tables([{"html": ""}, {}], [{"content": table("a"), "position": [0, 1]}]) == []
    assert match_tables([{"html": ""}], []) == []


def test_a_dropped_table_shifts_the_fields_of_later_ones() -> None:
    (row,) = match_tables([{"html": "", "order": 1}, {"html": table("a"), "order": 2}], [])
    assert (row.gt_idx, row.gt_position) == (0, 1)
    assert row.edit == 1.0


def test_surplus_predictions_cost_nothing() -> None:
    predictions = [{"content": table(text), "position": [n, n]} for n, text in enumerate("abc")]
    assert len(match_tables([{"html": table("b")}], predictions)) == 1
