"""Crops of kind `table`: ruled, partly ruled and borderless."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from PIL import Image, ImageDraw

from gravbench.workshop.synth.canvas import Anchors, develop, pick_wear, rotate_points, round_up
from gravbench.workshop.synth.charset import target_units
from gravbench.workshop.synth.fonts import Face, pick_face
from gravbench.workshop.synth.lettering import Pen, draw_line
from gravbench.workshop.synth.split import Split, split_of
from gravbench.workshop.synth.table_content import Cell, TableText, compose_table, opening_tag

MAX_WIDTH, MAX_HEIGHT = 400, 208
SMALLEST, LARGEST = 16, 20
MIN_UNITS, MAX_UNITS = 25, 110
Rules = Literal["grid", "rows", "booktabs", "header", "none"]


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A table that fits: grid lines at `xs` and `ys` (pixels from its corner), pens and ruling."""

    text: TableText
    html: str
    face: Face
    pen: Pen
    bold: Pen
    xs: tuple[int, ...]
    ys: tuple[int, ...]
    pad: int
    rules: Rules
    align: str
    shaded: bool


def plan_table(rng: random.Random, split: Split) -> TablePlan:
    """Resample until the table fits the crop, has 25 to 110 target units and its hash is of `split`."""
    while True:
        text = compose_table(rng)
        html = text.html()
        if split_of(html) != split or not MIN_UNITS <= len(target_units(html)) <= MAX_UNITS:
            continue
        face = pick_face(rng, split)
        plan = _fit(rng, text, html, face)
        if plan is not None:
            return plan


def _fit(rng: random.Random, text: TableText, html: str, face: Face) -> TablePlan | None:
    ruled: tuple[Rules, ...] = ("grid", "grid", "grid", "rows", "booktabs", "header", "none")
    rules: Rules = "grid" if text.spans else rng.choice(ruled)
    bold = rng.random() < 0.5
    pad = rng.randint(5, 9) if rules == "grid" else rng.randint(8, 13)
    leading = rng.uniform(1.35, 1.8)
    shaded = rules == "grid" and rng.random() < 0.25
    align = rng.choice(("left", "left", "center"))
    for size in range(rng.randint(SMALLEST, LARGEST), SMALLEST - 1, -1):
        pen = Pen(face.path, size, face.package)
        heavy = Pen(face.bold, size, face.package) if bold and face.bold else pen
        xs = _column_lines(text, pen, heavy, pad)
        ys = tuple(round(size * leading) * row for row in range(text.rows + 1))
        if xs is not None and xs[-1] <= MAX_WIDTH - 10 and ys[-1] <= MAX_HEIGHT - 10:
            return TablePlan(text, html, face, pen, heavy, xs, ys, pad, rules, align, shaded)
    return None


def _column_lines(text: TableText, pen: Pen, bold: Pen, pad: int) -> tuple[int, ...] | None:
    """Column borders from the widest unspanned cell; None when a spanning cell would not fit."""
    widths = [24] * text.columns
    for cell in text.cells:
        if cell.colspan == 1:
            needed = round((bold if cell.header else pen).width(cell.text)) + 2 * pad
            widths[cell.column] = max(widths[cell.column], needed)
    xs = (0, *accumulate(widths))
    for cell in text.cells:
        room = xs[cell.column + cell.colspan] - xs[cell.column]
        if (bold if cell.header else pen).width(cell.text) + 2 * pad > room:
            return None
    return xs


def draw_table(rng: random.Random, plan: TablePlan) -> tuple[Image.Image, Anchors]:
    """Draw a plan; one anchor per character of its HTML, None for the characters of tags."""
    wear = pick_wear(rng, max_degrees=0.6)
    canvas = (round_up(plan.xs[-1] + 8), round_up(plan.ys[-1] + 8))
    mask = Image.new("L", canvas, 0)
    draw = ImageDraw.Draw(mask)
    left = rng.randint(3, canvas[0] - plan.xs[-1] - 4)
    top = rng.randint(3, canvas[1] - plan.ys[-1] - 4)
    anchors = ink_table(draw, plan, left, top, rng=rng)
    return develop(mask, wear, rng), rotate_points(anchors, wear.degrees, canvas)


def ink_table(
    draw: ImageDraw.ImageDraw, plan: TablePlan, left: int, top: int, *, rng: random.Random
) -> Anchors:
    """Draw rules and cells of a plan onto an ink mask, its corner at (left, top); anchors as `draw_table`."""
    _draw_rules(draw, plan, left, top, thick=rng.choice((1, 1, 2)), level=rng.randint(120, 255))
    anchors: Anchors = [None] * len("<table>")
    for row in range(plan.text.rows):
        anchors += [None] * len("<tr>")
        for cell in plan.text.cells:
            if cell.row == row:
                anchors += [None] * len(opening_tag(cell))
                anchors += _draw_cell(draw, plan, cell, left, top)
                anchors += [None] * len("</td>")
        anchors += [None] * len("</tr>")
    anchors += [None] * len("</table>")
    return anchors


def _draw_cell(draw: ImageDraw.ImageDraw, plan: TablePlan, cell: Cell, left: int, top: int) -> Anchors:
    if not cell.text:
        return []
    pen = plan.bold if cell.header else plan.pen
    x0, x1 = plan.xs[cell.column], plan.xs[cell.column + cell.colspan]
    y0, y1 = plan.ys[cell.row], plan.ys[cell.row + cell.rowspan]
    slack = x1 - x0 - 2 * plan.pad - pen.width(cell.text)
    centred = plan.align == "center" or cell.colspan > 1
    shift = slack / 2 if centred else slack if cell.numeric else 0.0
    ascent, descent = pen.extent()
    baseline = (y0 + y1 + ascent - descent) / 2
    return draw_line(draw, pen, cell.text, round(left + x0 + plan.pad + shift), round(top + baseline))


def _draw_rules(
    draw: ImageDraw.ImageDraw, plan: TablePlan, left: int, top: int, *, thick: int, level: int
) -> None:
    right, bottom = left + plan.xs[-1], top + plan.ys[-1]
    if plan.shaded:
        draw.rectangle((left, top, right, top + plan.ys[1]), fill=32)
    if plan.rules == "grid":
        for cell in plan.text.cells:
            box = (
                left + plan.xs[cell.column],
                top + plan.ys[cell.row],
                left + plan.xs[cell.column + cell.colspan],
                top + plan.ys[cell.row + cell.rowspan],
            )
            draw.rectangle(box, outline=level, width=1)
        if thick > 1:
            draw.rectangle((left, top, right, bottom), outline=level, width=thick)
        return
    last = plan.text.rows
    by_rules: dict[str, tuple[int, ...]] = {
        "rows": tuple(range(last + 1)),
        "booktabs": (0, 1, last),
        "header": (1,),
        "none": (),
    }
    for index in by_rules[plan.rules]:
        y = top + plan.ys[index]
        draw.line((left, y, right, y), fill=level, width=thick if index in (0, last) else 1)
