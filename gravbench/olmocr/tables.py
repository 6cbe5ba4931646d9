"""Tables of a page by the release rules: rows of texts, and which texts head which row or column.

Header indices are true column numbers, data columns are those after the parser's shifts; the official program
uses them together as they are, and so do we.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bs4 import BeautifulSoup
from bs4.element import NavigableString, PageElement, Tag

from gravbench.olmocr.page import OverLimitError, PageError

MAX_TAGS = 1_000_000
"""`<` of a page with tables."""
MAX_RESCANS = 2_000_000_000
"""Characters that unclosed declarations and tags may make the parser read again and again."""
MAX_VISITS = 5_000_000
"""Elements and texts visited while a page's tables are read; nested ones are visited again and again."""


def has_tables(raw: str) -> bool:
    """Whether the parser can find a table at all."""
    return "<table" in raw.lower()


def parse_html(raw: str) -> BeautifulSoup:
    """The page as BeautifulSoup's `html.parser` reads it. Raises OverLimitError, by counts."""
    tags = raw.count("<")
    if tags > MAX_TAGS:
        raise OverLimitError(f"{tags} tags on a page, more than {MAX_TAGS}")
    tail = len(raw) - raw.rfind(">")
    rescans = (raw.count("<!") + raw.count("<?")) * len(raw) + raw.count("<", raw.rfind(">") + 1) * tail
    if rescans > MAX_RESCANS:
        raise OverLimitError("unclosed declarations or tags that the HTML parser would read again too often")
    return BeautifulSoup(raw, "html.parser")


class Visits:
    """Walks over one page, counted together."""

    def __init__(self) -> None:
        self._left = MAX_VISITS

    def spend(self, visits: int) -> None:
        self._left -= visits
        if self._left < 0:
            raise OverLimitError(f"reading the tables of a page takes more than {MAX_VISITS} visits")

    def below(self, tag: Tag, names: frozenset[str]) -> Iterator[Tag]:
        """Elements of these names inside `tag`, in document order."""
        for element in tag.descendants:
            self.spend(1)
            if isinstance(element, Tag) and element.name in names:
                yield element


def cell_text(cell: Tag, visits: Visits) -> str:
    """Text without separators, `br` as a line end, stripped."""
    contents = cell.contents
    if len(contents) == 1 and type(contents[0]) is NavigableString:
        return contents[0].strip()
    for line_break in list(visits.below(cell, frozenset(["br"]))):
        line_break.replace_with("\n")
    return cell.get_text().strip()


MAX_CELLS = 2_000_000
"""Places that the cells of a table and their spans may take, padding included."""
_RULE = re.compile(r"[\s:|-]*")
_ROW = frozenset(["tr"])
_CELL = frozenset(["th", "td"])

Headers = dict[int, list[tuple[int, str]]]


@dataclass(slots=True)
class Table:
    """`data`: padded rows. `col_headers[c]`: (row, text); `row_headers[r]`: (column, text)."""

    data: list[list[str]] = field(default_factory=list)
    header_rows: set[int] = field(default_factory=set)
    header_cols: set[int] = field(default_factory=set)
    col_headers: Headers = field(default_factory=lambda: defaultdict(list))
    row_headers: Headers = field(default_factory=lambda: defaultdict(list))

    def to_record(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "header_rows": sorted(self.header_rows),
            "header_cols": sorted(self.header_cols),
            "col_headers": _headers_record(self.col_headers),
            "row_headers": _headers_record(self.row_headers),
        }


def _headers_record(headers: Headers) -> dict[str, list[list[Any]]]:
    return {str(key): [list(entry) for entry in found] for key, found in sorted(headers.items()) if found}


def markdown_rows(raw: str) -> list[list[list[str]]]:
    """Rows of cells of every pipe table: a run of at least two lines with a pipe."""
    tables = []
    run: list[str] = []
    for line in [*raw.strip().split("\n"), ""]:
        if "|" in line:
            run.append(line)
            continue
        if len(run) >= 2:
            rows = [_split(text) for text in run if not _RULE.fullmatch(text)]
            if rows := [row for row in rows if row]:
                tables.append(rows)
        run = []
    return tables


def _split(line: str) -> list[str]:
    """Cells between the pipes, less one empty cell at each end."""
    cells = [cell.strip() for cell in line.split("|")]
    if cells and not cells[0]:
        cells = cells[1:]
    if cells and not cells[-1]:
        cells = cells[:-1]
    return cells


def _pad(rows: list[list[str]]) -> list[list[str]]:
    width = max((len(row) for row in rows), default=0)
    if width * len(rows) > MAX_CELLS:
        raise OverLimitError(f"a table of {len(rows)} x {width} cells, more than {MAX_CELLS}")
    return [row + [""] * (width - len(row)) for row in rows]


def markdown_tables(raw: str) -> list[Table]:
    """Pipe tables; row 0 and column 0 are the headers."""
    tables = []
    for rows in markdown_rows(raw):
        table = Table(data=_pad(rows), header_rows={0}, header_cols={0})
        for column, text in enumerate(table.data[0]):
            table.col_headers[column].append((0, text))
        for number, row in enumerate(table.data[1:], start=1):
            table.row_headers[number].append((0, row[0]))
        tables.append(table)
    return tables


def html_tables(raw: str) -> list[Table]:
    """HTML tables in document order, nested ones too.

    Raises PageError where the official program throws: for a span that is not an integer, or one that leads
    out of the table on the left.
    """
    if not has_tables(raw):
        return []
    soup = parse_html(raw)
    budget, visits = _Budget(), Visits()
    found = []
    for element in visits.below(soup, frozenset(["table"])):
        rows = list(visits.below(element, _ROW))
        if rows:
            found.append(_Reader(element, rows, budget, visits).read())
    return found


