from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omnidoc_cases import cases, golden

from gravbench.metrics.table_html import (
    _finish,
    normal_table,
    normalize_cell_text,
    normalize_html_table,
    normalize_plain_table,
    table_text_lines,
)
from gravbench.metrics.table_markup import MAX_DEPTH, RefusedMarkupError, rewrite_markup

OPEN, CLOSE = '<html><body><table border="1" >', "</table></body></html>"


@pytest.mark.parametrize("case", cases("table_teds"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_normal_forms_are_reproduced(case: dict) -> None:
    expected = case["expected"]
    assert normalize_html_table(case["gt"]) == expected["norm_gt"]
    assert normalize_html_table(case["pred"]) == expected["norm_pred"]
    assert table_text_lines(expected["norm_pred"]) == expected["text_lines_pred"]


def test_any_markup_reads_as_the_pinned_beautifulsoup_reads_it() -> None:
    for case in golden("table_markup.json"):
        if case["normal"] is None:
            with pytest.raises(RefusedMarkupError):
                normalize_html_table(case["html"])
        else:
            assert normalize_html_table(case["html"]) == case["normal"], case["html"]


texts = st.lists(st.sampled_from([*"a1-–中 ($:&;", "²", "\\alpha", "<b>"]), max_size=4).map("".join)
gaps = st.sampled_from(["", "", "\n", " \n\t", " "])
openings = st.sampled_from(
    ["<td>", '<td colspan="2">', '<td colspan="1" rowspan="3">', "<th>", '<td class="x">']
)


@given(st.lists(st.lists(st.tuples(openings, texts, gaps), max_size=3), max_size=3), gaps)
def test_a_table_in_normal_form_but_for_its_gaps_is_left_alone(
    rows: list[list[tuple[str, str, str]]], gap: str
) -> None:
    cells = ["".join(f"{td}{text}</{td[1:3]}>{space}" for td, text, space in row) for row in rows]
    source = f"<table>{gap}" + "".join(f"<tr>{gap}{row}</tr>{gap}" for row in cells) + "</table>"
    normal = normal_table(source)
    rewritten = rewrite_markup(source, normalize_cell_text)
    assert rewritten is not None
    assert normal is None or normal == _finish(rewritten)


def test_most_tables_are_in_normal_form_but_for_their_gaps() -> None:
    source = '<table>\n<tr><td>a-b c</td><td colspan="2"></td></tr>\n  <tr><td>中文</td></tr></table>'
    rows = '<tr><td>a-b c</td><td colspan="2"></td></tr><tr><td>中文</td></tr>'
    assert normal_table(source) == OPEN + rows + CLOSE
    for cell in ("-", "$x$", "a  b", " a", "a&b", "（", "\\pm"):
        assert normal_table(f"<table><tr><td>{cell}</td></tr></table>") is None


def test_the_short_way_gives_what_the_long_way_gives() -> None:
    plain = 0
    sources = [case[side] for case in cases("table_teds") for side in ("gt", "pred")]
    sources += ['<table >\n <thead><tr>  <th rowspan="2" colspan="1">A </th></tr></thead>\n</table> x']
    for source in sources:
        short = normalize_plain_table(source, normalize_cell_text)
        if short is not None:
            plain += 1
            assert short == rewrite_markup(source, normalize_cell_text)
    assert plain > 40


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("-", "—"),
        (" － ", "—"),
        ("- 5", "- 5"),
        ("$\\alpha$", "α"),
        ("$$\\[x\\]$$", "x"),
        ("\\(a\\)", "a"),
        ("$a$b$", "$a$b$"),
        ("$$", "$$"),
        ("$" + "x" * 129 + "$", "$" + "x" * 129 + "$"),
        ("✔ ✗", "√ ×"),
        ("５％", "5%"),
        ("5\\% \\& \\_", "5% & _"),
        ("a\xa0 \u200bb", "a b"),
        ("\\beta\\eta\\varepsilon", "βηε"),
        ("\\pmod", "±od"),
        ("a\n  b", "a b"),
    ],
)
def test_cell_text(text: str, expected: str) -> None:
    assert normalize_cell_text(text) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("\n  <tr>\n <td>a</td> </tr>", "<tr><td>a</td> </tr>"),
        ("<tr><td>a &lt; b</td></tr>", "<tr><td>a < b</td></tr>"),
        ("<tr><td>a &amp;lt; b</td></tr>", "<tr><td>a &lt; b</td></tr>"),
        ('<tr><td rowspan="2" colspan=3>a</td></tr>', '<tr><td colspan="3" rowspan="2">a</td></tr>'),
        ('<tr><th style="a" class="b">a</th></tr>', "<tr><td>a</td></tr>"),
        ("<tr><td>5 <span>x</span> y</td></tr>", "<tr><td>5 x y</td></tr>"),
        ("<tr><td><span>-</span>5</td></tr>", "<tr><td>-5</td></tr>"),
        ("<tr><td>5 <math alttext='\\pm'>q</math> 2</td></tr>", "<tr><td>5 $±$ 2</td></tr>"),
        ("<tr><td><math alttext=''>q</math></td></tr>", "<tr><td>$$</td></tr>"),
        ("<tr><td>a<br>b<br/>c</td></tr>", "<tr><td>a<br/>b<br/>c</td></tr>"),
        ("<tr><td>a<!-- c --></td></tr>", "<tr><td>ac</td></tr>"),
        ("<tr><td>a<!--c--></td></tr>", "<tr><td>a<!--c--></td></tr>"),
    ],
)
def test_markup(body: str, expected: str) -> None:
    assert normalize_html_table(f"<table>{body}</table>") == OPEN + expected + CLOSE


def test_without_a_lower_case_table_tag_the_normal_form_is_empty() -> None:
    assert normalize_html_table("") == normalize_html_table("<TABLE></TABLE>") == ""


def test_blanks_inside_the_tag_still_name_a_table() -> None:
    assert normalize_html_table("< table>") == OPEN + CLOSE


def test_nesting_that_exhausts_the_official_recursion_has_no_normal_form() -> None:
    assert normalize_html_table("<table><tr><td>" + "<b>" * MAX_DEPTH) == ""
    assert normalize_html_table("<table><tr><td>" + "<b>" * (MAX_DEPTH - 10)) != ""


def test_lines_of_a_table_without_rows_are_its_cells() -> None:
    assert table_text_lines(OPEN + "<td>a b</td><td></td><td>c</td>" + CLOSE) == ["ab", "c"]


def test_inline_math_of_a_cell_is_shown_without_its_dollars() -> None:
    assert table_text_lines(OPEN + "<tr><td>H$_2$O</td><td>5 $</td></tr>" + CLOSE) == ["H_2O 5$"]
