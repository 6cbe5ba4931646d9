from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.omnidocbench.formula_lines import split_formula
from gravbench.omnidocbench.formula_text import (
    cdm_spelling,
    normalized_formula,
    strip_delimiters,
    strip_tags,
)
from gravbench.omnidocbench.text import Normalizer, clean, inline_math, plain_latex, pylatexenc_text


def test_two_character_sequences_vanish_from_text() -> None:
    assert clean("and/then \\theta 5/n") == "andhenheta5"


def test_inline_math_pairs_on_one_line_only() -> None:
    assert [math.content for math in inline_math("$a$ $b\n$c$ \\(d\\) \\(e")] == ["a", "c", "d"]


@given(st.text())
def test_clean_text_is_clean_already(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def test_unknown_sizes_and_structures_stay_as_they_are() -> None:
    normalizer = Normalizer()
    assert normalizer.unicode("$x^2$") == "x^2"
    assert normalizer.unicode("$\\alpha_1$ and ③") == "α_1 and 3"
    assert normalizer.unicode("$" + "x^2" * 60 + "$") == "$" + "x^2" * 60 + "$"
    assert normalizer.unicode("$a & b^2$") == "$a & b^2$"


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("\\leftarrow", "arrow"),
        ("\\texttt{x}", "ttx"),
        ("\\bmod", "od"),
        ("\\middle", "|dle"),
        ("x\\tag{1}", "x"),
        ("{{a}}_{i}", "a_i"),
        ("", ""),
    ],
)
def test_formula_quirks(latex: str, expected: str) -> None:
    assert normalized_formula(latex) == expected


@given(st.text("\\{}$[]()tagx &", max_size=40))
def test_formula_steps_take_any_text(text: str) -> None:
    assert strip_delimiters(strip_delimiters(text)) == strip_delimiters(text)
    assert "\\notag" not in strip_tags(text)
    normalized_formula(text)
    for line in split_formula(text):
        assert line.latex


def test_cdm_gets_bare_formulas() -> None:
    assert cdm_spelling("$$ \\[ x \\tag{1} \\] $$") == "x"
    assert cdm_spelling("text ```latex\n$y$\n``` more", fenced=True) == "y"


_PIECES = (
    *("x", "a b", " ", "^", "_", "-", "(", "]", "'"),
    *("\\alpha", "\\in ", "\\nosuch", "\\,", "\\{", "\\_", "\\ "),
)
_WITH_GROUPS = (
    *("\\frac{%s}{%s}", "\\bar{%s}%s", "\\mathbf {%s} %s", "\\text{%s} {%s}", "{%s}%s", "\\sqrt{%s}_{%s}"),
)


def _latex(pieces: random.Random, depth: int = 0) -> str:
    made = []
    for _ in range(pieces.randrange(1, 5)):
        if depth < 3 and pieces.random() < 0.4:
            made.append(pieces.choice(_WITH_GROUPS) % (_latex(pieces, depth + 1), _latex(pieces, depth + 1)))
        else:
            made.append(pieces.choice(_PIECES))
    return "".join(made)


def test_plain_latex_reads_what_pylatexenc_reads() -> None:
    pieces = random.Random(7)
    sources = [_latex(pieces).strip() for _ in range(200)]
    fast = {source: text for source in sources if (text := plain_latex(source)) is not None}
    assert len(fast) > 50
    for source, text in fast.items():
        assert text == pylatexenc_text(source), source


@pytest.mark.parametrize(
    "latex", ["a % b", "x & y", "\\begin{x}", "\\verb{a b}", "\\(x\\)", "}", "\\frac a b", "中"]
)
def test_what_is_not_plain_is_left_to_pylatexenc(latex: str) -> None:
    assert plain_latex(latex) is None
