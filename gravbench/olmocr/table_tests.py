"""`table`: a cell with the right neighbours and headings, in any table of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rapidfuzz import fuzz

from gravbench.olmocr.page import PageText
from gravbench.olmocr.records import HEADINGS, TableTest
from gravbench.olmocr.rules import OverLimitError, PageError, Rules, Verdict, shorten
from gravbench.olmocr.table_graph import Place, TableGraph
from gravbench.olmocr.tables import Table
from gravbench.olmocr.text_tests import threshold_of

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
    best = max(best, compare.best(expected, (text for text in before if text.strip())), key=_ratio)
    if best[0] > 0:
        return best
    everything = [table.data[number][c] for number in range(r)] if top else table.data[r][:c]
    return compare.best(expected, (text for text in everything if text.strip()))


def _ratio(found: tuple[float, str | None]) -> float:
    return found[0]


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
