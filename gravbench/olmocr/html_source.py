"""HTML of a page through the official parser, guarded against input on which that parser never ends."""

from __future__ import annotations

from collections.abc import Iterator

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag

from gravbench.olmocr.verdict import OverLimitError

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
