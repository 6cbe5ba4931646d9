"""One synthetic region crop, decided entirely by (kind, seed, split)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import get_args

from PIL import Image

from gravbench.errors import UsageError
from gravbench.records import Task
from gravbench.workshop.synth.formula_crop import draw_formula, plan_formula
from gravbench.workshop.synth.split import SPLITS, Split
from gravbench.workshop.synth.table_crop import draw_table, plan_table
from gravbench.workshop.synth.text_crop import draw_text, plan_text

KINDS: tuple[str, ...] = ("short", "line", "paragraph", "table", "formula")
GENERATOR = "synth-1"
"""Part of every seed; a change of what the generator draws gets a new name here."""


@dataclass(frozen=True, slots=True)
class Crop:
    """An image with its target.

    `image` has mode L, dark on light, both sides multiples of 16. `anchors` holds one entry per character
    of `text`: the centre (x, y) of its ink in image pixels, `None` where it has none of its own.
    """

    image: Image.Image
    text: str
    task: Task
    kind: str
    font: str
    anchors: tuple[tuple[float, float] | None, ...]


def render_crop(kind: str, seed: int, split: str = "train") -> Crop:
    """Draw the crop of this kind, seed and split; equal arguments give equal pixels and text."""
    checked = _checked_split(split)
    rng = random.Random(f"{GENERATOR}/{checked}/{kind}/{seed}")
    if kind == "table":
        table = plan_table(rng, checked)
        image, anchors = draw_table(rng, table)
        return Crop(image, table.html, "table", kind, table.face.name, tuple(anchors))
    if kind == "formula":
        formula = plan_formula(rng, checked)
        image, anchors = draw_formula(rng, formula)
        return Crop(image, formula.latex, "formula", kind, formula.font, tuple(anchors))
    if kind not in KINDS:
        raise UsageError(f"crop kind {kind!r}: expected one of {', '.join(KINDS)}")
    return _text_crop(rng, kind, checked, letters_only=False)


def render_letters(seed: int, split: str = "heldout") -> Crop:
    """A crop of kind `line` that shows letters and digits only, in groups no one can guess."""
    checked = _checked_split(split)
    rng = random.Random(f"{GENERATOR}/{checked}/letters/{seed}")
    return _text_crop(rng, "line", checked, letters_only=True)


def _text_crop(rng: random.Random, kind: str, split: Split, *, letters_only: bool) -> Crop:
    plan = plan_text(rng, kind, split, letters_only=letters_only)
    image, anchors = draw_text(rng, plan)
    return Crop(image, "\n".join(plan.lines), "text", kind, plan.face.name, tuple(anchors))


def _checked_split(split: str) -> Split:
    for known in SPLITS:
        if split == known:
            return known
    raise UsageError(f"split {split!r}: expected one of {', '.join(get_args(Split))}")
