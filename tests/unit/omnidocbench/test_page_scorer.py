from __future__ import annotations

import pytest
from omnidoc_support import block, page, scored

from gravbench.errors import DataError
from gravbench.omnidocbench.ground_truth import Page
from gravbench.omnidocbench.lines import Row
from gravbench.omnidocbench.markdown_items import Converters, extract_items

WORDS = ["amber", "river", "stone", "window", "compute", "lantern", "signal", "orbit", "harvest", "copper"]
LONG = " ".join(WORDS[i % 10] for i in range(60))
TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"


def test_an_exact_prediction_scores_perfect() -> None:
    truth = page(block("title", "A title", 1), block("text_block", LONG, 2), block("table", TABLE, 3))
    result = scored(truth, f"# A title\n\n{LONG}\n\n{TABLE}")
    assert [row.metric["Edit_dist"] for row in result.text] == [0.0, 0.0]
    assert result.tables[0].metric["TEDS"] == 1.0
    assert result.surplus.share == 0.0


def test_empty_prediction_scores_worst() -> None:
    truth = page(
        block("text_block", LONG, 1), block("table", TABLE, 2), block("equation_isolated", "$$x=1$$", 3)
    )
    for markdown in ("", None):
        result = scored(truth, markdown)
        assert result.text[0].metric["Edit_dist"] == result.formulas[0].metric["Edit_dist"] == 1.0
        assert result.tables[0].metric["TEDS"] == 0.0
        assert result.order is not None
        assert result.order.distance == 1.0
        assert result.surplus.share is None


def test_page_furniture_is_absorbed_and_scored_nowhere() -> None:
    truth = page(block("header", "Annual report of copper", 1), block("text_block", LONG, 2))
    result = scored(truth, f"Annual report of copper\n\n{LONG}")
    assert [row.gt_category for row in result.text] == ["text_block"]
    assert result.surplus.share == 0.0


def test_multi_line_truth_is_scored_line_by_line() -> None:
    latex = "$$\\begin{aligned} a&=b+1 \\\\ c&=d+2 \\end{aligned}$$"
    result = scored(page(block("equation_isolated", latex, 7)), latex)
    assert [row.gt_position for row in result.formulas] == [(7.001,), (7.002,)]
    assert [row.distance for row in result.formulas] == [0.0, 0.0]


def test_surplus_text_is_free_in_the_score_and_shown_beside_it() -> None:
    truth = page(block("text_block", LONG, 1))
    loop = "\n\n".join(["the same words again and again"] * 20)
    result = scored(truth, f"{LONG}\n\n{loop}")
    assert result.text[0].metric["Edit_dist"] == 0.0
    assert result.surplus.share is not None
    assert result.surplus.share > 0.4
    assert (result.repetition.unit, result.repetition.repeats) == ("the same words again and again", 20)


def test_dropped_lines_shift_reported_positions() -> None:
    truth = page(block("text_block", LONG, 1), block("text_block", LONG[::-1], 2))
    plain = scored(truth, f"{LONG}\n\n{LONG[::-1]}").text
    shifted = scored(truth, f"...\n\n{LONG}\n\n{LONG[::-1]}").text
    assert [row.pred_position for row in plain] == [0, len(LONG)]
    # the official accident: line i reports the position of item i, which is one place earlier
    assert [row.pred_position for row in shifted] == [0, 3]


def test_tables_that_are_all_empty_are_a_data_fault_without_a_predicted_table() -> None:
    truth = page(block("table", "", 1), block("text_block", LONG, 2))
    with pytest.raises(DataError, match=r"page 0 .*layout_dets\[0\]\.html"):
        scored(truth, LONG)
    assert scored(truth, TABLE).tables == ()


@pytest.mark.parametrize(
    ("cell", "teds"),
    [
        ("ab", 1.0),
        ("ab <: q", 1 - 5 / 7 / 3),
        ("ab<!DOCTYPE html>", 1 - 5 / 7 / 3),
        ("ab<?xml q?>", 1 - 4 / 6 / 3),
        ("ab&#0;", 1 - 1 / 3 / 3),
        ("&#xD800;ab", 1 / 3),
    ],
)
def test_rare_markup_of_a_cell_scores_as_officially(cell: str, teds: float) -> None:
    truth = page(block("table", "<table><tr><td>ab</td><td>c</td></tr></table>", 1))
    result = scored(truth, f"<table><tr><td>{cell}</td><td>c</td></tr></table>")
    assert result.tables[0].metric["TEDS"] == pytest.approx(teds, abs=1e-12)


REFUSED = "<table><tr><td>1<![x</td></tr></table>"


def test_a_table_no_parser_takes_costs_nothing_where_the_truth_has_none() -> None:
    result = scored(page(block("text_block", LONG, 1)), f"{LONG}\n\n{REFUSED}")
    assert result.crash is None
    assert result.text[0].metric["Edit_dist"] == 0.0


@pytest.mark.parametrize(
    ("truth", "markdown"),
    [
        (page(block("text_block", LONG, 1), block("table", TABLE, 2)), f"{LONG}\n\n{REFUSED}"),
        (page(block("text_block", LONG, 1)), f"<div>{LONG} <![x</div>"),
        (page(block("text_block", LONG, 1)), f"<div>{LONG} &#{'9' * 5000};</div>"),
    ],
    ids=["table", "div", "reference"],
)
def test_what_ends_the_official_scorer_scores_as_empty_with_its_reason(truth: Page, markdown: str) -> None:
    result = scored(truth, markdown)
    assert result.text[0].metric["Edit_dist"] == 1.0
    assert result.crash is not None
    assert "html.parser refuses" in result.crash
    assert not result.internal_error


def test_an_error_of_one_page_is_that_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(row: Row) -> None:
        raise KeyError(f"cell 3 of {row.image}")

    truth = page(block("text_block", LONG, 1), block("table", TABLE, 2))
    monkeypatch.setattr("gravbench.omnidocbench.table_match._score", fails)
    with_table = scored(truth, f"{LONG}\n\n{TABLE}")
    assert with_table.internal_error
    assert with_table.crash == "KeyError in its tables: 'cell 3 of page_1.png'"
    assert [row.metric["Edit_dist"] for row in with_table.text] == [1.0]
    others = scored(page(block("text_block", LONG, 1)), LONG)
    assert others.text[0].metric["Edit_dist"] == 0.0


def test_truth_no_parser_takes_is_a_data_fault() -> None:
    with pytest.raises(DataError, match=r"layout_dets\[0\]\.html.*html.parser refuses"):
        scored(page(block("table", REFUSED, 1)), TABLE)


def test_a_table_environment_inside_a_tabular_leaves_a_gap_and_nothing_of_either_stays_in_the_text() -> None:
    source = "\\begin{tabular}{c}1\\begin{table}x\\end{table}\n\ntail words\\end{tabular}"
    seen: list[str] = []
    converters = Converters(str, lambda source: seen.append(source) or "", str)
    items = extract_items(f"Intro words\n\n{source} behind", converters)
    assert [item.content for item in items["text_all"]] == ["Intro words", "behind"]
    assert seen == [
        source.replace("\\begin{table}x\\end{table}", " " * 25) + " ",
        "\\begin{table}x\\end{table}",
    ]
