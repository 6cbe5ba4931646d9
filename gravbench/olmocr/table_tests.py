"""`table`: a cell with the right neighbours and headings, in any table of the page.

The release looks into rows of texts, the newer state into a graph of cells and their neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import Any

from bs4.element import Tag
from rapidfuzz import fuzz

from gravbench.olmocr.page import OverLimitError, PageError, PageText, Rules, Verdict, shorten
from gravbench.olmocr.records import HEADINGS, TableTest
from gravbench.olmocr.tables import MAX_CELLS, Table, Visits, cell_text, has_tables, markdown_rows, parse_html
from gravbench.olmocr.text_tests import threshold_of

Place = tuple[int, int]
"""Row and column of a cell's top left corner: its name."""
Grid = Sequence[Mapping[int, Place]]
"""Rows of column -> the cell that lies there; holes are left out."""


@dataclass(frozen=True)
class TableGraph:
    """`cells` in reading order with their texts, `headings` among them, and where each lies."""

    cells: Mapping[Place, str]
    headings: frozenset[Place]
    grid: Grid

    @cached_property
    def _sideways(self) -> tuple[dict[Place, set[Place]], dict[Place, set[Place]]]:
        return _neighbours([row[column] for column in sorted(row)] for row in self.grid)

    @cached_property
    def _vertical(self) -> tuple[dict[Place, set[Place]], dict[Place, set[Place]]]:
        columns: dict[int, list[Place]] = defaultdict(list)
        for row in self.grid:
            for column, place in row.items():
                columns[column].append(place)
        return _neighbours(columns.values())

    def relation(self, name: str) -> Mapping[Place, set[Place]]:
        """Neighbours in a direction (up, down, left, right).

        The first other cell from each place a cell takes.
        """
        pair = self._vertical if name in ("up", "down") else self._sideways
        return pair[0] if name in ("up", "left") else pair[1]

    def headings_of(self, start: Place, direction: str, spend: Callable[[int], None]) -> set[Place]:
        """Heading cells met going up (or left) from `start`; without any, the cells where the way ends.

        `spend` is told of every step.
        """
        steps = self.relation(direction)
        seen = {start}
        pending = [start]
        headings, ends = set(), set()
        while pending:
            place = pending.pop()
            spend(1)
            if place != start and place in self.headings:
                headings.add(place)
            further = steps.get(place, set())
            if not further and place != start:
                ends.add(place)
            new = further - seen
            seen |= new
            pending += new
        return headings or ends

    def to_record(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "cells": [[*place, text] for place, text in self.cells.items()],
            "headings": [list(place) for place in sorted(self.headings)],
        }
        for name in ("up", "down", "left", "right"):
            found = self.relation(name)
            record[name] = [
                [list(place), [list(other) for other in sorted(found[place])]]
                for place in sorted(found)
                if found[place]
            ]
        return record


def _neighbours(
    lines: Iterable[Sequence[Place]],
) -> tuple[dict[Place, set[Place]], dict[Place, set[Place]]]:
    """Cell -> cells in front of and behind it, from lines of cells without holes."""
    front: dict[Place, set[Place]] = defaultdict(set)
    behind: dict[Place, set[Place]] = defaultdict(set)
    for line in lines:
        for before, after in pairwise(line):
            if before != after:
                front[after].add(before)
                behind[before].add(after)
    return front, behind


def markdown_graphs(raw: str) -> list[TableGraph]:
    """Pipe tables; every cell of row 0 and of column 0 is a heading."""
    graphs = []
    for rows in markdown_rows(raw):
        cells = {(r, c): text for r, row in enumerate(rows) for c, text in enumerate(row)}
        grid = [{c: (r, c) for c in range(len(row))} for r, row in enumerate(rows)]
        graphs.append(TableGraph(cells, frozenset(place for place in cells if 0 in place), grid))
    return graphs


def html_graphs(raw: str) -> list[TableGraph]:
    """HTML tables with at least one cell, in document order."""
    if not has_tables(raw):
        return []
    graphs = []
    left, visits = MAX_CELLS, Visits()
    for element in visits.below(parse_html(raw), frozenset(["table"])):
        rows = list(visits.below(element, frozenset(["tr"])))
        placing = _Placing(len(rows), left, visits)
        for row in rows:
            placing.add(
                [cell for cell in row.children if isinstance(cell, Tag) and cell.name in ("th", "td")]
            )
        placing.finish()
        left = placing.left
        if placing.cells:
            graphs.append(TableGraph(placing.cells, frozenset(placing.headings), placing.grid))
    return graphs


def _span(cell: Tag, name: str) -> int:
    """Rows or columns a cell takes: at least 1."""
    try:
        return max(1, int(str(cell.get(name, "1"))))
    except ValueError:
        return 1


