"""Each token of a formula points at its own ink."""

import random
import unicodedata

import pytest

from gravbench.workshop.synth import render_crop, target_units
from gravbench.workshop.synth.formula import compose_formula
from gravbench.workshop.synth.formula_anchors import drawing_order, formula_anchors


def marks(latex: str) -> list[str]:
    tokens = target_units(latex)
    return [tokens[index] for _, index in drawing_order(tokens)]


@pytest.mark.parametrize(
    ("latex", "order"),
    [
        (r"x_{1}^{2}", ["x", "2", "1"]),
        (r"\sum_{i=0}^{n}a", ["n", "\\sum", "i", "=", "0", "a"]),
        (r"\int_{0}^{1}t", ["\\int", "1", "0", "t"]),
        (r"\frac{a}{b}", ["a", "\\frac", "b"]),
        (r"\sqrt[3]{x}", ["3", "\\sqrt", "\\sqrt", "x"]),
        (r"\left(\hat{a}\right)", ["(", "\\hat", "a", ")"]),
        (r"\log b", ["\\log"] * 3 + ["b"]),
    ],
)
def test_drawing_order_is_that_of_mathtext(latex: str, order: list[str]) -> None:
    assert marks(latex) == order


def test_letters_and_digits_meet_the_glyphs_that_mathtext_drew() -> None:
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import MathTextParser

    rng, met = random.Random(3), 0
    for _ in range(40):
        latex = compose_formula(rng)
        drawn = latex.replace("\\frac", "\\dfrac")
        font = FontProperties(size=24, math_fontfamily=rng.choice(("stix", "cm")))
        glyphs = MathTextParser("path").parse(f"${drawn}$", 72, font).glyphs
        tokens = target_units(latex)
        indices = [index for kind, index in drawing_order(tokens) if kind == "glyph"]
        for index, glyph in zip(indices, glyphs, strict=True):
            if tokens[index].isascii() and tokens[index].isalnum():
                assert unicodedata.normalize("NFKC", chr(glyph[2])) == tokens[index]
                met += 1
        assert formula_anchors(latex, drawn, font).count(None) < len(latex)
    assert met > 200


def test_structure_has_no_ink_and_symbols_have() -> None:
    for seed in range(20):
        crop = render_crop("formula", seed)
        position = 0
        for token in target_units(crop.text):
            inked = crop.anchors[position] is not None
            if token in ("{", "}", "^", "_", " ", "\\left", "\\right"):
                assert not inked
            elif token.isalnum():
                assert inked
            position += len(token)
