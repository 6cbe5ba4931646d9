"""Crops of kind `table`: a grid of short cells, sometimes with spans, its HTML, how it is ruled and drawn."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from PIL import Image, ImageDraw

from gravbench.workshop.synth.ink import (
    Anchors,
    Face,
    Pen,
    develop,
    draw_line,
    pick_face,
    pick_wear,
    rotate_points,
    round_up,
)
from gravbench.workshop.synth.language import Split, proper_names, short_words, split_of, target_units

_NAMES = (
    "Rossi",
    "Novak",
    "Brandt",
    "Moreau",
    "Tanaka",
    "Okafor",
    "Iyer",
    "Zhao",
    "Dunne",
    "Jensen",
    "Petrov",
    "Abbott",
)
_HEADS = (
    "Item",
    "Year",
    "Total",
    "Price",
    "Name",
    "Unit",
    "Mean",
    "Rate",
    "Model",
    "Size",
    "Group",
    "Date",
    "Code",
    "Count",
    "Score",
    "Mass",
    "Area",
    "Time",
    "Type",
    "Cost",
    "Share",
    "Age",
    "City",
    "Width",
    "Length",
    "Speed",
    "Power",
    "Region",
    "Sales",
    "Tax",
    "Net",
    "Qty",
    "Max",
    "Min",
    "Day",
    "Month",
    "Note",
    "Value",
    "Test",
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell at its top-left grid position. `text` may be empty; it never needs HTML escaping."""

    row: int
    column: int
    text: str
    rowspan: int = 1
    colspan: int = 1
    header: bool = False
    numeric: bool = False


@dataclass(frozen=True, slots=True)
class TableText:
    """Cells in reading order over `rows` x `columns`; together they cover every grid position once."""

    rows: int
    columns: int
    cells: tuple[Cell, ...]

    @property
    def spans(self) -> bool:
        """Whether any cell covers more than one grid position."""
        return any(cell.rowspan > 1 or cell.colspan > 1 for cell in self.cells)

    def html(self) -> str:
        """Compact HTML without whitespace between tags."""
        parts = ["<table>"]
        for row in range(self.rows):
            parts.append("<tr>")
            for cell in self.cells:
                if cell.row == row:
                    parts += (opening_tag(cell), cell.text, "</td>")
            parts.append("</tr>")
        return "".join((*parts, "</table>"))


def opening_tag(cell: Cell) -> str:
    """`<td>` with the span attribute that the cell needs; a cell spans in one direction only."""
    if cell.colspan > 1:
        return f'<td colspan="{cell.colspan}">'
    return f'<td rowspan="{cell.rowspan}">' if cell.rowspan > 1 else "<td>"


def compose_table(rng: random.Random) -> TableText:
    """2 to 5 rows by 2 to 4 columns; about a quarter with one span, about one body cell in sixteen empty."""
    rows, columns = rng.randint(2, 5), rng.randint(2, 4)
    has_header = rng.random() < 0.85
    makers = [rng.choice(_LABELS if column == 0 else _COLUMNS) for column in range(columns)]
    longest = 9 if columns < 4 else 7
    cells: list[Cell] = []
    for row in range(rows):
        for column, (make, numeric) in enumerate(makers):
            if row == 0 and has_header:
                blank = column == 0 and rng.random() < 0.1
                cells.append(Cell(row, column, "" if blank else _fitting(rng, _header, longest), header=True))
            else:
                text = "" if rng.random() < 0.06 else _fitting(rng, make, longest)
                cells.append(Cell(row, column, text, numeric=numeric))
    table = TableText(rows, columns, tuple(cells))
    return _with_span(rng, table, has_header) if rng.random() < 0.25 else table


def _fitting(rng: random.Random, make: Callable[[random.Random], str], longest: int) -> str:
    while True:
        text = make(rng)
        if len(text) <= longest:
            return text