class _Placing:
    """Cells put on the grid, row by row."""

    def __init__(self, n_rows: int, left: int, visits: Visits) -> None:
        self.cells: dict[Place, str] = {}
        self.headings: set[Place] = set()
        self.grid: list[dict[int, Place]] = []
        self.left = left
        self._n_rows, self._visits = n_rows, visits
        self._covered: dict[int, tuple[Place, int]] = {}  # column -> cell from above, rows it still takes

    def add(self, cells: Sequence[Tag]) -> None:
        """A row: cells from above keep their columns unless a cell that started to the left covers them."""
        r, c = len(self.grid), 0
        line: dict[int, Place] = {}
        from_above, self._covered = self._covered, {}
        for cell in cells:
            while c in from_above:
                self._keep(line, c, from_above.pop(c))
                c += 1
            place = (r, c)
            self.cells[place] = cell_text(cell, self._visits)
            if cell.name == "th" or cell.find_parent("thead") is not None:
                self.headings.add(place)
            to_end = str(cell.get("rowspan", "")).strip() == "0"
            rows = self._n_rows - r if to_end else _span(cell, "rowspan")
            columns = _span(cell, "colspan")
            self._spend(columns)
            for column in range(c, c + columns):
                from_above.pop(column, None)
                self._keep(line, column, (place, rows))
            c += columns
        for column, rest in from_above.items():
            self._keep(line, column, rest)
        self.grid.append(line)

    def _keep(self, line: dict[int, Place], column: int, cell: tuple[Place, int]) -> None:
        place, rows = cell
        line[column] = place
        if rows > 1:
            self._covered[column] = (place, rows - 1)

    def _spend(self, places: int) -> None:
        self.left -= places
        if self.left < 0:
            raise OverLimitError(f"cells and spans of a page take more than {MAX_CELLS} places")

    def finish(self) -> None:
        """Rows that only spans reach; rows alike are added once, more of them change no neighbour."""
        while self._covered:
            self._spend(len(self._covered))
            same = min(rows for _, rows in self._covered.values())
            self.grid.append({column: place for column, (place, _) in self._covered.items()})
            self._covered = {
                column: (place, rows - same) for column, (place, rows) in self._covered.items() if rows > same
            }


MAX_COMPARISONS = 5_000_000
"""Texts compared for one test."""
LEAST_RATIO = 0.5


class _Compare:
    """Similarity of one expected text to cells of the page, remembered, counted."""

    def __init__(self, test: TableTest, page: PageText) -> None:
        self._max_diffs = test.max_diffs
        self._page = page
        self._ratios: dict[tuple[str, str], float] = {}
        self._left = MAX_COMPARISONS

    def threshold(self, expected: str) -> float:
        return max(LEAST_RATIO, threshold_of(self._max_diffs, len(expected)))

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise OverLimitError(f"a table test compared more than {MAX_COMPARISONS} texts")

    def ratio(self, expected: str, cell: str) -> float:
        self.spend(1)
        key = (expected, cell)
        found = self._ratios.get(key)
        if found is None:
            found = self._ratios[key] = fuzz.ratio(expected, self._page.cell(cell)) / 100.0
        return found

    def best(self, expected: str, cells: Iterable[str]) -> tuple[float, str | None]:
        """The highest ratio and its cell; 0 and None when nothing is above 0."""
        best, nearest = 0.0, None
        for cell in cells:
            ratio = self.ratio(expected, cell)
            if ratio > best:
                best, nearest = ratio, cell
        return best, nearest


class _Failures:
    """The nearest miss of a test: what was found, and what its neighbours lacked."""

    def __init__(self, test: TableTest) -> None:
        self._test = test
        self.nearest: tuple[float, str] = (0.0, "")
        self.relations: list[str] = []

    def miss(self, ratio: float, text: str) -> None:
        if ratio > self.nearest[0]:
            self.nearest = (ratio, text)

    def relation(self, name: str, expected: str, found: tuple[float, str | None]) -> None:
        if len(self.relations) < 3:
            have = "nothing" if found[1] is None else f"{shorten(found[1])} ({found[0]:.4f})"
            self.relations.append(f"{name} should be {shorten(expected)}, nearest is {have}")

    def verdict(self, compare: _Compare) -> Verdict:
        cell = self._test.cell or ""
        if self.relations:
            return Verdict(False, "relation", f"{shorten(cell)}: {'; '.join(self.relations)}")
        ratio, text = self.nearest
        nearest = f"nearest {shorten(text)} has {ratio:.4f}" if ratio else "no cell is like it"
        limit = f"threshold {compare.threshold(cell):.4f}"
        return Verdict(False, "no-cell", f"no cell is {shorten(cell)}; {nearest}, {limit}")


