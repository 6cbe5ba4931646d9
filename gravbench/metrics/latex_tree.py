"""LaTeX formula -> ordered tree of its parts, for structural comparison. Any string gives a tree.

One leaf a character; a macro is a node with its arguments below it, an environment likewise with its
body; `^` and `_` hold what they raise or lower; a group of one part is that part (`x^{2}` is `x^2`);
white space, comments, spacing macros and outer math delimiters are no part of the formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pylatexenc.latexwalker import (
    LatexCharsNode,
    LatexCommentNode,
    LatexEnvironmentNode,
    LatexGroupNode,
    LatexMacroNode,
    LatexMathNode,
    LatexSpecialsNode,
    LatexWalker,
    LatexWalkerError,
)

# Deeper nesting is read as a flat run of characters, as is LaTeX that cannot be parsed.
MAX_DEPTH = 60

_SPACING = frozenset({",", ";", ":", "!", ">", " ", "quad", "qquad", "enspace", "thinspace", "displaystyle"})
_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_SCRIPTS = ("^", "_")


@dataclass(frozen=True, slots=True)
class LatexTree:
    """A part of a formula and the parts below it, in order."""

    label: str
    children: tuple[LatexTree, ...] = ()


def parse_latex_tree(source: str) -> LatexTree:
    """The tree of `source` under a root labelled "formula"; the root alone for a blank formula."""
    source = strip_math_delimiters(source)
    if _nesting(source) > MAX_DEPTH:
        return LatexTree("formula", _characters(source))
    try:
        nodes, _, _ = LatexWalker(source, tolerant_parsing=True).get_latex_nodes()
        return LatexTree("formula", _attach_scripts(_parts(nodes)))
    except (LatexWalkerError, RecursionError, ValueError, IndexError, AttributeError, TypeError):
        # Besides its own error pylatexenc lets slip what malformed input makes it trip over.
        return LatexTree("formula", _characters(source))


def strip_math_delimiters(source: str) -> str:
    """`source` without white space and math delimiters around it, layer by layer."""
    stripped = True
    while stripped:
        source = source.strip()
        stripped = False
        for opening, closing in _DELIMITERS:
            if source.startswith(opening) and source[len(opening) :].endswith(closing):
                source, stripped = source[len(opening) : len(source) - len(closing)], True
                break
    return source


def _nesting(source: str) -> int:
    depth = deepest = 0
    for character in source:
        depth += (character == "{") - (character == "}")
        deepest = max(deepest, depth)
    return deepest + source.count("\\begin") + source.count("\\left")


def _characters(text: str) -> tuple[LatexTree, ...]:
    return tuple(LatexTree(character) for character in text if not character.isspace())


def _parts(nodes: Iterable[Any] | None) -> Iterator[LatexTree]:
    for node in nodes or ():
        if isinstance(node, LatexCharsNode):
            yield from _characters(node.chars)
        elif isinstance(node, LatexGroupNode):
            yield _group(node.nodelist)
        elif isinstance(node, LatexMacroNode):
            if node.macroname not in _SPACING:
                yield LatexTree(f"\\{node.macroname}", _arguments(node))
        elif isinstance(node, LatexEnvironmentNode):
            body = _attach_scripts(_parts(node.nodelist))
            yield LatexTree(f"\\begin{{{node.environmentname}}}", _arguments(node) + body)
        elif isinstance(node, LatexMathNode):
            yield LatexTree("$", _attach_scripts(_parts(node.nodelist)))
        elif isinstance(node, LatexSpecialsNode):
            yield LatexTree(node.specials_chars, _arguments(node))
        elif not isinstance(node, LatexCommentNode) and node is not None:
            yield from _characters(node.latex_verbatim())


def _group(nodes: Sequence[Any]) -> LatexTree:
    parts = _attach_scripts(_parts(nodes))
    return parts[0] if len(parts) == 1 else LatexTree("{}", parts)


def _arguments(node: Any) -> tuple[LatexTree, ...]:
    given = [argument for argument in getattr(node.nodeargd, "argnlist", None) or () if argument is not None]
    return tuple(_group([argument]) for argument in given)


def _attach_scripts(parts: Iterable[LatexTree]) -> tuple[LatexTree, ...]:
    """Put what follows a `^` or `_` below it."""
    attached: list[LatexTree] = []
    remaining = iter(parts)
    for part in remaining:
        if part.label in _SCRIPTS and not part.children and (script := next(remaining, None)):
            part = LatexTree(part.label, (script,))
        attached.append(part)
    return tuple(attached)
