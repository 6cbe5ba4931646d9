"""What tables say: a grid of short cells, sometimes with spans, and its HTML."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass, replace

from gravbench.workshop.synth.corpus_reader import proper_names, short_words

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
