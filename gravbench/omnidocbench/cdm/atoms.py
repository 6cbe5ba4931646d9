"""Pieces of printed LaTeX, and how scripts are bound to them.

An `Atom` is finished output with just enough shape left (a braced group? a prime? a blank of text mode?) for
scripts, accents and cells to be attached around it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Atom:
    """Finished output. `inner`: of a braced group; `glyph`: of one character, a prime or a text blank."""

    tokens: tuple[str, ...]
    inner: tuple[Atom, ...] | None = None
    glyph: str | None = None
    literal: bool = False
    """A control word or stray script sign printed as it is; never counts as a prime."""

    @property
    def is_blank(self) -> bool:
        return self.glyph == " "

    @property
    def is_prime(self) -> bool:
        return not self.literal and self.glyph in {"'", r"\prime"}


@dataclass(frozen=True)
class Script:
    """A `^` or `_` waiting for its base and argument."""

    sign: str


Item = Atom | Script


@dataclass(frozen=True)
class Mode:
    """Where we are: text or math, whether `'` is shorthand for `^{\\prime}`, and inside `\\mathrm`."""

    text: bool = False
    primes: bool = True
    roman: bool = False


def flat(atoms: Iterable[Atom]) -> list[str]:
    return [token for atom in atoms for token in atom.tokens if token]


def group(inner: Iterable[Atom]) -> Atom:
    inner = tuple(inner)
    return Atom(("{", *flat(inner), "}"), inner=inner)


def word(text: str) -> Atom:
    return Atom((text,), glyph=text, literal=True)


def glyph(text: str, mode: Mode) -> Atom:
    """One character of math; under `\\mathrm` a two-character piece is printed letter by letter."""
    spelled = tuple(text) if mode.roman and not text.startswith("\\") else (text,)
    return Atom(spelled, glyph=text)


def braced(atom: Atom) -> tuple[str, ...]:
    """Tokens of `atom` with exactly one pair of braces around."""
    return atom.tokens if atom.inner is not None else ("{", *atom.tokens, "}")


def single(atoms: list[Atom]) -> Atom:
    return atoms[0] if len(atoms) == 1 else group(atoms)


def convert_chars(text: str, mode: Mode) -> list[Item]:
    """Blanks vanish in math and collapse to `~` in text; `'` is `^\\prime`; `--` stays together."""
    items: list[Item] = []
    index = 0
    while index < len(text):
        char = text[index]
        step = 1
        if char.isspace():
            last = items[-1] if items else None
            if mode.text and not (isinstance(last, Atom) and last.is_blank):
                items.append(Atom(("~",), glyph=" "))
        elif char == "-" and not mode.text and text.startswith("--", index):
            items.append(glyph("--", mode))
            step = 2
        elif char == "'" and not mode.text and mode.primes:
            while text.startswith("'", index + step):
                step += 1
            items += [Script("^"), _prime_group([Atom((r"\prime",), glyph=r"\prime")] * step)]
        elif char in "^_":
            items.append(Script(char))
        else:
            items.append(glyph(char, mode))
        index += step
    return items


def attach_scripts(items: list[Item]) -> list[Atom]:
    """Bind `^` and `_` to the atom before them. Without a base a script sign is printed as a character."""
    atoms: list[Atom] = []
    index = 0
    while index < len(items):
        base = items[index]
        if isinstance(base, Script):
            atoms.append(word(base.sign))
            index += 1
            continue
        sub, sup, end = _collect_scripts(items, index + 1)
        if sub is None and sup is None:
            atoms.append(base)
            index += 1
            continue
        tokens = list(base.tokens)
        for sign, script in (("_", sub), ("^", sup)):
            if script is not None:
                tokens += [sign, *braced(script)]
        atoms.append(Atom(tuple(tokens)))
        index = end
    return atoms


def _collect_scripts(items: list[Item], index: int) -> tuple[Atom | None, Atom | None, int]:
    """Sub- and superscript starting at `index`, and where they end.

    A repeated sign replaces the earlier script; only primes add up. A sign with nothing behind it counts as a
    repetition too and so wipes what was there.
    """
    sub: Atom | None = None
    sup: Atom | None = None
    while index < len(items):
        marker = items[index]
        if not isinstance(marker, Script):
            break
        script, index = _script_argument(items, index + 1)
        if marker.sign == "_":
            sub = script
            continue
        script = _unwrap_primes(script)
        before, added = _primes(sup), _primes(script)
        sup = _prime_group([*before, *added]) if before and added else script
    return sub, sup, index


def _script_argument(items: list[Item], index: int) -> tuple[Atom | None, int]:
    """The atom behind a script sign, text blanks skipped; the position stays when there is none."""
    at = index
    while at < len(items):
        item = items[at]
        if isinstance(item, Script):
            break
        if not item.is_blank:
            return item, at + 1
        at += 1
    return None, index


def _primes(atom: Atom | None) -> list[Atom] | None:
    """The primes an atom consists of; `None` when it is anything else."""
    if atom is None:
        return None
    if atom.is_prime:
        return [atom]
    return list(atom.inner) if atom.inner and all(child.is_prime for child in atom.inner) else None


def _prime_group(primes: list[Atom]) -> Atom:
    return primes[0] if len(primes) == 1 else group(primes)


def _unwrap_primes(script: Atom | None) -> Atom | None:
    """`{^''}` as a superscript is just the primes."""
    if script is None or not script.inner or script.inner[0] != word("^"):
        return script
    found = [_primes(child) for child in script.inner[1:]]
    if not found or any(primes is None for primes in found):
        return script
    return _prime_group([prime for primes in found if primes for prime in primes])


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
