"""What surrounds a formula, and the cleaned-up form of matrices."""

from __future__ import annotations

import pytest

from gravbench.omnidocbench.cdm.score import CdmPair
from gravbench.omnidocbench.formula_text import cdm_spelling, matrix_variants, strip_delimiters, strip_tags


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("$$x$$", "x"),
        ("  $ x $ ", "x"),
        (r"\[ x \]", "x"),
        (r"\( x \)", "x"),
        (r"\[ \( x \) \]", "x"),
        (r"$$ \[x\] $$", "x"),
        (r"x \tag{1}", "x"),
        (r"x \tag * {a{b}c} y", "x  y"),
        (r"x \tagform{1}", r"x \tagform{1}"),
        (r"x \tag{1", r"x {1"),
        (r"x \notag\nonumber", "x"),
        (r"\tag x", r"\tag x"),
        ("", ""),
        ("$$$$", ""),
    ],
)
def test_wrappers_and_tags_go(text: str, formula: str) -> None:
    assert cdm_spelling(text) == formula


def test_fence_keeps_what_stands_inside() -> None:
    assert cdm_spelling("so:\n```latex\n$$x$$\n```\nbye", fenced=True) == "x"
    assert cdm_spelling("x", fenced=True) == "x"


def test_fences_are_looked_for_in_predictions_only() -> None:
    assert CdmPair.of("```latex x", "```latex y", "$z$") == CdmPair("```latex x", "y", "z")


def test_delimiters_are_peeled_until_none_is_left() -> None:
    assert strip_delimiters(r" $$ \[ $x$ \] $$ ") == "x"
    assert strip_delimiters("$$") == ""
    assert strip_delimiters(r"\[x") == r"\[x"


def test_tags_inside_stay_balanced() -> None:
    assert strip_tags(r"a\tag{1}b\tag*{2}c") == "abc"


@pytest.mark.parametrize(
    ("gt", "pred", "expected"),
    [
        ("$$x$$", "$$y$$", ("x", "")),
        ("", "", ("", "")),
        (r"\[x\tag{1}\]", "", ("x", "")),
        # cells lose their braces and fonts
        (
            r"\begin{pmatrix}a&b\end{pmatrix}",
            r"\begin{pmatrix}{a}&{\mathbf{b}}\\ \end{pmatrix}",
            (r"\begin{pmatrix}a&b\end{pmatrix}", r"\begin{pmatrix}a&b\end{pmatrix}"),
        ),
        # nothing to clean up, no second prediction
        (
            r"\begin{matrix}a\end{matrix}",
            r"\begin{matrix}a\end{matrix}",
            (r"\begin{matrix}a\end{matrix}", ""),
        ),
        # a ground truth without columns is repaired
        (r"\begin{array}{ }a&b\end{array}", "x", (r"\begin{array}{l}a&b\end{array}", "")),
        # one column of matrices becomes a row
        (
            r"\begin{bmatrix}1\end{bmatrix}",
            r"\begin{array}{l}\begin{bmatrix}1\end{bmatrix}\\\begin{bmatrix}2\end{bmatrix}\end{array}",
            (
                r"\begin{bmatrix}1\end{bmatrix}",
                r"\begin{bmatrix}1\end{bmatrix} \qquad \begin{bmatrix}2\end{bmatrix}",
            ),
        ),
        # an aligned around one matrix goes
        (
            r"\begin{vmatrix}1\end{vmatrix}",
            r"\begin{aligned}&\begin{vmatrix}1\end{vmatrix}\\ \end{aligned}",
            (r"\begin{vmatrix}1\end{vmatrix}", r"\begin{vmatrix}1\end{vmatrix}"),
        ),
        (
            r"\begin{vmatrix}1\end{vmatrix}",
            r"{\operatorname{det} \dfrac{a}{b}}",
            (r"\begin{vmatrix}1\end{vmatrix}", r"\det \frac{a}{b}"),
        ),
    ],
)
def test_matrices_are_also_scored_cleaned_up(gt: str, pred: str, expected: tuple[str, str]) -> None:
    variants = matrix_variants(gt, pred)
    assert (variants.truth, variants.alternative) == expected
