"""Slow, obvious ways to TEDS: apted and zss with the official cost model on trees built by recursion."""

from __future__ import annotations

import random
from typing import Any

from apted import APTED, Config
from lxml import html as lxml_html
from rapidfuzz.distance import Levenshtein
from zss import distance as zss_distance


class Node:
    """A tree node as the official scorer has it."""

    def __init__(self, element: Any, *, structure_only: bool) -> None:
        self.tag = element.tag
        self.spans: tuple[int, int] | None = None
        self.content: list[str] = []
        self.children: list[Node] = []
        if self.tag == "td":
            self.spans = (int(element.get("colspan", "1")), int(element.get("rowspan", "1")))
            self.content = [] if structure_only else _tokens(element)[1:-1]
        else:
            self.children = [Node(child, structure_only=structure_only) for child in element]


def _tokens(element: Any) -> list[str]:
    tokens = [f"<{element.tag}>", *(element.text or "")]
    for child in element:
        tokens += _tokens(child)
    if element.tag != "unk":
        tokens.append(f"</{element.tag}>")
    if element.tag != "td":
        tokens += element.tail or ""
    return tokens


class OfficialCosts(Config):  # type: ignore[misc]
    """Insert and delete 1 (apted's default), rename as published."""

    def rename(self, first: Node, second: Node) -> float:
        if first.tag != second.tag or first.spans != second.spans:
            return 1.0
        longer = max(len(first.content), len(second.content))
        return Levenshtein.distance(first.content, second.content) / longer if longer else 0.0


def trees(source: str, *, structure_only: bool) -> tuple[Node, int]:
    table = lxml_html.fromstring(source).xpath("body/table")[0]
    return Node(table, structure_only=structure_only), len(table.xpath(".//*"))


def oracle_scores(gt: str, pred: str, *, with_zss: bool) -> list[tuple[float, ...]]:
    """For TEDS and TEDS-S: what apted says and, on demand, what zss says."""
    scores = []
    costs = OfficialCosts()
    for structure_only in (False, True):
        (first, n_first), (second, n_second) = (
            trees(source, structure_only=structure_only) for source in (gt, pred)
        )
        distances = [APTED(first, second, costs).compute_edit_distance()]
        if with_zss:
            distances.append(
                zss_distance(first, second, lambda n: n.children, lambda _: 1, lambda _: 1, costs.rename)
            )
        scores.append(tuple(1.0 - distance / max(n_first, n_second) for distance in distances))
    return scores


def random_table(rng: random.Random, *, rows: int, columns: int) -> str:
    """A table in normal form with spans, empty cells, repeated cells, nested markup and stray elements."""
    contents = [
        "",
        "",
        "a",
        "12.5",
        "word",
        "two words",
        "x<b>y</b>z",
        "<i></i>",
        "5<br/>6",
        "名<sup>2</sup>",
    ]
    contents.append("<table><tr><td>in</td></tr></table>")
    body = ""
    for _ in range(rng.randint(1, rows)):
        body += "<tr>"
        for _ in range(rng.randint(0, columns)):
            spans = rng.choice(["", "", "", ' colspan="2"', ' rowspan="2"', ' colspan="2" rowspan="3"'])
            body += f"<td{spans}>{rng.choice(contents)}</td>"
        body += "</tr>"
    body = rng.choice(["", "", "<caption>t</caption>"]) + (body or "<tr></tr>")
    return f'<html><body><table border="1" >{body}</table></body></html>'


def damaged(rng: random.Random, source: str) -> str:
    """`source` with a few cells dropped, doubled or rewritten: pairs that are neither equal nor strangers."""
    pieces = source.split("</td>")
    for _ in range(rng.randint(0, 4)):
        if len(pieces) < 3:
            break
        place = rng.randrange(1, len(pieces) - 1)
        change = rng.randrange(3)
        if change == 0:
            pieces[place] += "x"
        elif change == 1:
            pieces.insert(place, "<td>new")
        else:
            pieces[place] = pieces[place].replace("a", "b").replace("colspan", "rowspan", 1)
    return "</td>".join(pieces)
