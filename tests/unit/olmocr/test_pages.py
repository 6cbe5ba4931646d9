"""Verdicts of single tests where the official rules surprise, and where input is hostile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.olmocr.math_tests import Equations
from gravbench.olmocr.page import (
    OverLimitError,
    PageError,
    PageText,
    Rules,
    Verdict,
    delimited_equations,
    normalize,
)
from gravbench.olmocr.records import read_test
from gravbench.olmocr.scoring import run_test
from gravbench.olmocr.tables import html_tables
from gravbench.olmocr.text_tests import end_repeats, marker_spans, without_images


class _NoRenderer:
    signature = "none"

    def render(self, equations):
        raise AssertionError(f"nothing here needs a rendering of {equations}")

    def close(self) -> None: ...


def _run(content: str, rules: Rules = Rules.RELEASE, **test: object) -> Verdict:
    record = read_test({"pdf": "a.pdf", "page": 1, "id": "t", **test}, rules)
    return run_test(record, PageText(content, rules), Equations(_NoRenderer(), rules))


def test_a_page_of_one_blank_makes_every_text_with_a_blank_present() -> None:
    assert _run("\n", type="present", text="two words").passed
    assert not _run("\n", type="absent", text="two words").passed
    assert not _run("", type="present", text="two words").passed


def test_one_substitution_of_twelve_characters_fails_by_the_last_bit() -> None:
    assert not _run("abcdeXghijkl", type="present", text="abcdefghijkl", max_diffs=1).passed
    assert _run("abcdeXghijk", type="present", text="abcdefghijk", max_diffs=1).passed


def test_a_failure_names_the_nearest_text_its_ratio_and_the_threshold() -> None:
    verdict = _run("the harbuor clock", type="present", text="harbour")
    assert verdict.why == "below-threshold"
    assert "harbuor" in verdict.detail and "threshold 1.0000" in verdict.detail
    table = _run("| a | b |\n|---|---|\n| 1 | 2 |", type="table", cell="2", up="c")
    assert (table.why, "up should be 'c', nearest is 'b'" in table.detail) == ("relation", True)


def test_a_span_that_is_no_integer_stops_the_release_and_counts_one_in_the_newer_state() -> None:
    page = '<table><tr><th colspan="two">a</th></tr><tr><td>c</td></tr></table>'
    with pytest.raises(PageError, match='colspan="two"'):
        _run(page, type="table", cell="c")
    assert _run(page, Rules.MAIN, type="table", cell="c", top_heading="a").passed


def test_a_heading_in_front_of_the_table_counts_from_the_end_of_a_row_or_stops_the_release() -> None:
    page = '<table><tr><td colspan="-1">a</td><th>b</th></tr><tr><td>c</td><td>d</td></tr>%s</table>'
    assert _run(page % "", type="table", cell="c", left_heading="d").passed
    with pytest.raises(PageError, match="IndexError: a heading stands in column -1, and row 2 has 0 cells"):
        _run(page % "<tr></tr>", type="table", cell="c")


def test_a_relation_at_the_edge_holds_in_the_release_and_fails_in_the_newer_state() -> None:
    page = "| a | b |\n|---|---|\n| 1 | 2 |"
    assert _run(page, type="table", cell="a", up="anything").passed
    assert not _run(page, Rules.MAIN, type="table", cell="a", up="anything").passed


def test_footnotes_and_formats_belong_to_the_newer_rules() -> None:
    page = "# The *tide*\n\nA **storm** came<sup>2</sup> from the west.[^3]\n\n[^3]: Not seen."
    for test, passed in (
        ({"type": "format", "format": "heading", "text": "The tide"}, True),
        ({"type": "format", "format": "bold", "text": "storm"}, True),
        ({"type": "format", "format": "italic", "text": "storm"}, False),
        ({"type": "footnote", "marker": "2", "appears_before_marker": "came"}, True),
        ({"type": "footnote", "marker": "2", "appears_after_marker": "east"}, False),
        ({"type": "footnote", "marker": "3"}, True),
        ({"type": "footnote", "marker": "4"}, False),
    ):
        assert _run(page, Rules.MAIN, **test).passed is passed, test
    assert marker_spans("<sup><SUP x>1</sup>", "1") == [(5, 19)]
    assert marker_spans("<sup<sup>1</sup>", "1") == [(0, 16)]


def test_equations_are_cut_out_in_order_without_escapes() -> None:
    found = delimited_equations("\\(a\\) $$b$$ \\$5 and \\$6 \\[c\\] $\\(d\\)$")
    assert found == [("\\(", ["a", "d"]), ("\\[", ["c"]), ("$$", ["b"]), ("$", ["5 and \\"])]


@given(st.text("ab ![]()\n", max_size=40))
def test_images_are_removed_as_the_pattern_would(text: str) -> None:
    import re

    assert without_images(text) == re.sub(r"!\[.*?\]\(.*?\)", "", text)


@given(st.text("a$\\()[]\n", max_size=30))
def test_equations_are_found_as_the_patterns_would(text: str) -> None:
    import re

    expected = []
    rest = text
    for pattern in (r"\\\((.+?)\\\)", r"\\\[(.+?)\\\]", r"\$\$(.+?)\$\$", r"\$(.+?)\$"):
        expected.append([each.strip() for each in re.findall(pattern, rest, re.DOTALL)])
        rest = re.sub(pattern, "", rest, flags=re.DOTALL)
    assert [found for _, found in delimited_equations(text)] == expected


@given(st.text("ab \n", max_size=30))
def test_repeats_are_counted_as_by_stepping_back(text: str) -> None:
    text = normalize(text, Rules.RELEASE)
    for size, count in enumerate(end_repeats(text), start=1):
        unit = text[-size:]
        if count:
            assert text.endswith(unit * count) and not text.endswith(unit * (count + 1))
        else:
            assert len(text) < size


HOSTILE = 200_000


@pytest.mark.parametrize(
    "page",
    [
        "<table>" + "<!--" * (HOSTILE // 4),
        "<table>" + "<a " * (HOSTILE // 3),
        "<table><tr>" + "<td><table><tr>" * 1_000,
        '<table><tr><td colspan="99999999">a</td></tr></table>',
        "<table><tr>" + '<th rowspan="2000">a</th>' * 1100 + "</tr>" + "<tr></tr>" * 2_000 + "</table>",
    ],
)
def test_hostile_tables_are_refused_by_counts(page: str) -> None:
    with pytest.raises(OverLimitError):
        html_tables(page)


def test_patterns_that_look_back_for_ever_end_on_any_page() -> None:
    for page in ("\\(" * HOSTILE, "$" * HOSTILE, "![" * HOSTILE, "** " * HOSTILE, "<sup" * HOSTILE):
        delimited_equations(page)
        without_images(page)
        normalize(page, Rules.RELEASE)
        marker_spans(page, "1")


def test_a_table_of_ten_thousand_rows_is_read() -> None:
    page = "<table>" + "<tr><th colspan='2'>a</th><td>1</td></tr>" * 10_000 + "</table>"
    (table,) = html_tables(page)
    assert len(table.data) == 10_000
