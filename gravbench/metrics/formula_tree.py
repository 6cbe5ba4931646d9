"""LaTeX as a tree, and how alike two formulas are as trees, beside the edit distance of their strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gravbench.metrics.tree_distance import Floats, LabelledTree, aligned_distance, tree_distance

# Work limits, in characters and in steps of the tree kernel: some 3,000 nodes against as many.
MAX_CHARS = 20_000
MAX_STEPS = 40_000_000


@dataclass(frozen=True, slots=True)
class FormulaTreeScore:
    """`value` in [0, 1], 1 best, or `None` with the `reason`; `distance` in edits; no roots in `nodes`."""

    value: float | None
    distance: float | None = None
    nodes_gt: int = 0
    nodes_pred: int = 0
    reason: str | None = None


def formula_tree_score(gt: str, pred: str) -> FormulaTreeScore:
    """1 - d / max(n_gt, n_pred), clipped at 0.

    d is the ordered tree edit distance (Zhang and Shasha 1989, as in the zss package) of the two formulas
    parsed by `parse_latex_tree`: insert 1, delete 1, relabel 1, equal labels 0. n counts nodes without
    the root. Two blank formulas have no score; a blank one against any other scores 0.
    """
    if len(gt) + len(pred) > MAX_CHARS:
        return FormulaTreeScore(None, reason=f"longer than {MAX_CHARS} characters")
    labels: dict[str, int] = {}
    gt, pred = strip_math_delimiters(gt), strip_math_delimiters(pred)
    first = _flatten(parse_latex_tree(gt), labels)
    second = first if gt == pred else _flatten(parse_latex_tree(pred), labels)
    nodes_gt, nodes_pred = len(first.labels) - 1, len(second.labels) - 1
    larger = max(nodes_gt, nodes_pred)
    if larger == 0:
        return FormulaTreeScore(None, reason="both formulas are blank")
    if first.relevant_size() * second.relevant_size() > MAX_STEPS:
        return FormulaTreeScore(None, None, nodes_gt, nodes_pred, f"more than {MAX_STEPS} steps")
    distance = None
    if first.leftmost == second.leftmost:
        renamings = [float(a != b) for a, b in zip(first.labels, second.labels, strict=True)]
        distance = aligned_distance(first.leftmost, renamings)
    if distance is None:
        costs: Floats = 1.0 - np.eye(len(labels))
        distance = tree_distance(first, second, costs)
    return FormulaTreeScore(max(0.0, 1.0 - distance / larger), distance, nodes_gt, nodes_pred)


def _flatten(tree: LatexTree, labels: dict[str, int]) -> LabelledTree:
    """Postorder arrays of `tree`; `labels` numbers the labels of both trees as they come."""
    leftmost: list[int] = []
    ids: list[int] = []
    stack: list[tuple[LatexTree, int | None]] = [(tree, None)]
    while stack:
        node, first = stack.pop()
        if first is None:
            stack.append((node, len(ids)))
            stack.extend((child, None) for child in reversed(node.children))
        else:
            leftmost.append(first)
            ids.append(labels.setdefault(node.label, len(labels)))
    return LabelledTree(tuple(leftmost), tuple(ids))


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
    plain = plain_parts(source)
    return LatexTree("formula", parsed_parts(source) if plain is None else plain)


def parsed_parts(source: str) -> tuple[LatexTree, ...]:
    """Parts of any formula, by pylatexenc; of one that it fails on, its characters."""
    from pylatexenc.latexwalker import LatexWalker, LatexWalkerError

    try:
        nodes, _, _ = LatexWalker(source, tolerant_parsing=True).get_latex_nodes()
        return _attach_scripts(_parts(nodes))
    except (LatexWalkerError, RecursionError, ValueError, IndexError, AttributeError, TypeError):
        # Besides its own error pylatexenc lets slip what malformed input makes it trip over.
        return _characters(source)


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


_TOKEN = re.compile(r"\\[A-Za-z]++(?![^ -~])|\\[ -@^-`{-~]|[^ ]")
_NOT_PLAIN = re.compile(r"[%&~#$*\x00-\x1f\x7f-\xa0]|--|``|''|[!?]`|(?! )\s")


class _NotPlainError(Exception):
    """Only pylatexenc knows what this means."""


def plain_parts(source: str) -> tuple[LatexTree, ...] | None:
    """What `parsed_parts` gives, much sooner; None where not all is characters, groups and plain macros."""
    if _NOT_PLAIN.search(source):
        return None
    try:
        return _PlainReader(_TOKEN.findall(source)).parts(inside=False)
    except _NotPlainError:
        return None


class _PlainReader:
    """Reads tokens (macros, single characters) from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def parts(self, *, inside: bool) -> tuple[LatexTree, ...]:
        """Parts up to the end, or with `inside` up to the brace that closes the group."""
        found: list[LatexTree] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            self._at += 1
            if token == "{":
                found.append(_as_one(self.parts(inside=True)))
            elif token == "}":
                if inside:
                    return _attach_scripts(found)
                raise _NotPlainError
            elif token[0] != "\\":
                found.append(LatexTree(token))
            else:
                arguments = tuple([self._argument() for _ in range(self._arguments_of(token[1:]))])
                if token[1:] not in _SPACING:
                    found.append(LatexTree(token, arguments))
        if inside:
            raise _NotPlainError
        return _attach_scripts(found)

    def _arguments_of(self, macro: str) -> int:
        """Arguments that stand behind a macro; an optional one is left to pylatexenc."""
        wanted = _argument_spec(macro)
        if wanted is None or ("[" in wanted and self._tokens[self._at : self._at + 1] == ["["]):
            raise _NotPlainError
        return wanted.count("{")

    def _argument(self) -> LatexTree:
        """A group, a character or a macro without arguments of its own."""
        token = "".join(self._tokens[self._at : self._at + 1])
        self._at += 1
        if token == "{":
            return _as_one(self.parts(inside=True))
        if token in ("", "}") or (token[0] == "\\" and _argument_spec(token[1:]) is None):
            raise _NotPlainError
        return LatexTree("{}") if token[0] == "\\" and token[1:] in _SPACING else LatexTree(token)


@lru_cache(maxsize=4096)
def _argument_spec(macro: str) -> str | None:
    """What a macro takes, in pylatexenc's letters; None where that is no plain list, or it is no macro."""
    from pylatexenc.latexwalker import get_default_latex_context_db
    from pylatexenc.macrospec import MacroStandardArgsParser

    if macro in ("", "begin", "end", "(", ")", "[", "]"):
        return None
    spec = _macros(get_default_latex_context_db).get_macro_spec(macro)
    if spec is None:
        return ""
    return str(spec.args_parser.argspec) if type(spec.args_parser) is MacroStandardArgsParser else None


@lru_cache(maxsize=1)
def _macros(database: Callable[[], Any]) -> Any:
    return database()


def _as_one(parts: tuple[LatexTree, ...]) -> LatexTree:
    """A group: what it holds, if that is one part."""
    return parts[0] if len(parts) == 1 else LatexTree("{}", parts)


def _parts(nodes: Iterable[Any] | None) -> Iterator[LatexTree]:
    from pylatexenc.latexwalker import (
        LatexCharsNode,
        LatexCommentNode,
        LatexEnvironmentNode,
        LatexGroupNode,
        LatexMacroNode,
        LatexMathNode,
        LatexSpecialsNode,
    )

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
    return _as_one(_attach_scripts(_parts(nodes)))


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
