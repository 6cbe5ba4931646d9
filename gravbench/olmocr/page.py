"""One page of Markdown with everything that more than one test asks for, computed once."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gravbench.olmocr.rules import Rules, normalize

if TYPE_CHECKING:
    from gravbench.olmocr.table_graph import TableGraph
    from gravbench.olmocr.tables import Table


DELIMITERS = (("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$"), ("$", "$"))
"""In this order; the matches of one pair are cut out before the next is looked for."""


def _cut(text: str, opening: str, closing: str) -> tuple[list[str], str]:
    """Shortest contents of at least one character, left to right, and the text without them."""
    found, kept = [], []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        inner = start + len(opening)
        end = text.find(closing, inner + 1)
        if end < 0:  # then no later opening is closed either
            break
        found.append(text[inner:end])
        kept.append(text[position:start])
        position = end + len(closing)
    kept.append(text[position:])
    return found, "".join(kept)


def delimited_equations(page: str) -> list[tuple[str, list[str]]]:
    """Equations of the raw page, stripped, by opening delimiter and in the official order.

    The dollar forms come last, so leaving them out changes nothing for the others.
    """
    equations = []
    for opening, closing in DELIMITERS:
        found, page = _cut(page, opening, closing)
        equations.append((opening, [equation.strip() for equation in found]))
    return equations


class PageText:
    """`raw` as read (universal newlines), `text` normalised by the rules."""

    def __init__(self, raw: str, rules: Rules) -> None:
        self.raw = raw
        self.rules = rules
        self._cells: dict[str, str] = {}

    @cached_property
    def text(self) -> str:
        return normalize(self.raw, self.rules)

    @cached_property
    def lower_text(self) -> str:
        return self.text.lower()

    @cached_property
    def delimited(self) -> list[tuple[str, list[str]]]:
        """Equations of the raw page by opening delimiter, in the official order."""
        return delimited_equations(self.raw)

    @cached_property
    def _all_equations(self) -> list[str]:
        return [equation for _, found in self.delimited for equation in found]

    @cached_property
    def _without_dollars(self) -> list[str]:
        return [equation for opening, found in self.delimited if "$" not in opening for equation in found]

    def equations(self, *, ignore_dollars: bool) -> list[str]:
        return self._without_dollars if ignore_dollars else self._all_equations

    def cell(self, text: str) -> str:
        """A table cell, normalised."""
        found = self._cells.get(text)
        if found is None:
            found = self._cells[text] = normalize(text, self.rules)
        return found

    @cached_property
    def markdown_tables(self) -> list[Table]:
        from gravbench.olmocr.tables import markdown_tables

        return markdown_tables(self.raw)

    @cached_property
    def html_tables(self) -> list[Table]:
        from gravbench.olmocr.tables import html_tables

        return html_tables(self.raw)

    @cached_property
    def markdown_graphs(self) -> list[TableGraph]:
        from gravbench.olmocr.table_graph import markdown_graphs

        return markdown_graphs(self.raw)

    @cached_property
    def html_graphs(self) -> list[TableGraph]:
        from gravbench.olmocr.table_graph import html_graphs

        return html_graphs(self.raw)
