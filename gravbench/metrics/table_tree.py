"""Table in normal form -> the ordered tree TEDS compares (OmniDocBench v1.6, section "TEDS").

The tree of a cell ends at the cell: what is nested in it becomes tokens of its content, one for each
character and one for each tag, coded as the characters of one string so that edit distances run on
strings. Nested elements still count in `n_nodes`, the denominator of TEDS.
"""

from __future__ import annotations

from dataclasses import dataclass

from lxml import etree
from lxml import html as lxml_html

from gravbench.metrics.html_repair import repair_html

# Tags nested in cells are coded as characters of the last private plane; real text does not use it.
_FIRST_TAG_CODE = 0x100000
_LAST_TAG_CODE = 0x10FFFD


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """What renaming compares: tag, spans (cells only) and the content tokens of a cell."""

    tag: str
    colspan: int | None = None
    rowspan: int | None = None
    content: str = ""


@dataclass(frozen=True, slots=True)
class TableTree:
    """A table in postorder. `leftmost[i]` is the postorder index of the leftmost leaf below node i.

    `n_nodes` counts all descendant elements of the table, nested ones in cells included, the table not.
    """

    labels: tuple[NodeLabel, ...]
    leftmost: tuple[int, ...]
    n_nodes: int


class TagCodes:
    """One private character per nested tag name and direction; shared by the two trees of a pair."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}

    def code(self, tag: str) -> str:
        """The character that stands for `tag` ("<b>" or "</b>"); the last one is shared when all are used."""
        code = self._codes.get(tag)
        if code is None:
            code = chr(min(_FIRST_TAG_CODE + len(self._codes), _LAST_TAG_CODE))
            self._codes[tag] = code
        return code


def find_table(source: str) -> lxml_html.HtmlElement | None:
    """The first `body/table` of `source`, or `None`; raises lxml's ParserError on an empty document."""
    parser = lxml_html.HTMLParser(remove_comments=True, remove_pis=True)
    document = lxml_html.fromstring(repair_html(source), parser=parser)
    tables = document.findall("body/table")
    return tables[0] if tables else None


def build_tree(table: lxml_html.HtmlElement, codes: TagCodes) -> TableTree:
    """Postorder arrays of `table`; raises ValueError for a span that is not an integer, as officially."""
    labels: list[NodeLabel] = []
    leftmost: list[int] = []
    # (element, postorder index at which its subtree began); an element is pushed again to be closed.
    stack: list[tuple[lxml_html.HtmlElement, int | None]] = [(table, None)]
    while stack:
        element, first = stack.pop()
        if first is not None:
            labels.append(NodeLabel(_tag(element)))
            leftmost.append(first)
        elif _tag(element) == "td":
            leftmost.append(len(labels))
            labels.append(_cell_label(element, codes))
        else:
            stack.append((element, len(labels)))
            stack.extend((child, None) for child in reversed(element))
    n_nodes = sum(1 for _ in table.iter(etree.Element)) - 1
    return TableTree(tuple(labels), tuple(leftmost), n_nodes)


def _tag(element: lxml_html.HtmlElement) -> str:
    """Tag without its prefix: the official parser turns `x:td` into `td`."""
    tag = str(element.tag)
    prefix, _, local = tag.partition(":")
    return local if prefix and local else tag


def _cell_label(cell: lxml_html.HtmlElement, codes: TagCodes) -> NodeLabel:
    colspan, rowspan = (int(cell.get(name, "1")) for name in ("colspan", "rowspan"))
    return NodeLabel("td", colspan, rowspan, _content(cell, codes))


def _content(cell: lxml_html.HtmlElement, codes: TagCodes) -> str:
    """Characters and tag codes inside `cell`. The tail of a nested td is lost, as officially."""
    pieces = [cell.text or ""]
    stack: list[tuple[lxml_html.HtmlElement, bool]] = [(child, False) for child in reversed(cell)]
    while stack:
        element, closing = stack.pop()
        tag = _tag(element)
        if not closing:
            pieces += (codes.code(f"<{tag}>"), element.text or "")
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element))
            continue
        if tag != "unk":
            pieces.append(codes.code(f"</{tag}>"))
        if tag != "td":
            pieces.append(element.tail or "")
    return "".join(pieces)
