"""Crops of kind `formula`: a small LaTeX grammar with one canonical spelling for each formula, set by
matplotlib's mathtext (imported when the first formula is drawn).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gravbench.workshop.synth.formula_anchors import formula_anchors
from gravbench.workshop.synth.ink import Anchors, develop, pick_wear, rotate_points, round_up
from gravbench.workshop.synth.language import (
    ACCENTS,
    FUNCTIONS,
    GREEK,
    RELATIONS,
    Split,
    split_of,
    target_units,
)

Tokens = list[str]
_VARIABLES = "abcdefghijkmnpqrstuvwxyz"
_CAPITALS = "ABCDEFGHKLMNPQRSTUVWXYZ"
_FUNCTION_NAMES = "fghFGHPQ"


def spell(tokens: Sequence[str]) -> str:
    """Join tokens without spaces, except the one that parts a command from a following letter."""
    parts: list[str] = []
    for token in tokens:
        if parts and token[0].isalpha() and parts[-1][0] == "\\" and parts[-1][-1].isalpha():
            parts.append(" ")
        parts.append(token)
    return "".join(parts)


def compose_formula(rng: random.Random) -> str:
    """One formula of about 5 to 50 tokens in canonical spelling."""
    return spell(rng.choice(_SHAPES)(rng))


def _group(tokens: Tokens) -> Tokens:
    return ["{", *tokens, "}"]


def _number(rng: random.Random) -> Tokens:
    if rng.random() < 0.7:
        return [str(rng.randint(1, 9))]
    text = rng.choice((str(rng.randint(10, 99)), f"{rng.randint(0, 9)}.{rng.randint(1, 9)}"))
    return list(text)


def _index(rng: random.Random) -> Tokens:
    return list(str(rng.randint(1, 9) if rng.random() < 0.7 else rng.randint(10, 99)))


def _symbol(rng: random.Random) -> Tokens:
    roll = rng.random()
    if roll < 0.6:
        return [rng.choice(_VARIABLES)]
    if roll < 0.75:
        return [rng.choice(_CAPITALS)]
    return [rng.choice(GREEK)]


def _scripted(rng: random.Random) -> Tokens:
    """A symbol, perhaps with a subscript, a superscript, both or an accent."""
    base, roll = _symbol(rng), rng.random()
    if roll < 0.35:
        return base
    if roll < 0.43:
        return [rng.choice(ACCENTS), *_group([rng.choice(_VARIABLES.replace("i", "").replace("j", ""))])]
    low = _group(rng.choice((_index, _symbol))(rng))
    high = _group(rng.choice((["2"], ["3"], ["n"], ["-", "1"], [rng.choice(_VARIABLES)])))
    if roll < 0.66:
        return [*base, "^", *high]
    if roll < 0.9:
        return [*base, "_", *low]
    return [*base, "_", *low, "^", *high]


def _factor(rng: random.Random) -> Tokens:
    roll = rng.random()
    if roll < 0.7:
        return _scripted(rng)
    if roll < 0.8:
        return _number(rng)
    if roll < 0.9:
        return [rng.choice(FUNCTIONS[:6]), *_symbol(rng)]
    return [rng.choice(_FUNCTION_NAMES), "(", *_symbol(rng), ")"]


def _term(rng: random.Random) -> Tokens:
    """One factor, a coefficient before a factor, or a product of two."""
    roll = rng.random()
    if roll < 0.45:
        return _factor(rng)
    if roll < 0.75:
        return [*_number(rng), *_scripted(rng)]
    return [*_scripted(rng), *([rng.choice(("\\cdot", "\\times"))] if roll < 0.85 else []), *_scripted(rng)]


def _sum_of_terms(rng: random.Random, most: int = 3) -> Tokens:
    tokens = _term(rng)
    for _ in range(rng.randint(0, most - 1)):
        tokens = [*tokens, rng.choice(("+", "-", "+", "-", "\\pm")), *_term(rng)]
    return tokens


def _fraction(rng: random.Random) -> Tokens:
    return ["\\frac", *_group(_sum_of_terms(rng, 2)), *_group(_sum_of_terms(rng, 2))]


def _root(rng: random.Random) -> Tokens:
    index = ["[", str(rng.randint(3, 5)), "]"] if rng.random() < 0.25 else []
    return ["\\sqrt", *index, *_group(_sum_of_terms(rng, 2))]


def _big(rng: random.Random) -> Tokens:
    """A sum, product or integral with bounds, and its body."""
    body = rng.choice((_term, _term, _fraction))(rng)
    if rng.random() < 0.4:
        low = rng.choice((["0"], ["1"], ["a"], ["-", "\\infty"], ["-", "1"]))
        high = rng.choice((["1"], ["2"], ["b"], ["\\infty"], ["\\pi"], ["t"]))
        bounds = ["_", *_group(low), "^", *_group(high)] if rng.random() < 0.8 else []
        return ["\\int", *bounds, *body, "d", rng.choice("xtuyz")]
    index = rng.choice("ijkn")
    high = rng.choice((["n"], ["N"], ["m"], ["\\infty"], ["K"]))
    start = rng.choice(("0", "1", "2"))
    return [
        rng.choice(("\\sum", "\\sum", "\\prod")),
        "_",
        *_group([index, "=", start]),
        "^",
        *_group(high),
        *body,
    ]


def _fenced(rng: random.Random) -> Tokens:
    """Growing parentheses around something tall, plain ones around a flat sum; perhaps a power."""
    if rng.random() < 0.5:
        left, right = rng.choice((("(", ")"), ("[", "]")))
        inside = ["\\left", left, *_fraction(rng), "\\right", right]
    else:
        inside = ["(", *_sum_of_terms(rng, 2), ")"]
    return [*inside, "^", *_group([rng.choice("23n")])] if rng.random() < 0.5 else inside


def _limit(rng: random.Random) -> Tokens:
    variable = rng.choice("xhtn")
    target = rng.choice((["0"], ["\\infty"], ["a"], ["1"]))
    return ["\\lim", "_", *_group([variable, "\\to", *target]), *rng.choice((_fraction, _term))(rng)]


def _derivative(rng: random.Random) -> Tokens:
    sign = rng.choice(("d", "\\partial"))
    top, bottom = [sign, rng.choice("fuyvF")], [sign, rng.choice("xtyz")]
    if rng.random() < 0.3:
        top, bottom = [sign, "^", *_group(["2"]), *top[1:]], [*bottom, "^", *_group(["2"])]
    return ["\\frac", *_group(top), *_group(bottom)]


def _side(rng: random.Random) -> Tokens:
    shapes = (_sum_of_terms, _sum_of_terms, _fraction, _fraction, _root, _big, _fenced, _limit, _derivative)
    tokens = rng.choice(shapes)(rng)
    return [*tokens, rng.choice("+-"), *_term(rng)] if rng.random() < 0.3 else tokens


def _equation(rng: random.Random) -> Tokens:
    left = rng.choice((_scripted, _term, _function_call, _side))(rng)
    relation = rng.choice(("=", "=", "=", "=", "<", ">", *RELATIONS[:6], "\\propto"))
    return [*left, relation, *_side(rng)]


def _function_call(rng: random.Random) -> Tokens:
    prime = ["'"] if rng.random() < 0.2 else []
    arguments = [*_symbol(rng), ",", *_symbol(rng)] if rng.random() < 0.3 else _symbol(rng)
    return [rng.choice(_FUNCTION_NAMES), *prime, "(", *arguments, ")"]


def _sets(rng: random.Random) -> Tokens:
    a, b, c = rng.sample(_CAPITALS, 3)
    shapes = (
        [rng.choice(("\\forall", "\\exists")), rng.choice(_VARIABLES), "\\in", a],
        [a, rng.choice(("\\cup", "\\cap")), b, rng.choice(("=", "\\subset")), c],
        [rng.choice(_VARIABLES), "\\in", a, rng.choice(("\\cup", "\\cap")), b],
        [rng.choice(_FUNCTION_NAMES[:6]), ":", a, "\\to", b],
        [rng.choice("fg"), "\\circ", rng.choice("hk"), "=", *_symbol(rng)],
    )
    return rng.choice(shapes)


def _listing(rng: random.Random) -> Tokens:
    name = rng.choice(_VARIABLES)
    return [
        name,
        "_",
        *_group(["1"]),
        ",",
        name,
        "_",
        *_group(["2"]),
        ",",
        "\\ldots",
        ",",
        name,
        "_",
        *_group(["n"]),
    ]


def _bound(rng: random.Random) -> Tokens:
    variable = rng.choice("xyzt")
    name = rng.choice(("\\max", "\\min"))
    return [name, "(", *_symbol(rng), ",", *_term(rng), ")", rng.choice(RELATIONS[:2]), variable]


def _gradient(rng: random.Random) -> Tokens:
    return ["\\nabla", *rng.choice(([], ["\\cdot"], ["\\times"])), rng.choice("ABEFJfu"), "=", *_term(rng)]


_SHAPES: tuple[Callable[[random.Random], Tokens], ...] = (
    *(_equation,) * 10,
    *(_side,) * 6,
    _sum_of_terms,
    _sets,
    _sets,
    _listing,
    _bound,
    _gradient,
)


MAX_WIDTH, MAX_HEIGHT = 320, 112
SMALLEST, LARGEST = 20, 27
MIN_UNITS, MAX_UNITS = 4, 52
FONT_SETS: tuple[str, ...] = ("cm", "cm", "stix", "dejavusans", "dejavuserif")


@dataclass(frozen=True, slots=True)
class FormulaPlan:
    """A formula that fits: its LaTeX, the mathtext font set, its size and its ink mask (mode L)."""

    latex: str
    font: str
    size: int
    ink: Image.Image


@functools.cache
def _parser() -> Any:
    from matplotlib.mathtext import MathTextParser

    return MathTextParser("agg")


@functools.cache
def _properties(font: str, size: int) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, math_fontfamily=font)


def _displayed(latex: str) -> str:
    """Fractions in display size, else scripts in them are a few pixels."""
    return latex.replace("\\frac", "\\dfrac")


def ink_of(latex: str, font: str, size: int) -> Image.Image:
    """Ink mask of a formula cut to its ink; `size` is the font size in pixels (72 dots an inch)."""
    raster = _parser().parse(f"${_displayed(latex)}$", 72, _properties(font, size))
    image = Image.fromarray(np.asarray(raster.image).astype(np.uint8))
    return image.crop(image.getbbox())


def plan_formula(rng: random.Random, split: Split) -> FormulaPlan:
    """Resample until the formula fits the crop and its hash falls on the side of `split`."""
    while True:
        latex = compose_formula(rng)
        if split_of(latex) != split or not MIN_UNITS <= len(target_units(latex)) <= MAX_UNITS:
            continue
        font = rng.choice(FONT_SETS)
        size = rng.randint(SMALLEST, LARGEST)
        ink = ink_of(latex, font, size)
        if ink.width > MAX_WIDTH - 10 and size * (MAX_WIDTH - 10) // ink.width >= SMALLEST:
            size = size * (MAX_WIDTH - 10) // ink.width
            ink = ink_of(latex, font, size)
        if ink.width <= MAX_WIDTH - 10 and ink.height <= MAX_HEIGHT - 8:
            return FormulaPlan(latex, font, size, ink)


def draw_formula(rng: random.Random, plan: FormulaPlan) -> tuple[Image.Image, Anchors]:
    """Place a plan on its crop; one anchor per character of its LaTeX, None where a token has no ink."""
    wear = pick_wear(rng)
    canvas = (round_up(plan.ink.width + 8), max(32, round_up(plan.ink.height + 6)))
    mask = Image.new("L", canvas, 0)
    x = rng.randint(3, canvas[0] - plan.ink.width - 3)
    y = rng.randint(2, canvas[1] - plan.ink.height - 2)
    mask.paste(plan.ink, (x, y))
    found = formula_anchors(plan.latex, _displayed(plan.latex), _properties(plan.font, plan.size))
    anchors: Anchors = [None if a is None else (a[0] + x, a[1] + y) for a in found]
    return develop(mask, wear, rng), rotate_points(anchors, wear.degrees, canvas)
