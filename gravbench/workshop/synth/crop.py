"""One synthetic region crop, decided by (kind, seed, split): as printed, as users bring it, or shuffled.

Faulty crops are turned, worn, compressed, inverted, in other fonts or twice as wide. A pair holds a line of
prose and the same words in random order, drawn alike: to tell reading from guessing.
"""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from gravbench.errors import UsageError
from gravbench.records import Task
from gravbench.workshop.synth.formula import draw_formula, plan_formula
from gravbench.workshop.synth.ink import (
    ROBUST_HELDOUT_FACES,
    ROBUST_TRAIN_FACES,
    Face,
    pick_face,
    rotate_points,
    round_up,
)
from gravbench.workshop.synth.language import SPLITS, Split, split_of
from gravbench.workshop.synth.page_pieces import pen_of
from gravbench.workshop.synth.table import draw_table, plan_table
from gravbench.workshop.synth.text import MAX_WIDTH, TextPlan, compose, draw_text, plan_text

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


FAULTY_GENERATOR = "robust-1"
"""Part of every seed; a change of what is drawn gets a new name here."""


def render_robust(fault: str, kind: str, seed: int, split: Split) -> Crop:
    """The crop of this fault, kind, seed and split; equal arguments give equal pixels and text.

    `font` draws text and tables, `wide` one line (of kind `long`); the other faults spoil any kind of crop.
    """
    rng = random.Random(f"{FAULTY_GENERATOR}/{split}/{fault}/{kind}/{seed}")
    if fault in _SPOILERS:
        return _SPOILERS[fault](render_crop(kind, rng.getrandbits(48), split), rng)
    if fault == "wide":
        return _text(rng, "long", split)
    if fault != "font" or kind == "formula":
        raise UsageError(f"fault {fault!r} of kind {kind!r}: expected one of {', '.join(FAULTS)}")
    if kind != "table":
        return _text(rng, kind, split, other_faces=True)
    table = plan_table(rng, split, faces=_faces(split))
    image, anchors = draw_table(rng, table)
    return Crop(image, table.html, "table", kind, table.face.name, tuple(anchors))


def _faces(split: Split) -> tuple[Face, ...]:
    return ROBUST_HELDOUT_FACES if split == "heldout" else ROBUST_TRAIN_FACES


def _text(rng: random.Random, kind: str, split: Split, *, other_faces: bool = False) -> Crop:
    faces = _faces(split) if other_faces else None
    plan = plan_text(rng, kind, split, faces=faces)
    while kind == "long" and plan.width <= MAX_WIDTH["line"]:
        plan = plan_text(rng, kind, split, faces=faces)
    image, anchors = draw_text(rng, plan)
    return Crop(image, "\n".join(plan.lines), "text", kind, plan.face.name, tuple(anchors))


def paper_of(image: Image.Image) -> int:
    """Grey level of the paper: the median of the border."""
    grey = np.asarray(image)
    border = np.concatenate([grey[0], grey[-1], grey[:, 0], grey[:, -1]])
    return int(np.median(border))


def _rotated(crop: Crop, rng: random.Random) -> Crop:
    """Turned by 1.5 to 3 degrees either way on a sheet large enough to lose nothing."""
    degrees = rng.uniform(1.5, 3.0) * rng.choice((-1, 1))
    width, height = crop.image.size
    sine = math.sin(math.radians(abs(degrees)))
    sheet = (round_up(width + height * sine), round_up(height + width * sine))
    x, y = (sheet[0] - width) // 2, (sheet[1] - height) // 2
    paper = paper_of(crop.image)
    image = Image.new("L", sheet, paper)
    image.paste(crop.image, (x, y))
    image = image.rotate(degrees, resample=Image.Resampling.BICUBIC, fillcolor=paper)
    moved = [None if a is None else (a[0] + x, a[1] + y) for a in crop.anchors]
    return replace(crop, image=image, anchors=tuple(rotate_points(moved, degrees, sheet)))


def _worn(crop: Crop, rng: random.Random) -> Crop:
    """Light blur (Gaussian, 0.6 to 1 pixels), then noise (deviation 5 to 10 grey levels)."""
    blurred = crop.image.filter(ImageFilter.GaussianBlur(rng.uniform(0.6, 1.0)))
    generator = np.random.Generator(np.random.PCG64(rng.getrandbits(63)))
    noise = generator.standard_normal((blurred.height, blurred.width), dtype=np.float32)
    grey = np.asarray(blurred, dtype=np.float32) + np.float32(rng.uniform(5.0, 10.0)) * noise
    return replace(crop, image=Image.fromarray(np.clip(np.rint(grey), 0, 255).astype(np.uint8)))


def _jpeg(crop: Crop, rng: random.Random) -> Crop:
    """Through JPEG of quality 15 to 40."""
    file = io.BytesIO()
    crop.image.save(file, format="JPEG", quality=rng.randint(15, 40))
    return replace(crop, image=Image.open(file).convert("L"))


def _inverse(crop: Crop, _: random.Random) -> Crop:
    """Light on dark."""
    return replace(crop, image=ImageOps.invert(crop.image))


_SPOILERS: dict[str, Callable[[Crop, random.Random], Crop]] = {
    "rotated": _rotated,
    "worn": _worn,
    "jpeg": _jpeg,
    "inverse": _inverse,
}
FAULTS: tuple[str, ...] = (*_SPOILERS, "font", "wide")


def faults_of(kind: str) -> tuple[str, ...]:
    """Faults that training draws for a kind of crop; a wide line counts among the lines."""
    extra = {"formula": (), "line": ("font", "wide", "wide")}
    return (*_SPOILERS, *extra.get(kind, ("font",)))
