import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravbench.pages.assembly import (
    clean_table,
    clean_text,
    cut_loop,
    normalize_list_markers,
    separate_lines,
    shorten_runs,
    space_inline_formulas,
    strip_literal_tabs,
)

TABLE = "<table><tr><td>a....b</td></tr></table>"


def test_one_table_is_left_alone_and_two_are_not() -> None:
    assert clean_table(f" {TABLE}\n") == TABLE
    assert clean_table(TABLE + TABLE) == (TABLE + TABLE).replace("....", "...")
    assert clean_table("\\t| a | b |") == "| a | b |"


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("\\t\\tHello", "Hello"),
        ("Hello\\t\\t", "Hello"),
        ("\\t- Competence", "- Competence"),
        ("\\therefore x", "\\therefore x"),
        ("\\times 2", "\\times 2"),
        ("\\t\\times 2\\t", "\\times 2"),
        ("\\theta", "\\theta"),
        ("a \\text{b}", "a \\text{b}"),
        ("\\tThe end", "The end"),
        ("a\\tb", "a\\tb"),
        ("\\t", ""),
        ("", ""),
    ],
)
def test_literal_tabs_go_but_commands_stay(given_text: str, expected: str) -> None:
    assert strip_literal_tabs(given_text) == expected


def test_runs_of_three_or_more_shrink_to_three() -> None:
    assert shorten_runs("a.... b·····c ______ .. ___") == "a... b···c ___ .. ___"


def test_loop_is_cut_only_in_texts_over_2048_characters() -> None:
    unit = "the same words again "
    assert cut_loop(unit * 97) == unit * 97
    assert len(unit * 98) > 2048
    assert cut_loop("Intro:" + unit * 98) == "Intro:" + unit


def test_nine_repeats_or_nine_characters_are_no_loop() -> None:
    filler = "".join(chr(0x4E00 + i) for i in range(2100))
    assert cut_loop(filler + "0123456789ab" * 9 + "!") == filler + "0123456789ab" * 9 + "!"
    assert cut_loop(filler + "0123456789ab" * 10 + "!") == filler + "0123456789ab"
    nine = filler + "012345678" * 10
    assert cut_loop(nine) == nine


def varied(seed: int) -> str:
    return "".join(chr(0x4E00 + seed * 250 + i) for i in range(200))


def test_line_that_makes_up_most_lines_is_cut_to_its_first() -> None:
    lines = ["head", varied(0), *[varied(7)] * 6, "x", *[varied(7)] * 6]
    assert cut_loop("\n".join(lines)) == "\n".join(lines[:3])
    mixed = "\n".join(varied(n if n % 2 else 40) for n in range(20))
    assert cut_loop(mixed) == mixed


def test_inline_formulas_get_spaces_beside_letters_and_digits_only() -> None:
    assert space_inline_formulas("let$x$be 3$y$.") == "let $x$ be 3 $y$."
    assert space_inline_formulas("$$x$$a") == "$$x$$a"
    assert space_inline_formulas("costs 5$ or 6\n7$ more") == "costs 5$ or 6\n7$ more"
    assert space_inline_formulas("($x$)") == "($x$)"


def test_list_markers_are_normalised_and_numbers_are_not_markers() -> None:
    assert normalize_list_markers("•one\n· two\n* three\n**bold**") == "- one\n- two\n- three\n**bold**"
    assert normalize_list_markers("(1)one\n2)two\n3.three") == "(1) one\n2) two\n3. three"
    assert normalize_list_markers("1.5 litres\n（2）zwei") == "1.5 litres\n(2) zwei"


def test_single_newlines_become_blank_lines() -> None:
    assert separate_lines("a\nb\n\nc\n\n\nd") == "a\n\nb\n\nc\n\n\nd"


@given(st.text(alphabet="ab .·_$\\t\n", max_size=60))
def test_clean_up_of_clean_text_changes_nothing(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once) == once


@settings(max_examples=15, deadline=None)
@given(st.text(alphabet="ab\n", min_size=10, max_size=14), st.integers(10, 20))
def test_first_loop_agrees_with_the_obvious_pattern(unit: str, repeats: int) -> None:
    filler = "".join(chr(0x4E00 + i) for i in range(2100))
    text = filler + unit * repeats
    found = re.search(r"(.{10,220}?)\1{9,}", text, re.DOTALL)
    assert found is not None
    assert cut_loop(text) == text[: found.start()] + found[1]
