"""TEDS of one table crop on raw HTML: the cost model of the OmniDocBench v1.6 scorer, computed by apted."""

from __future__ import annotations

from dataclasses import dataclass, field

from apted import APTED, Config
from lxml import etree, html
from rapidfuzz.distance import Levenshtein

SIGNATURE = "teds|costs:omnidocbench16|norm:none|agg:crop_mean|v:1"
WORST = 0.0


@dataclass
class Node:
    """An element; for `td` with its spans and its cell text as tokens (apted wants plain attributes)."""

    tag: str
    colspan: int = 1
    rowspan: int = 1
    content: list[str] = field(default_factory=list)
    children: list[Node] = field(default_factory=list)


class _Costs(Config):  # type: ignore[misc]
    """Insert 1, delete 1; rename 1 if tag or spans differ, else for `td` the NED of the cell tokens."""

    def rename(self, node1: Node, node2: Node) -> float:
        if (node1.tag, node1.colspan, node1.rowspan) != (node2.tag, node2.colspan, node2.rowspan):
            return 1.0
        if node1.tag != "td" or not (node1.content or node2.content):
            return 0.0
        edits = Levenshtein.distance(node1.content, node2.content)
        return edits / max(len(node1.content), len(node2.content))

    def children(self, node: Node) -> list[Node]:
        return node.children


def crop_teds(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
    """1 - tree edit distance / larger node count; 1 is best, 0 for an empty or tableless side.

    Counts: `distance` and `nodes` (the larger tree), both 0 when there was nothing to compare.
    """
    pair = [_table(text) for text in (prediction, reference)]
    if pair[0] is None or pair[1] is None:
        return 0.0, {"distance": 0.0, "nodes": 0.0}
    nodes = max(len(table.xpath(".//*")) for table in pair if table is not None)
    try:
        trees = [_tree(table) for table in pair if table is not None]
    except ValueError:  # a span that is no integer scores 0 officially
        return 0.0, {"distance": 0.0, "nodes": 0.0}
    if nodes == 0:
        return 0.0, {"distance": 0.0, "nodes": 0.0}
    distance = float(APTED(trees[0], trees[1], _Costs()).compute_edit_distance())
    return 1.0 - distance / nodes, {"distance": distance, "nodes": float(nodes)}


def _table(text: str) -> etree._Element | None:
    if not text.strip():
        return None
    parser = html.HTMLParser(remove_comments=True, encoding="utf-8")
    try:
        root = html.fromstring(text.encode("utf-8"), parser=parser)
    except (etree.ParserError, ValueError):
        return None
    if root.tag != "html":  # a bare fragment: wrap it, so that body/table is looked for in one place
        root = html.document_fromstring(text.encode("utf-8"), parser=parser)
    tables = root.xpath("body/table")
    return tables[0] if tables else None


def _tree(element: etree._Element) -> Node:
    node = Node(tag=str(element.tag))
    if element.tag == "td":
        node.colspan = int(element.attrib.get("colspan", "1"))
        node.rowspan = int(element.attrib.get("rowspan", "1"))
        node.content = _tokens(element)[1:-1]
        return node
    node.children = [_tree(child) for child in element]
    return node


def _tokens(element: etree._Element) -> list[str]:
    """Characters of the text, each nested tag as one `<b>` and one `</b>`, tails included."""
    tag = str(element.tag)
    tokens = [f"<{tag}>", *str(element.text or "")]
    for child in element:
        tokens += [*_tokens(child), *str(child.tail or "")]
    return [*tokens, f"</{tag}>"]
