from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zss import Node, simple_distance

from gravbench.metrics.formula_tree import (
    MAX_CHARS,
    LatexTree,
    formula_tree_score,
    parse_latex_tree,
    parsed_parts,
    plain_parts,
)

PIECES = [
    "\\",
    "{",
    "}",
    "$",
    "^",
    "_",
    "a",
    "b",
    "\\frac",
    "\\sqrt",
    "[",
    "]",
    "\\begin{cases}",
    "\\end{cases}",
]
PIECES += ["\\left(", "\\right)", "&", "\\\\", "%", "\n", "~", "\\text{", "\\[", "\\verb", "\0", "\ud800"]
latex = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def as_zss(tree: LatexTree) -> Node:
    node = Node(tree.label)
    for child in tree.children:
        node.addkid(as_zss(child))
    return node


@given(latex, latex)
@settings(max_examples=60, deadline=None)
def test_distance_equals_zss_on_any_input(gt: str, pred: str) -> None:
    score = formula_tree_score(gt, pred)
    expected = simple_distance(as_zss(parse_latex_tree(gt)), as_zss(parse_latex_tree(pred)))
    if score.value is None:
        assert expected == 0
        assert max(score.nodes_gt, score.nodes_pred) == 0
    else:
        assert score.distance == expected
        assert 0.0 <= score.value <= 1.0


WORDS = [
    "\\alpha",
    "\\frac",
    "\\sqrt",
    "\\left",
    "\\,",
    "\\{",
    "\\text",
    "\\mathbf",
    "\\hat",
    "\\\\",
    "\\quad",
]
WORDS += ["{", "}", "{x}", "{ab}", "[", "]", "^", "_", " ", "x", "1", "中", "\u2028", "-", "'", "!", "("]
WORDS += ["\\", "\\(", "\\item"]
plainer = st.lists(st.sampled_from(WORDS), max_size=12).map("".join)


@given(plainer | latex)
@settings(max_examples=300, deadline=None)
def test_the_quick_reading_of_a_plain_formula_is_that_of_the_parser(source: str) -> None:
    plain = plain_parts(source)
    assert plain is None or plain == parsed_parts(source)


def test_most_formulas_are_read_quickly() -> None:
    for source in (
        "\\frac{a}{b}+x^2_{ij}",
        "\\sqrt{x} \\left( \\alpha\\beta \\right)",
        "面积=\\text{长}\\times b",
    ):
        assert plain_parts(source) == parsed_parts(source)
    assert plain_parts("\\sqrt[3]{x}") is plain_parts("a & b") is None


def test_larger_formulas_equal_zss() -> None:
    rng = random.Random(5)
    for _ in range(4):
        gt, pred = (
            "".join(rng.choice(["x^2", "\\frac{a}{b}", "+", "y_{ij}"]) for _ in range(30)) for _ in range(2)
        )
        expected = simple_distance(as_zss(parse_latex_tree(gt)), as_zss(parse_latex_tree(pred)))
        assert formula_tree_score(gt, pred).distance == expected


@pytest.mark.parametrize(
    ("gt", "pred"),
    [
        ("x^2", "x^{2}"),
        ("$$x$$", "\\[ x \\]"),
        ("a \\, b", "ab"),
        ("{x}", "x"),
        ("x % note", "x"),
        ("\\frac12", "\\frac{1}{2}"),
    ],
)
def test_spellings_of_one_formula_are_equal(gt: str, pred: str) -> None:
    assert formula_tree_score(gt, pred).value == 1.0


def test_one_wrong_leaf_costs_its_share() -> None:
    assert formula_tree_score("\\frac{a}{b}", "\\frac{a}{c}").value == pytest.approx(2 / 3)


def test_moving_a_part_out_of_a_fraction_costs() -> None:
    assert formula_tree_score("\\frac{ab}{c}", "\\frac{a}{bc}").value < 1.0  # type: ignore[operator]


def test_empty_prediction_scores_worst_and_two_blanks_have_no_score() -> None:
    assert formula_tree_score("x", "").value == 0.0
    blank = formula_tree_score(" ", "$$ $$")
    assert (blank.value, blank.reason) == (None, "both formulas are blank")


@pytest.mark.parametrize(
    "hostile", ["{" * 5000, "\\left(" * 1000, "\\begin{a}" * 500, "$" * 15_000, "\\sqrt[" * 900, "_" * 3000]
)
def test_hostile_formulas_stay_bounded(hostile: str) -> None:
    score = formula_tree_score(hostile, "x")
    assert score.value is not None
    assert 0.0 <= score.value <= 1.0


def test_beyond_a_limit_there_is_a_reason_instead_of_a_value() -> None:
    for score in (formula_tree_score("x" * MAX_CHARS, "y"), formula_tree_score("x" * 9000, "y" * 9000)):
        assert score.value is None
        assert score.reason
