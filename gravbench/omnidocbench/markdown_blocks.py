r"""Markup inside Markdown: outermost balanced `<table>` and `tabular` blocks, and text inside HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement

OFFICIAL_MAX_UNCLOSED = 980
"""The official scorer recurses once for each table that never closes and dies near Python's limit of 1000."""


class PredictionCrashError(Exception):
    """This prediction would crash the official scorer; it is scored worst, with this reason."""


@dataclass(frozen=True, slots=True)
class BlockSyntax:
    """How a kind of block is delimited.

    Quirk: the official scanner advances by the lengths of its regular expressions, not of what they match:
    `skip` characters behind an opening's start, `span` behind a closing's start (one too many for tabular:
    the character behind `\\end{tabular}` belongs to the block), `restart` behind an unclosed opening.
    """

    opening: str
    closing: str
    skip: int
    span: int
    restart: int
    needs: str = ""
    """Text that must follow an opening somewhere for it to count (the `>` of a tag)."""


TABULAR = BlockSyntax("\\begin{tabular}", "\\end{tabular}", skip=14, span=14, restart=16)
HTML_TABLE = BlockSyntax("<table", "</table>", skip=8, span=8, restart=16, needs=">")


@dataclass(frozen=True, slots=True)
class _Closed:
    start: int
    end: int
    enclosing: int


def _scan(text: str, syntax: BlockSyntax, begin: int) -> tuple[list[_Closed], list[int], list[int]]:
    """Closed blocks, starts of openings that never close, and starts of all delimiters, from `begin` on."""
    closed: list[_Closed] = []
    stack: list[int] = []
    seen: list[int] = []
    last = text.rfind(syntax.needs) - len(syntax.opening) if syntax.needs else len(text)
    beyond = len(text) + 1
    position = begin
    opening = closing = -1
    while True:
        if opening < position:
            opening = text.find(syntax.opening, position)
            opening = beyond if opening < 0 or opening > last else opening
        if closing < position:
            closing = text.find(syntax.closing, position)
            closing = beyond if closing < 0 else closing
        if opening == closing == beyond:
            return closed, stack, seen
        seen.append(min(opening, closing))
        if opening < closing:
            stack.append(opening)
            position = opening + syntax.skip
            continue
        position = closing + syntax.span
        if stack:
            start = stack.pop()
            closed.append(_Closed(start, position, len(stack)))


def outermost_blocks(text: str, syntax: BlockSyntax) -> list[tuple[int, int]]:
    """Ranges of the outermost complete blocks; openings that never close hide nothing inside them.

    The official scanner starts again `restart` characters behind the first unclosed opening. One scan serves
    all restarts unless a delimiter lies within those characters.
    """
    found: list[tuple[int, int]] = []
    begin, depth = 0, 0
    while True:
        closed, unclosed, seen = _scan(text, syntax, begin)
        depth += len(unclosed)
        if depth > OFFICIAL_MAX_UNCLOSED:
            raise PredictionCrashError(f"{depth} {syntax.opening} that never close: recursion limit")
        swallowing = _first_swallowing(unclosed, seen, syntax)
        closed.sort(key=lambda block: block.start)
        outside = 0
        for block in closed:
            while outside < len(unclosed) and unclosed[outside] < block.start:
                outside += 1
            if swallowing is not None and block.start > swallowing:
                break
            if block.enclosing == outside:
                found.append((block.start, min(block.end, len(text))))
        if swallowing is None:
            return found
        depth -= sum(start > swallowing for start in unclosed)
        begin = swallowing + syntax.restart


def _first_swallowing(unclosed: list[int], seen: list[int], syntax: BlockSyntax) -> int | None:
    """First unclosed opening whose restart jumps over a delimiter."""
    index = 0
    for start in unclosed:
        while seen[index] <= start:
            index += 1
            if index == len(seen):
                return None
        if seen[index] < start + syntax.restart:
            return start
    return None


class Finder:
    """Next occurrence of `needle` at or behind a position; positions must not decrease from call to call."""

    def __init__(self, text: str, needle: str) -> None:
        self._text = text
        self._needle = needle
        self._known = -1

    def at(self, position: int) -> int | None:
        """Index of the next occurrence; None when there is none."""
        if self._known < position:
            found = self._text.find(self._needle, position)
            self._known = len(self._text) + 1 if found < 0 else found
        return self._known if self._known <= len(self._text) else None