class _Budget:
    """Places taken by cells and spans, over all tables of a page."""

    def __init__(self) -> None:
        self._left = MAX_CELLS

    def spend(self, places: int) -> None:
        self._left -= places
        if self._left < 0:
            raise OverLimitError(f"cells and spans of a page take more than {MAX_CELLS} places")


def _key(element: PageElement) -> Any:
    """Equal for rows that BeautifulSoup holds equal."""
    if isinstance(element, NavigableString):
        return str(element)
    if not isinstance(element, Tag):
        return element
    attributes = frozenset(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in element.attrs.items()
    )
    return element.name, attributes, tuple(_key(child) for child in element.contents)


def _span(cell: Tag, name: str) -> int:
    value = cell.get(name, "1")
    try:
        return int(str(value))
    except ValueError:
        raise PageError("ValueError", f'<{cell.name} {name}="{value}"> is not a whole number') from None


class _Reader:
    """One HTML table, row by row."""

    def __init__(self, element: Tag, rows: list[Tag], budget: _Budget, visits: Visits) -> None:
        self._element, self._rows, self._budget, self._visits = element, rows, budget, visits
        self._table = Table()
        self._grid: dict[tuple[int, int], str] = {}
        self._wide: dict[str, list[int]] = {}
        self._tall: dict[str, list[int]] = {}

    def read(self) -> Table:
        table = self._table
        self._mark_thead()
        rows = [self._row(number, row) for number, row in enumerate(self._rows)]
        self._budget.spend(max(map(len, rows)) * len(rows))
        table.data = _pad(rows)
        self._add_wide()
        self._add_tall()
        self._add_columns(rows)
        return table

    def _mark_thead(self) -> None:
        head = next(self._visits.below(self._element, frozenset(["thead"])), None)
        if head is None:
            return
        try:
            first: dict[Any, int] = {}
            for number, row in enumerate(self._rows):
                first.setdefault(_key(row), number)
            for row in self._visits.below(head, _ROW):
                self._table.header_rows.add(first[_key(row)])
        except RecursionError:
            raise OverLimitError("table rows nested too deeply to compare") from None

    def _row(self, r: int, row: Tag) -> list[str]:
        out: list[str] = []
        c = 0
        for cell in list(self._visits.below(row, _CELL)):
            while (r, c) in self._grid:
                out.append(self._grid[r, c])
                c += 1
            text = cell_text(cell, self._visits)
            rs, cs = _span(cell, "rowspan"), _span(cell, "colspan")
            out.append(text)
            rows = range(r, min(r + rs, len(self._rows)))
            self._budget.spend(1 + len(rows) * max(0, cs))
            for i in rows:
                for j in range(c, c + cs):
                    if (i, j) != (r, c):
                        self._grid[i, j] = text if j == c else ""
            if cell.name == "th":
                self._heading(r, c, rs, cs, text)
            elif rs > 1 and c in self._table.header_cols:
                for i in rows[1:]:
                    self._table.row_headers[i].append((c, text))
            c += cs
        return out

    def _heading(self, r: int, c: int, rs: int, cs: int, text: str) -> None:
        table = self._table
        table.header_rows.add(r)
        table.header_rows.update(range(r + 1, min(r + rs, len(self._rows))))
        columns = range(c, c + cs)
        table.header_cols.update(columns)
        for column in columns:
            table.col_headers[column].append((r, text))
        if text and cs > 1:
            self._wide.setdefault(text, []).extend(columns)
        if text and rs > 1:
            self._tall.setdefault(text, []).extend(range(r, min(r + rs, len(self._rows))))

    def _add_wide(self) -> None:
        """A heading over several columns also heads every column to its right, if any row is not a header."""
        table = self._table
        width = len(table.data[0])
        if all(number in table.header_rows for number in range(len(table.data))):
            return
        texts = {column: {text for _, text in found} for column, found in table.col_headers.items()}
        self._budget.spend(len(self._wide) * width)
        for text, columns in self._wide.items():
            for column in range(min(columns), width):
                known = texts.setdefault(column, set())
                if text not in known:
                    known.add(text)
                    table.col_headers[column].append((0, text))

    def _add_tall(self) -> None:
        table = self._table
        texts = {number: {text for _, text in found} for number, found in table.row_headers.items()}
        for text, rows in self._tall.items():
            for number in rows:
                known = texts.setdefault(number, set())
                if text not in known:
                    known.add(text)
                    table.row_headers[number].append((0, text))

    def _add_columns(self, rows: list[list[str]]) -> None:
        """Cells of header columns head their rows, header rows included.

        A negative colspan can leave a heading in front of the table: such a column counts from a row's end,
        and the official program throws where the row is shorter.
        """
        table = self._table
        texts = {number: {text for _, text in found} for number, found in table.row_headers.items()}
        width = len(table.data[0])
        for column in sorted(column for column in table.header_cols if column < width):
            for number, row in enumerate(rows):
                if column < -len(row):
                    detail = f"a heading stands in column {column}, and row {number} has {len(row)} cells"
                    raise PageError("IndexError", detail)
                if column < len(row) and row[column].strip():
                    known = texts.setdefault(number, set())
                    if row[column] not in known:
                        known.add(row[column])
                        table.row_headers[number].append((column, row[column]))
