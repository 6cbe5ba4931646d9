"""Crops of kind `formula`, set by matplotlib's mathtext (imported when the first formula is drawn)."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gravbench.workshop.synth.canvas import Anchors, develop, pick_wear, round_up
from gravbench.workshop.synth.charset import target_units
from gravbench.workshop.synth.formula_content import compose_formula
from gravbench.workshop.synth.split import Split, split_of

MAX_WIDTH, MAX_HEIGHT = 320, 112
SMALLEST, LARGEST = 20, 27
MIN_UNITS, MAX_UNITS = 4, 52
FONT_SETS: tuple[str, ...] = ("cm", "cm", "stix", "dejavusans", "dejavuserif")


@dataclass(frozen=True, slots=True)
class FormulaPlan:
    """A formula that fits: its LaTeX, the mathtext font set and its ink mask (mode L)."""

    latex: str
    font: str
    ink: Image.Image


@functools.cache
def _parser() -> Any:
    from matplotlib.mathtext import MathTextParser

    return MathTextParser("agg")


@functools.cache
def _properties(font: str, size: int) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size, math_fontfamily=font)


def ink_of(latex: str, font: str, size: int) -> Image.Image:
    """Ink mask of a formula cut to its ink; `size` is the font size in pixels (72 dots an inch)."""
    drawn = latex.replace("\\frac", "\\dfrac")  # display size, else scripts in fractions are a few pixels
    raster = _parser().parse(f"${drawn}$", 72, _properties(font, size))
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
            ink = ink_of(latex, font, size * (MAX_WIDTH - 10) // ink.width)
        if ink.width <= MAX_WIDTH - 10 and ink.height <= MAX_HEIGHT - 8:
            return FormulaPlan(latex, f"mathtext-{font}", ink)


def draw_formula(rng: random.Random, plan: FormulaPlan) -> tuple[Image.Image, Anchors]:
    """Place a plan on its crop. Anchors are None: mathtext does not say which token drew which ink."""
    wear = pick_wear(rng)
    canvas = (round_up(plan.ink.width + 8), max(32, round_up(plan.ink.height + 6)))
    mask = Image.new("L", canvas, 0)
    x = rng.randint(3, canvas[0] - plan.ink.width - 3)
    y = rng.randint(2, canvas[1] - plan.ink.height - 2)
    mask.paste(plan.ink, (x, y))
    return develop(mask, wear, rng), [None] * len(plan.latex)
