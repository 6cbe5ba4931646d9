"""Tokenising: the official tokens, case by case, and the rules behind them."""

from __future__ import annotations

from typing import Any

import pytest
from cdm_support import golden_cases
from hypothesis import given, settings
from hypothesis import strategies as st

from gravbench.omnidocbench.cdm.tokenise import tokenise
from gravbench.omnidocbench.formula_text import cdm_spelling, matrix_variants


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_tokens_are_the_official_ones(case: dict[str, Any]) -> None:
    expected = case["expected"]
    gt, pred = cdm_spelling(case["gt"]), cdm_spelling(case["pred"], fenced=True)
    assert (gt, pred) == (expected["gt_stripped"], expected["pred_stripped"])
    for formula, wanted in ((gt, expected["gt_tok"]), (pred, expected["pred_tok"])):
        found = tokenise(formula)
        assert {
            "ok": found.ok,
            "tokenized": found.tokenized,
            "normalized": found.normalized,
            "tokens": list(found.tokens),
        } == wanted
    variants = matrix_variants(case["gt"], case["pred"])
    assert [variants.truth, variants.alternative] == expected["matrix_variants"]


@pytest.mark.parametrize(
    ("formula", "tokenized"),
    [
        # scripts: sub before super, always braced, primes become a superscript
        (r"x^2_i", "x _ { i } ^ { 2 }"),
        ("f''", r"f ^ { \prime \prime }"),
        ("f'^{2}", "f ^ { 2 }"),
        ("x^{''}", "x ^ { ' ' }"),
        # fractions
        (r"\tfrac{a}{b}", r"\frac { a } { b }"),
        (r"\dfrac 1 2", r"\frac { } { } 1 2"),
        (r"\binom n k + 1", r"\binom n k + 1"),
        (r"\binom n k+1", r"\binom n { k + 1 }"),  # a bare argument ends at a blank
        (r"\binom{n}{k}", r"\binom { n } { k }"),
        # fonts and text
        (r"{\rm d}x", r"\mathrm { d } x"),
        (r"\text{if } x", r"\mathrm { i f ~ } x"),
        (r"\hbox{ab}", r"\mathrm { a b }"),
        (r"\mathbb R", r"\mathbb R"),
        (r"\hat\mathrm{x}", r"\hat { \mathrm { x } }"),
        (r"\widehat\mathbf{y}", r"\widehat \mathbf { y }"),
        (r"\mathrm{--}", r"\mathrm { - - }"),
        ("--", "--"),
        # environments
        (
            r"\begin{cases}1\\2\end{cases}",
            r"\left\{ \begin{array} { l l } { 1 } \\ { 2 } \end{array} \right.",
        ),
        (
            r"\begin{bmatrix}a&\\c&d\\\end{bmatrix}",
            r"\left[ \begin{array} { l l } { a } & \\ { c } & { d } \end{array} \right]",
        ),
        (r"\begin{align*}a&=b\end{align*}", r"\begin{array} { r l } { a } & { { } = b } \end{array}"),
        (r"\begin{smallmatrix}a\end{smallmatrix}", r"\begin{array} { l } { a } \end{array}"),
        (r"\begin{array}{c|@{}r}a&b\end{array}", r"\begin{array} { c r } { a } & { b } \end{array}"),
        (r"a \\ b", r"a \, b"),
        # operators and delimiters
        (r"\lim_{n} a", r"\operatorname* { l i m } _ { n } a"),
        (r"\operatorname{ l o g } x", r"\log x"),
        (r"\operatorname*{argmax}", r"\operatorname * { a r g m a x }"),
        (r"\sum\limits_{i}", r"\sum _ { i }"),
        (r"\left( x \right.", r"\left( x \right."),
        (r"\sqrt[3]{x}", r"\sqrt [ 3 ] { x }"),
        (r"\overline{x}", r"\overline { { x } }"),
        (r"\xrightarrow[a]{b}", r"\xrightarrow [ a ] { b }"),
        (r"\rule{1pt}{2.5cm}", r"\rule { 1 pt } { 2.5 cm }"),
        # comments, labels, leftovers of alignment
        (r"%x % y", "x"),
        (r"x\label{eq:1}+y", "x + y"),
        (r"a\~b\>c$d", r"a\~b\>c$d"),  # an odd dollar: the source stays as it is
        (r"a\~b\>c", "a b c"),
        (r"50\%", r"5 0 \%"),
        ("x\\", "x \\"),
        (r"\alpha中", r"\alpha \text { 中 }"),
    ],
)
def test_first_normal_form(formula: str, tokenized: str) -> None:
    assert tokenise(formula).tokenized == tokenized