def _with_span(rng: random.Random, table: TableText, has_header: bool) -> TableText:
    """Merge a run of cells: across columns anywhere, or down rows so that each row keeps a cell."""
    if rng.random() < 0.55 or table.rows < 3:
        width = rng.randint(2, table.columns)
        row = 0 if has_header and rng.random() < 0.7 else rng.randrange(table.rows)
        return _merge(table, row, rng.randint(0, table.columns - width), 1, width)
    first = 1 if has_header else 0
    height = rng.randint(2, min(3, table.rows - first)) if table.rows - first >= 2 else 1
    column = 0 if rng.random() < 0.6 else rng.randrange(table.columns)
    return _merge(table, rng.randint(first, table.rows - height), column, height, 1)


def _merge(table: TableText, row: int, column: int, height: int, width: int) -> TableText:
    kept: list[Cell] = []
    for cell in table.cells:
        inside = row <= cell.row < row + height and column <= cell.column < column + width
        if not inside:
            kept.append(cell)
        elif (cell.row, cell.column) == (row, column):
            kept.append(replace(cell, rowspan=height, colspan=width))
    return replace(table, cells=tuple(kept))


def _header(rng: random.Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(_HEADS)
    word = rng.choice(short_words())
    return rng.choice((word, word.capitalize(), word.capitalize(), word.upper()))


def _word(rng: random.Random) -> str:
    word = rng.choice(short_words())
    return word.capitalize() if rng.random() < 0.5 else word


def _label(rng: random.Random) -> str:
    return rng.choice((rng.choice(_NAMES), rng.choice(proper_names()), _word(rng)))


def _code(rng: random.Random) -> str:
    letters = "".join(rng.choices(string.ascii_uppercase, k=rng.randint(1, 2)))
    return letters + rng.choice(("-", "", ".", "/")) + str(rng.randint(1, 999))


def _letters(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(1, 6)))


def _integer(rng: random.Random) -> str:
    value = rng.randint(0, 10 ** rng.randint(1, 5))
    return rng.choice((f"{value}", f"{value:,}", f"{value}"))


def _decimal(rng: random.Random) -> str:
    value = rng.uniform(0, 10 ** rng.randint(0, 3))
    sign = rng.choice(("", "", "", "-", "+"))
    return f"{sign}{value:.{rng.randint(1, 2)}f}"


def _percent(rng: random.Random) -> str:
    return f"{rng.uniform(0, 100):.{rng.randint(0, 1)}f}%"


def _money(rng: random.Random) -> str:
    return rng.choice("$€") + f"{rng.uniform(0.5, 990):.2f}"


def _year(rng: random.Random) -> str:
    return str(rng.randint(1800, 2040))


def _date(rng: random.Random) -> str:
    return f"{rng.randint(1, 28):02}/{rng.randint(1, 12):02}/{rng.randint(0, 99):02}"[: rng.choice((5, 8))]


def _mixed(rng: random.Random) -> str:
    return rng.choice(
        ("–", "yes", "no", "n.a.", f"{rng.randint(1, 90)} × {rng.randint(1, 9)}", f"{rng.randint(1, 90)} °C")
    )


_Column = tuple[Callable[[random.Random], str], bool]
_LABELS: tuple[_Column, ...] = (
    (_label, False),
    (_label, False),
    (_word, False),
    (_code, False),
    (_year, False),
)
_COLUMNS: tuple[_Column, ...] = (
    (_word, False),
    (_word, False),
    (_code, False),
    (_letters, False),
    (_mixed, False),
    (_integer, True),
    (_integer, True),
    (_decimal, True),
    (_decimal, True),
    (_percent, True),
    (_money, True),
    (_date, False),
)


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


def plan_table(rng: random.Random, split: Split, *, faces: Sequence[Face] | None = None) -> TablePlan:
    """Resample until the table fits the crop, has 25 to 110 target units and its hash is of `split`."""
    while True:
        text = compose_table(rng)
        html = text.html()
        if split_of(html) != split or not MIN_UNITS <= len(target_units(html)) <= MAX_UNITS:
            continue
        face = rng.choice(faces) if faces else pick_face(rng, split)
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