def run_table(test: TableTest, page: PageText) -> Verdict:
    """Markdown tables first, then HTML tables; the first cell that matches with all its relations passes."""
    if test.cell is None:
        raise PageError("TypeError", "the test's cell is null")
    compare, failures = _Compare(test, page), _Failures(test)
    found = False
    if page.rules is Rules.MAIN:
        graphs = [] if test.ignore_markdown_tables else page.markdown_graphs
        for graph in (*graphs, *page.html_graphs):
            found = True
            if _in_graph(test, graph, compare, failures):
                return Verdict(True)
    else:
        tables = [] if test.ignore_markdown_tables else page.markdown_tables
        for table in (*tables, *page.html_tables):
            found = True
            if _in_table(test, table, compare, failures):
                return Verdict(True)
    if not found:
        return Verdict(False, "no-tables", "no Markdown or HTML table on the page")
    return failures.verdict(compare)


def _in_table(test: TableTest, table: Table, compare: _Compare, failures: _Failures) -> bool:
    assert test.cell is not None
    limit = compare.threshold(test.cell)
    heads: dict[tuple[str, int], tuple[float, str | None]] = {}
    for r, row in enumerate(table.data):
        for c, text in enumerate(row):
            ratio = compare.ratio(test.cell, text)
            if ratio < limit:
                failures.miss(ratio, text)
                continue
            if all(
                _holds(name, expected, table, (r, c), compare, heads, failures)
                for name, expected in test.relations.items()
            ):
                return True
    return False


def _holds(
    name: str,
    expected: str,
    table: Table,
    place: Place,
    compare: _Compare,
    heads: dict[tuple[str, int], tuple[float, str | None]],
    failures: _Failures,
) -> bool:
    """A relation of the release: direct neighbours (fulfilled at the table's edge) or headings."""
    r, c = place
    if name in HEADINGS:
        best = _best_heading(name, expected, table, place, compare, heads)
    else:
        row, column = {"up": (r - 1, c), "down": (r + 1, c), "left": (r, c - 1), "right": (r, c + 1)}[name]
        if not (0 <= row < len(table.data) and 0 <= column < len(table.data[row])):
            return True
        text = table.data[row][column]
        best = (compare.ratio(expected, text), text)
    if best[0] >= compare.threshold(expected):
        return True
    failures.relation(name, expected, best)
    return False


def _best_heading(
    name: str,
    expected: str,
    table: Table,
    place: Place,
    compare: _Compare,
    heads: dict[tuple[str, int], tuple[float, str | None]],
) -> tuple[float, str | None]:
    """Best among noted headers; failing these, among cells of header rows (columns) before the cell.

    And only if nothing was similar at all, among all cells before it.
    """
    r, c = place
    top = name == "top_heading"
    noted = table.col_headers.get(c, ()) if top else table.row_headers.get(r, ())
    key = (name, c if top else r)
    if key not in heads:
        heads[key] = compare.best(expected, (text for _, text in noted))
    best = heads[key]
    threshold = compare.threshold(expected)
    if best[0] >= threshold:
        return best
    if top:
        lines = sorted(number for number in table.header_rows if number < r)
        before = [table.data[number][c] for number in lines]
    else:
        lines = sorted(number for number in table.header_cols if number < c)
        before = [table.data[r][number] for number in lines]
    compare.spend(len(table.header_rows) if top else len(table.header_cols))
    best = max(best, compare.best(expected, (text for text in before if text.strip())), key=itemgetter(0))
    if best[0] > 0:
        return best
    everything = [table.data[number][c] for number in range(r)] if top else table.data[r][:c]
    return compare.best(expected, (text for text in everything if text.strip()))


def _in_graph(test: TableTest, graph: TableGraph, compare: _Compare, failures: _Failures) -> bool:
    """The newer rules: a relation holds if some neighbour is like the expected text; none at all fails."""
    assert test.cell is not None
    limit = compare.threshold(test.cell)
    for place, text in graph.cells.items():
        ratio = compare.ratio(test.cell, text)
        if ratio < limit:
            failures.miss(ratio, text)
            continue
        holds = True
        for name, expected in test.relations.items():
            best = compare.best(expected, _texts(graph, place, name, compare.spend))
            if best[0] < compare.threshold(expected):
                failures.relation(name, expected, best)
                holds = False
                break
        if holds:
            return True
    return False


def _texts(graph: TableGraph, place: Place, name: str, spend: Callable[[int], None]) -> list[str]:
    if name in HEADINGS:
        found = graph.headings_of(place, "up" if name == "top_heading" else "left", spend)
    else:
        found = graph.relation(name).get(place, set())
    return [graph.cells[other] for other in sorted(found)]