@pytest.mark.parametrize(
    "formula",
    ["x^{2", r"\begin{array}{l} a", r"\left( x", r"\begin{a}x\end{b}", "}{", r"\[ x", "x" * 20_001],
)
def test_unbalanced_source_is_kept_as_it_is(formula: str) -> None:
    found = tokenise(formula)
    assert (found.ok, found.raw) == (True, True)
    assert found.tokenized == formula


@pytest.mark.parametrize(
    ("formula", "tokens"),
    [
        (r"\ln x", ["l", "n", "x"]),
        (r"a \bmod b", ["a", "m", "o", "d", "b"]),
        (r"\cdots", [".", ".", "."]),
        (r"\hspace{1cm} x \quad y", [r"\hspace{1cm}", "x", "y"]),
        (r"\phantom{ab} x", ["x"]),
        (r"\bigl( x \Big\rangle", [r"\bigl(", "x", r"\Big\rangle"]),
        (r"\color{red}{x} \textcolor{blue}{y}", ["x", "y"]),
        (r"\hat x \mathbf y", [r"\hat", "x", "y"]),
        (r"\frac a b", [r"\frac", "a", "b"]),
        (r"\sqrt x [y]", [r"\sqrt", "x", "[", "y", "]"]),
        (r"\sqrt[3]{x}", [r"\sqrt", "3", "x"]),
        (r"\overset{a}{b} \stackrel{c}{d}", ["a", "b", "c", "d"]),
        (r"\operatorname*{argmax} f", [*"argmaxf"]),
        (r"\min x", [r"\operatorname*", "m", "i", "n", "x"]),
        (r"\left[ x \right]", [r"\left[", "x", r"\right]"]),
        (r"\text{面积 x}", ["面", "积", "x"]),
        (r"\begin{tabular}{c|c} a & $x$ \\ \hline 5\% & b \end{tabular}", ["a", "x", "5", r"\%", "b"]),
        (r"\begin{tabular}{cc} \multicolumn{2}{c}{ab} \cline{1-2} c \end{tabular}", ["a", "b", "c"]),
    ],
)
def test_one_token_for_each_thing_drawn(formula: str, tokens: list[str]) -> None:
    assert list(tokenise(formula).tokens) == tokens


def test_last_tokens_of_a_wrapper_around_a_fraction_stay_black() -> None:
    """The official walk does not correct the end of the wrapper for the brace it inserts."""
    found = tokenise(r"\mathrm{\frac{a}{b}c}d")
    assert list(found.tokens) == [r"\frac", "a", "b", "d"]


def test_protected_percent_survives_an_unparsable_source_as_in_the_official_scorer() -> None:
    assert tokenise(r"50\%{").tokenized == "50<PERCENTAGETOKEN>{"


def test_brackets_that_never_close_give_a_reason_instead_of_boxes() -> None:
    found = tokenise(r"\sqrt [ 3 x {")
    assert found.painted is None
    assert found.problem


def test_template_follows_the_raw_source() -> None:
    assert tokenise("x").template == "plain"
    assert tokenise("长").template == "cjk"
    assert tokenise(r"\begin{tabular}{c}长\end{tabular}").template == "tabular"


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab1{}\\[]()^_&$% '~-长，fracsqrtleftightbeginendarray", max_size=60))
def test_any_string_is_tokenised_without_an_exception(formula: str) -> None:
    found = tokenise(cdm_spelling(formula))
    assert found.painted is not None or found.problem
