"""Text inside HTML: `div` blocks flattened, table cells read (bs4 with the `html.parser` builder)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gravbench.omnidocbench.markdown.blocks import PredictionCrashError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement

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
