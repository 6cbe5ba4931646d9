from __future__ import annotations

import pytest
from omnidoc_cases import cases

from gravbench.omnidocbench.table_conversion import convert_pipe_tables, pipe_rows

PIPE_CASES = [
    case
    for case in cases("md_extract")
    if any(
        item.get("fine_category_type") == "md2html_table"
        for item in case["expected"]["items"].get("html_table", ())
    )
]


def cells(text: str) -> list[str]:
    mark = '<td colspan="1" rowspan="1">'
    return [piece.split("</td>")[0] for piece in convert_pipe_tables(text).split(mark)[1:]]


@pytest.mark.parametrize("case", PIPE_CASES, ids=lambda case: case["id"])
def test_official_tables_and_their_positions_are_reproduced(case: dict) -> None:
    converted = convert_pipe_tables(case["pred"])
    for item in case["expected"]["items"]["html_table"]:
        start, end = item["position"]
        assert converted[start : start + len(item["content"])] == item["content"]
        assert end - start == len(item["content"])


def test_there_are_official_cases_to_reproduce() -> None:
    assert len(PIPE_CASES) >= 2


def test_each_row_is_a_piece_and_a_row_without_an_end_swallows_lines() -> None:
    assert pipe_rows("| a | b |\n| c\ntext\n| d |\n") == ["| a | b |\n", "| c\ntext\n| d |\n"]
    assert pipe_rows("no bar\n|one bar\n") == []


def test_rows_of_neighbouring_pieces_are_glued_and_dashes_go() -> None:
    assert cells("| a | b |\n|---|---|\n| 1 | 2 |\n") == ["a", "b", "1", "2"]


def test_cells_with_a_colon_disappear() -> None:
    assert cells("| time | 12:30 |\n|---|---|\n| a | http://x |\n") == ["time", "a"]


def test_the_line_above_the_first_table_is_lost() -> None:
    converted = convert_pipe_tables("above\n| a |\n| b |\n")
    assert "above" not in converted
    assert "kept" in convert_pipe_tables("kept\n\n| a |\n| b |\n")


def test_swallowed_second_line_is_skipped() -> None:
    assert cells("| a | b\n| c | d\n| e | f |\n") == ["a", "e", "f"]


def test_text_without_tables_keeps_its_lines() -> None:
    assert convert_pipe_tables("a\r\nb") == "\na\nb"  # the scanner begins with an empty line before the first


@pytest.mark.parametrize(
    "text",
    ["|" * 300_000, "|\n" * 100_000, "| a" * 100_000, "<table>\n" * 50_000, "<!--\n<table>\n" * 50_000],
)
def test_hostile_bars_stay_linear(text: str) -> None:
    assert isinstance(convert_pipe_tables(text), str)
