"""What a synthetic page holds: texts of one split; lines, tables, formulas and figures as ink masks."""

from __future__ import annotations

import functools
import math
import random
import string
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from gravbench.workshop.synth.ink import Face, Pen, draw_line
from gravbench.workshop.synth.language import Split, proper_names, short_words, split_of, words
from gravbench.workshop.synth.table import TablePlan, ink_table
from gravbench.workshop.synth.text import compose

Lines = tuple[str, ...]
LONGEST_LINE = 36


def fitting(
    rng: random.Random, make: Callable[[random.Random], str], *, pen: Pen, width: float, split: Split
) -> Lines:
    """Draw texts until one is of `split`, with no line over 36 characters or wider than `width`."""
    while True:
        text = make(rng)
        lines = tuple(text.split("\n"))
        fits = all(len(line) <= LONGEST_LINE and pen.width(line) <= width for line in lines)
        if fits and split_of(text) == split:
            return lines


def paragraph(rng: random.Random, split: Split) -> str:
    """Two to four lines of prose; one in eight of names and numbers."""
    while True:
        text = compose(rng, "paragraph", "items" if rng.random() < 0.125 else "prose", split)
        if "\n" in text:
            return text


def long_paragraph(rng: random.Random, split: Split) -> str:
    """Four lines of prose: enough to be cut in two."""
    while True:
        text = compose(rng, "paragraph", "prose", split)
        if text.count("\n") == 3:
            return text


def title(rng: random.Random, split: Split) -> str:
    """A numbered or plain heading of one line."""
    text = compose(rng, "short", "prose", split).rstrip(".,;:").capitalize()
    return f"{rng.randint(1, 9)}. {text}" if rng.random() < 0.4 else text


def header(rng: random.Random) -> str:
    """A running head."""
    return f"{rng.choice(proper_names())} {rng.choice(words())} {rng.randint(1900, 2030)}"


def caption(rng: random.Random, kind: str) -> str:
    """`Table 3: two or three words`."""
    return f"{kind} {rng.randint(1, 9)}: {' '.join(rng.choices(short_words(), k=rng.randint(2, 3)))}"


def code(rng: random.Random) -> str:
    """Three or four lines of a made-up program, indented by two blanks."""
    name, step = rng.choice(short_words()), rng.choice(short_words())
    low, high = rng.randint(0, 9), rng.randint(10, 99)
    lines = [
        f"def {name}({step}):",
        f"  total = {low}",
        f"  for i in range({high}):",
        f"  return total + {step}",
    ]
    return "\n".join(lines if rng.random() < 0.5 else lines[:2] + lines[3:])


def references(rng: random.Random) -> str:
    """Two or three entries of a list of references, one line each."""
    first = rng.randint(1, 60)
    entries = []
    for number in range(rng.randint(2, 3)):
        author = f"{rng.choice(string.ascii_uppercase)}. {rng.choice(proper_names())}"
        entries.append(f"[{first + number}] {author}, {rng.choice(words())}, {rng.randint(1950, 2026)}.")
    return "\n".join(entries)


def shuffled(rng: random.Random, lines: Sequence[str]) -> Lines:
    """The words of `lines` in random order, set again no longer than the longest line was."""
    tokens = " ".join(lines).split()
    rng.shuffle(tokens)
    width = max(map(len, lines))
    return tuple(textwrap.wrap(" ".join(tokens), width, break_long_words=False, break_on_hyphens=False))


Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Inline:
    """A formula inside a line: line number, its LaTeX, and the text before and after it in that line."""

    line: int
    latex: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Piece:
    """An ink mask (mode L, 255 = ink) cut to its content. `spans` are boxes of inline formulas in it."""

    mask: Image.Image
    spans: tuple[tuple[str, Box], ...] = ()


def text_piece(
    lines: Sequence[str], pen: Pen, *, spacing: int, inline: Inline | None = None, font: str = "cm"
) -> Piece:
    """Lines of text, `spacing` pixels from baseline to baseline; `inline` replaces the words of its line."""
    ascent, descent = pen.extent()
    widths = [pen.width(line) for line in lines]
    ink: Image.Image | None = None
    depth = 0
    if inline is not None:
        ink, depth = inline_ink(inline.latex, font, pen.size)
        widths[inline.line] = pen.width(inline.before) + ink.width + pen.width(inline.after) + 2
    top = ascent + 1 if ink is None else max(ascent + 1, ink.height - depth + 1)
    height = top + max(descent, depth) + 2 + spacing * (len(lines) - 1)
    mask = Image.new("L", (math.ceil(max(widths)) + 3, height), 0)
    draw = ImageDraw.Draw(mask)
    spans: list[tuple[str, Box]] = []
    for number, line in enumerate(lines):
        baseline = top + number * spacing
        if inline is None or ink is None or number != inline.line:
            draw_line(draw, pen, line, 1, baseline)
            continue
        draw_line(draw, pen, inline.before, 1, baseline)
        x = round(1 + pen.width(inline.before))
        y = baseline + depth - ink.height
        mask.paste(ink, (x, y))
        draw_line(draw, pen, inline.after, x + ink.width + 1, baseline)
        spans.append((inline.latex, (x, y, x + ink.width, y + ink.height)))
    return Piece(mask, tuple(spans))


@functools.cache
def _parser() -> Any:
    from matplotlib.mathtext import MathTextParser

    return MathTextParser("agg")


def inline_ink(latex: str, font: str, size: int) -> tuple[Image.Image, int]:
    """Ink mask of an inline formula in text size, and how far it reaches below the baseline, in pixels."""
    from matplotlib.font_manager import FontProperties

    raster = _parser().parse(f"${latex}$", 72, FontProperties(size=size, math_fontfamily=font))
    image = Image.fromarray(np.asarray(raster.image).astype(np.uint8))
    box = image.getbbox()
    if box is None:
        return Image.new("L", (1, 1), 0), 0
    below = max(0, box[3] - (image.height - round(raster.depth)))
    return image.crop((box[0], box[1], box[2], box[3])), below


def table_piece(plan: TablePlan, rng: random.Random) -> Piece:
    """A planned table."""
    mask = Image.new("L", (plan.xs[-1] + 3, plan.ys[-1] + 3), 0)
    ink_table(ImageDraw.Draw(mask), plan, 1, 1, rng=rng)
    return Piece(mask)


def formula_piece(ink: Image.Image) -> Piece:
    """A display formula from its ink."""
    mask = Image.new("L", (ink.width + 2, ink.height + 2), 0)
    mask.paste(ink, (1, 1))
    return Piece(mask)


def figure_piece(rng: random.Random, width: int) -> Piece:
    """A framed plot of random bars; it holds no text."""
    height = rng.randint(90, 130)
    mask = Image.new("L", (width, height), 0)
    draw = ImageDraw.Draw(mask)
    draw.rectangle((0, 0, width - 1, height - 1), outline=200)
    count = rng.randint(5, 9)
    step = (width - 20) / count
    for bar in range(count):
        tall = rng.uniform(0.15, 0.85) * height
        left = round(10 + bar * step)
        draw.rectangle((left, round(height - 6 - tall), round(left + step * 0.6), height - 6), fill=110)
    return Piece(mask)


def pen_of(face: Face, size: int, *, bold: bool = False) -> Pen:
    """The face's pen, its bold one where it has one."""
    path = face.bold if bold and face.bold else face.path
    return Pen(path, size, face.package)
