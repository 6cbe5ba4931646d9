"""One synthetic region crop, decided entirely by (kind, seed, split); and a line beside its shuffled words.

A pair holds a line of prose and the same words in random order, drawn alike: to tell reading from guessing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, get_args

from PIL import Image

from gravbench.errors import UsageError
from gravbench.records import Task
from gravbench.workshop.synth.formula import draw_formula, plan_formula
from gravbench.workshop.synth.lettering import pick_face
from gravbench.workshop.synth.page_pieces import pen_of
from gravbench.workshop.synth.sentences import SPLITS, Split, split_of
from gravbench.workshop.synth.table import draw_table, plan_table
from gravbench.workshop.synth.text import TextPlan, compose, draw_text, plan_text

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
        return Crop(image, formula.latex, "formula", kind, f"mathtext-{formula.font}", tuple(anchors))
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


WIDEST = 400
Variant = Literal["plain", "shuffled"]


def shuffled_pair(seed: int, split: Split = "heldout") -> tuple[tuple[Variant, Crop], tuple[Variant, Crop]]:
    """The line as written and shuffled, with one face, size and wear; at least four words."""
    rng = random.Random(f"shuffle-1/{split}/{seed}")
    face = pick_face(rng, split)
    while True:
        text = compose(rng, "line", "prose", split)
        tokens = text.split(" ")
        pen = pen_of(face, rng.randint(17, 22))
        if len(set(tokens)) < 4 or split_of(text) != split or pen.width(text) > WIDEST:
            continue
        other = list(tokens)
        while other == tokens:
            rng.shuffle(other)
        shuffled = " ".join(other)
        if pen.width(shuffled) <= WIDEST:
            break

    def draw(line: str) -> Crop:
        plan = TextPlan((line,), face, pen, pen.width(line))
        image, anchors = draw_text(random.Random(f"shuffle-1/{seed}/ink"), plan)
        return Crop(image, line, "text", "line", face.name, tuple(anchors))

    return ("plain", draw(text)), ("shuffled", draw(shuffled))