def blanked(text: str, ranges: list[tuple[int, int]]) -> str:
    """`text` with the given ranges overwritten by as many blanks; ranges may lie inside others."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(ranges):
        pieces += (text[done:start], " " * (end - max(start, done)))
        done = max(done, end)
    return "".join((*pieces, text[done:]))


_DIV = re.compile(r"<(div|dir)\b", re.IGNORECASE)
_DROPPED_TAGS = frozenset({"style", "script"})
_INLINE_TAGS = frozenset({"span", "font", "b", "strong", "i", "em", "u", "a", "sup", "sub"})
_BLOCK_TAGS = frozenset({"div", "dir", "p", "li"})
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_NOT_PLAIN = re.compile(r"&|<!|<\?|<script|<style", re.IGNORECASE)
_ARITHMETIC = re.compile(r"[=+\-×÷/≈]|\\times|\\div|\\approx")


class _Open:
    """A tag being read. `ends_line`: its last direct string is a line end; inline tags inside are no tags."""

    __slots__ = ("children", "ends_line", "name")

    def __init__(self, name: str, children: Iterator[PageElement]) -> None:
        self.name = name
        self.children = children
        self.ends_line = False


def _shown_text(soup: BeautifulSoup) -> str:
    """Text of a tree: styles and scripts dropped, `br` and the ends of block tags as line ends.

    A block that already ends in a line end gets no second one. Iterative, so nesting depth costs nothing.
    """
    from bs4.element import CData, NavigableString, Tag

    pieces: list[str] = []
    stack = [_Open("", iter(soup.contents))]
    blocks = [stack[0]]  # enclosing tags that are not inline, innermost last
    while stack:
        node = next(stack[-1].children, None)
        if node is None:
            closed = stack.pop()
            if closed.name in _INLINE_TAGS:
                continue
            blocks.pop()
            if closed.name in _BLOCK_TAGS and not closed.ends_line:
                pieces.append("\n")
        elif not isinstance(node, Tag):
            blocks[-1].ends_line = str(node) == "\n"
            if type(node) in (NavigableString, CData):
                pieces.append(str(node))
        elif node.name == "br":
            # what html.parser puts inside a br goes with it
            blocks[-1].ends_line = True
            pieces.append("\n")
        elif node.name not in _DROPPED_TAGS:
            stack.append(_Open(node.name, iter(node.contents)))
            if node.name not in _INLINE_TAGS:
                blocks[-1].ends_line = False
                blocks.append(stack[-1])
    return "".join(pieces)


def flattened(text: str) -> str:
    """A paragraph that begins with `<div` or `<dir` and holds no table, as the text it shows."""
    stripped = text.strip()
    if not _DIV.match(stripped) or "<table" in stripped.lower():
        return stripped
    from bs4 import BeautifulSoup, ParserRejectedMarkup  # here and below: slow to import, and rarely needed

    try:
        soup = BeautifulSoup(stripped, "html.parser")
    except (ParserRejectedMarkup, ValueError) as error:
        why = str(error).strip().rsplit("\n", 1)[-1].strip()
        raise PredictionCrashError(f"html.parser refuses a <div> paragraph: {why}") from error
    shown = _shown_text(soup).replace("\xa0", " ")
    shown = re.sub(r"[ \t]*\n[ \t]*", "\n", shown)
    return "\n".join(line.strip() for line in shown.split("\n") if line.strip()) or stripped


def cell_texts(table: str) -> list[str]:
    """Text of every td and th in document order, nested ones included, whitespace collapsed.

    Empty when nothing outside the tags could be an arithmetic operator, which spares most tables a parse.
    """
    if not _NOT_PLAIN.search(table) and not _ARITHMETIC.search(_TAG.sub("", table)):
        return []
    from bs4 import BeautifulSoup, ParserRejectedMarkup

    try:
        soup = BeautifulSoup(table, "html.parser")
    except (ParserRejectedMarkup, ValueError):
        return []  # the table stays a table; it offers no cell as a formula
    return [" ".join(cell.get_text(separator=" ").split()) for cell in soup.find_all(["td", "th"])]
