"""What every test rests on: the state of the official rules, a page as these see it, and what is said of it.

A page of Markdown is normalised, cut and parsed once, whatever the number of its tests.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from gravbench.errors import DataError

if TYPE_CHECKING:
    from gravbench.olmocr.table_tests import TableGraph
    from gravbench.olmocr.tables import Table


class Rules(StrEnum):
    """Which state of the official program is followed; part of every signature."""

    RELEASE = "0.4.27"
    MAIN = "main-2026-03-25"


LIBRARIES = ("rapidfuzz", "beautifulsoup4", "lxml", "numpy")
"""Other people's code that verdicts rest on."""


def library_versions() -> dict[str, str]:
    """Library -> version of it on this machine; part of every signature."""
    return {name: version(name) for name in LIBRARIES}


_BREAK = re.compile(r"<br/?>")
_SPACES = re.compile(r"\s+")
_BOLD_STARS = re.compile(r"\*\*(.*?)\*\*")
_BOLD_BARS = re.compile(r"__(.*?)__")
_BOLD_TAG = re.compile(r"</?b>")
_ITALIC_TAG = re.compile(r"</?i>")
_ITALIC_STARS = re.compile(r"\*(.*?)\*")
_ITALIC_BARS = re.compile(r"_(.*?)_")
_BOLD_EITHER = re.compile(r"(\*\*|__)(.*?)\1")
_ITALIC_EITHER = re.compile(r"(\*|_)(.*?)\1")
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a", "'"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        "\uff3f": "_",
        **dict.fromkeys("\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u00b5": "\u03bc",
    }
)


def normalize(text: str, rules: Rules) -> str:
    """Test texts, pages and table cells as they are compared. Not trimmed.

    The newer state pairs emphasis marks line by line, the release after white space has been joined.
    """
    text = _BREAK.sub(" ", text)
    if rules is Rules.RELEASE:
        text = _SPACES.sub(" ", text)
    if "*" in text or "_" in text or "<" in text:
        text = _BOLD_STARS.sub(r"\1", text)
        text = _BOLD_BARS.sub(r"\1", text)
        text = _ITALIC_TAG.sub("", _BOLD_TAG.sub("", text))
        if rules is Rules.RELEASE:
            text = _ITALIC_STARS.sub(r"\1", text)
            text = _ITALIC_BARS.sub(r"\1", text)
        else:
            text = _BOLD_EITHER.sub(r"\2", text)
            text = _ITALIC_EITHER.sub(r"\2", text)
    if rules is Rules.MAIN:
        text = _SPACES.sub(" ", text)
    return unicodedata.normalize("NFC", text).translate(_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Passed or not.

    `why` is a short code of a failure, `detail` a sentence for people, `facts` numbers behind it.
    """

    passed: bool
    why: str | None = None
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def shorten(text: str, most: int = 60) -> str:
    """A text for a sentence: quoted, cut in the middle of nowhere but not silently."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


class TestRecordError(DataError):
    """A test that the official program refuses to load; `official` is the exception it raises."""

    __test__ = False

    def __init__(self, message: str, *, official: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.official = official


class PageError(Exception):
    """The official program throws on this page, which fails the whole candidate there."""

    def __init__(self, official: str, detail: str) -> None:
        super().__init__(f"{official}: {detail}")
        self.official = official
        self.detail = detail


class OverLimitError(Exception):
    """The input asks for more steps than we give; the official program has no bound at all."""


class UnscoredError(Exception):
    """A tool that the test needs is not here."""


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
        from gravbench.olmocr.table_tests import markdown_graphs

        return markdown_graphs(self.raw)

    @cached_property
    def html_graphs(self) -> list[TableGraph]:
        from gravbench.olmocr.table_tests import html_graphs

        return html_graphs(self.raw)
