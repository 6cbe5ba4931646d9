"""Access to pylatexenc's node tree, and the tokens of a table's source as it stands."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pylatexenc.latexwalker import (
    LatexCharsNode,
    LatexEnvironmentNode,
    LatexGroupNode,
    LatexMacroNode,
    LatexMathNode,
    LatexSpecialsNode,
    LatexWalker,
)


def print_source(source: str) -> list[str]:
    """Tokens of a `tabular` source: the source itself, one character or control word each, blanks dropped."""
    with quiet_parser():
        nodes, _, _ = LatexWalker(source).get_latex_nodes()
    return list(_source_tokens(nodes))


@contextmanager
def quiet_parser() -> Iterator[None]:
    """pylatexenc reports every recovery on its logger; a formula is allowed to be wrong."""
    logger = logging.getLogger("pylatexenc")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def is_ampersand(node: Any) -> bool:
    return getattr(node, "specials_chars", None) == "&"


def is_row_end(node: Any) -> bool:
    return isinstance(node, LatexMacroNode) and node.macroname == "\\"


def ends_cell(node: Any) -> bool:
    return is_ampersand(node) or is_row_end(node)


def arguments_of(node: Any) -> list[Any]:
    """Arguments pylatexenc attached to a macro, absent optional ones left out."""
    slots = list(getattr(getattr(node, "nodeargd", None), "argnlist", None) or [])
    if slots:
        return [slot for slot in slots if slot is not None]
    return list(getattr(node, "nodeargs", None) or [])


def node_list(node: Any) -> list[Any]:
    """Children of a node; a node without children stands for itself; nothing for `None`."""
    if node is None:
        return []
    children = getattr(node, "nodelist", None)
    return [node] if children is None else list(children)


def is_delimited(node: Any) -> bool:
    return hasattr(node, "nodelist") and hasattr(node, "delimiters")


def is_braced(node: Any) -> bool:
    return is_delimited(node) and tuple(node.delimiters) == ("{", "}")


def direct_text(group: Any) -> str:
    """Characters directly inside a group, nested groups and macros left out."""
    return "".join(getattr(child, "chars", None) or "" for child in getattr(group, "nodelist", None) or [])


def _source_tokens(nodes: Iterable[Any] | None) -> Iterator[str]:
    for node in nodes or []:
        if isinstance(node, LatexCharsNode):
            yield from "".join((node.chars or "").split())
        elif isinstance(node, LatexSpecialsNode):
            yield from "".join((node.specials_chars or "").split())
        elif isinstance(node, LatexGroupNode):
            yield from (node.delimiters[0], *_source_tokens(node.nodelist), node.delimiters[1])
        elif isinstance(node, LatexMathNode):
            yield from ("$", *_source_tokens(node.nodelist), "$")
        elif isinstance(node, LatexEnvironmentNode):
            arguments = getattr(node.nodeargd, "argnlist", None) or []
            label = "{" + node.environmentname + "}"
            yield from (r"\begin", label, *_source_tokens(a for a in arguments if a is not None))
            yield from (*_source_tokens(node.nodelist), r"\end", label)
        elif isinstance(node, LatexMacroNode):
            yield "\\" + node.macroname
            yield from _source_tokens(arguments_of(node))
