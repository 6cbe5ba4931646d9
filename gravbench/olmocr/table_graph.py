"""Tables of a page by the newer rules: cells on a grid, and which cells are next to which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from bs4.element import Tag

from gravbench.olmocr.rules import OverLimitError
from gravbench.olmocr.tables import MAX_CELLS, Visits, cell_text, has_tables, markdown_rows, parse_html

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
