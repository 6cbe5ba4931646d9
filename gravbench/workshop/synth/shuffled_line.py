"""A line of prose and the same words in random order, drawn alike: to tell reading from guessing."""

from __future__ import annotations

import random
from typing import Literal

from gravbench.workshop.synth.content import compose
from gravbench.workshop.synth.crop import Crop
from gravbench.workshop.synth.fonts import pick_face
from gravbench.workshop.synth.page_pieces import pen_of
from gravbench.workshop.synth.split import Split, split_of
from gravbench.workshop.synth.text_crop import TextPlan, draw_text

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
