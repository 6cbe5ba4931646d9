"""Crops of kind `short`, `line` and `paragraph`."""

from __future__ import annotations

import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

from gravbench.workshop.synth.canvas import Anchors, develop, pick_wear, rotate_points, round_up
from gravbench.workshop.synth.content import compose, pick_style, random_letters
from gravbench.workshop.synth.fonts import Face, pick_face
from gravbench.workshop.synth.lettering import Pen, draw_line
from gravbench.workshop.synth.split import Split, split_of

MAX_WIDTH = {"short": 416, "line": 416, "paragraph": 400}
SMALLEST, LARGEST = 17, 26
_LARGEST_BY_LINES = {1: 26, 2: 26, 3: 24, 4: 21}


@dataclass(frozen=True, slots=True)
class TextPlan:
    """Text that fits: its lines, the pen that draws them and the margins around them, in pixels."""

    lines: tuple[str, ...]
    face: Face
    pen: Pen
    width: float


def plan_text(rng: random.Random, kind: str, split: Split, *, letters_only: bool = False) -> TextPlan:
    """Resample until the text fits the crop and its hash falls on the side of `split`."""
    while True:
        face = pick_face(rng, split)
        text = random_letters(rng) if letters_only else compose(rng, kind, pick_style(rng), split)
        lines = tuple(text.split("\n"))
        if split_of(text) != split or (kind == "paragraph" and len(lines) < 2):
            continue
        size = rng.randint(SMALLEST, _LARGEST_BY_LINES[len(lines)])
        plan = _fit(lines, face, size, MAX_WIDTH[kind] - 16)
        if plan is not None:
            return plan


def _fit(lines: tuple[str, ...], face: Face, size: int, limit: float) -> TextPlan | None:
    """The largest size up to `size` at which no line is wider than `limit`; None if even 17 is too large."""
    while size >= SMALLEST:
        pen = Pen(face.path, size, face.package)
        width = max(map(pen.width, lines))
        if width <= limit:
            return TextPlan(lines, face, pen, width)
        size = min(size - 1, int(size * limit / width))
    return None


def draw_text(rng: random.Random, plan: TextPlan) -> tuple[Image.Image, Anchors]:
    """Draw a plan; one anchor per character of the lines joined by newlines."""
    wear = pick_wear(rng)
    ascent, descent = plan.pen.extent()
    spacing = round(plan.pen.size * rng.uniform(1.12, 1.35))
    height = ascent + descent + spacing * (len(plan.lines) - 1)
    tilt = abs(wear.degrees) / 57.3 * plan.width / 2
    canvas = (round_up(plan.width + 8), round_up(height + 4 + 2 * tilt))
    mask = Image.new("L", canvas, 0)
    draw = ImageDraw.Draw(mask)
    x = 4 + rng.uniform(0, max(canvas[0] - plan.width - 8, 0))
    baseline = ascent + 2 + tilt + rng.uniform(0, max(canvas[1] - height - 4 - 2 * tilt, 0))
    anchors: Anchors = []
    for number, line in enumerate(plan.lines):
        if number:
            last = anchors[-1]
            anchors.append(
                None if last is None else (min(last[0] + plan.pen.size * 0.5, canvas[0] - 1), last[1])
            )
        anchors += draw_line(draw, plan.pen, line, round(x), round(baseline) + number * spacing)
    return develop(mask, wear, rng), rotate_points(anchors, wear.degrees, canvas)
