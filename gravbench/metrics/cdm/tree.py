"""LaTeX source to the first normal form: KaTeX-like tokens, printed from pylatexenc's node tree.

The rules are those of the OmniDocBench v1.6 tokeniser, oddities included: scripts are printed sub before
super and always braced, every environment becomes an `array`, operators with limits are spelled out, unknown
macros keep their arguments. An `Atom` is one finished piece of output with just enough shape left (is it a
braced group, a prime, a blank of text mode) for scripts, accents and cells to be attached around it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
)

LIMIT_OPERATORS = frozenset("det gcd inf lim liminf limsup max min Pr sup".split())
"""Printed as `\\operatorname* { l i m }`."""
PLAIN_OPERATORS = frozenset({"arccos", "tanh"})
"""Printed as `\\operatorname { t a n h }` at first; both are in `NAMED_OPERATORS` and become macros again."""
NAMED_OPERATORS = frozenset(
    "arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim liminf limsup "
    "ln log max min Pr projlim sec sin sinh sup tan tanh".split()
)
"""`\\operatorname{x}` with one of these names is `\\x`."""
FONTS = frozenset("mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak mathscr mbox hbox".split())
ROMAN = frozenset({"mathrm", "mbox", "hbox"})
ACCENTS = frozenset("hat bar vec dot ddot tilde breve check acute grave".split())
WIDE_ACCENTS = frozenset({"widetilde", "widehat"})
FRACTIONS = frozenset({"frac", "tfrac", "dfrac", "binom"})
LAPS = frozenset({"phantom", "llap", "rlap"})
MATRIX_FENCES = {
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": (r"\{", r"\}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": (r"\Vert", r"\Vert"),
}
CASE_FENCES = {"cases": (r"\{", "."), "dcases": (r"\{", "."), "rcases": (".", r"\}")}
_LENGTH = re.compile(r"^\s*(-?)\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]{2})\s*$")


@dataclass(frozen=True)
class Atom:
    """Finished output. `inner` is set for a braced group, `glyph` for a single character, `prime` or text blank."""

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


def print_tree(source: str) -> list[str]:
    """Tokens of the first normal form of a whole formula; raises whatever pylatexenc raises on hopeless input."""
    with _quiet_parser():
        nodes, _, _ = LatexWalker(source).get_latex_nodes()
    return _flat(_convert(nodes, Mode()))


def print_source(source: str) -> list[str]:
    """Tokens of a `tabular` source: the source itself, one character or control word each, blanks dropped."""
    with _quiet_parser():
        nodes, _, _ = LatexWalker(source).get_latex_nodes()
    return list(_source_tokens(nodes))


@contextmanager
def _quiet_parser() -> Iterator[None]:
    """pylatexenc reports every recovery on its logger; a formula is allowed to be wrong."""
    logger = logging.getLogger("pylatexenc")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


# --- atoms -----------------------------------------------------------------------------------------------


def _flat(atoms: Iterable[Atom]) -> list[str]:
    return [token for atom in atoms for token in atom.tokens if token]


def _group(inner: Iterable[Atom]) -> Atom:
    inner = tuple(inner)
    return Atom(("{", *_flat(inner), "}"), inner=inner)


def _word(text: str) -> Atom:
    return Atom((text,), glyph=text, literal=True)


def _glyph(text: str, mode: Mode) -> Atom:
    """One character of math; under `\\mathrm` a two-character piece is printed letter by letter."""
    spelled = tuple(text) if mode.roman and not text.startswith("\\") else (text,)
    return Atom(spelled, glyph=text)


def _braced(atom: Atom) -> tuple[str, ...]:
    """Tokens of `atom` with exactly one pair of braces around."""
    return atom.tokens if atom.inner is not None else ("{", *atom.tokens, "}")


def _single(atoms: list[Atom]) -> Atom:
    return atoms[0] if len(atoms) == 1 else _group(atoms)


# --- node lists ------------------------------------------------------------------------------------------


def _convert(nodes: Iterable[Any] | None, mode: Mode) -> list[Atom]:
    """Atoms of a node list with scripts attached."""
    queue = list(nodes or [])
    items: list[Item] = []
    index = 0
    while index < len(queue):
        taken = _with_following(queue, index, mode)
        if taken is not None:
            atoms, index = taken
            items.extend(atoms)
            continue
        after_script = bool(items) and isinstance(items[-1], Script)
        items.extend(_convert_node(queue[index], replace(mode, primes=mode.primes and not after_script)))
        index += 1
    return _attach_scripts(items)


def _with_following(queue: list[Any], index: int, mode: Mode) -> tuple[list[Atom], int] | None:
    """Macros whose arguments pylatexenc does not know: bind the nodes behind them. `None`: an ordinary node.

    May shorten a character node of `queue` in place (our copy) when a macro takes single characters from it.
    """
    node = queue[index]
    if not isinstance(node, LatexMacroNode):
        return None
    name = node.macroname
    if name in LIMIT_OPERATORS or name in PLAIN_OPERATORS:
        head = r"\operatorname*" if name in LIMIT_OPERATORS else r"\operatorname"
        return [Atom((head, "{", *name, "}"))], index + 1
    if index + 1 >= len(queue):
        return None
    first = _skip_blank_nodes(queue, index + 1)
    following = queue[first] if first < len(queue) else None
    if name in ACCENTS or name in WIDE_ACCENTS:
        return _accented_font(node, following, first, mode)
    if name == "operatorname" and _is_delimited(following):
        return [*_operator_name(following, mode)], first + 1
    if name in FONTS and following is not None and not _arguments(node):
        return [_font(name, _argument(following, replace(mode, roman=name in ROMAN)))], first + 1
    if name in FRACTIONS and not _arguments(node):
        return _fraction_of_following(queue, index, mode)
    if name in LAPS and _is_delimited(following):
        return [_lap(name, following, mode)], first + 1
    if name == "rule":
        return _rule_of_following(queue, first)
    return None


def _skip_blank_nodes(queue: list[Any], index: int) -> int:
    """First index at or behind `index` whose node is not mere white space."""
    while index < len(queue):
        chars = getattr(queue[index], "chars", None)
        specials = getattr(queue[index], "specials_chars", None)
        if not any(isinstance(text, str) and not text.strip() for text in (chars, specials)):
            break
        index += 1
    return index


def _fresh(mode: Mode) -> Mode:
    """Arguments start with the prime shorthand on."""
    return replace(mode, primes=True)


def _accented_font(node: Any, following: Any, first: int, mode: Mode) -> tuple[list[Atom], int] | None:
    """`\\hat\\mathrm{x}`: the parser gives `\\hat` the bare font macro, its group follows."""
    arguments = _arguments(node)
    inner = getattr(arguments[0], "macroname", None) if len(arguments) == 1 else None
    if inner not in FONTS or _arguments(arguments[0]) or not _is_braced(following):
        return None
    font = _font(inner, _argument(following, replace(mode, roman=inner in ROMAN)))
    head = "\\" + node.macroname
    if node.macroname in ACCENTS:
        return [Atom((head, *_braced(font)))], first + 1
    return [_word(head), font], first + 1


def _operator_name(group: Any, mode: Mode) -> list[Atom]:
    text = _direct_text(group)
    if text == text.strip() and re.sub(r"\s+", "", text) in NAMED_OPERATORS:
        return [_word("\\" + re.sub(r"\s+", "", text))]
    return [
        _glyph(r"\operatorname", mode),
        _group(_convert(group.nodelist, replace(mode, text=False, primes=True))),
    ]


def _font(name: str, body: Atom) -> Atom:
    printed = "mathrm" if name in {"mbox", "hbox"} else name
    return Atom(("\\" + printed, *body.tokens))


def _lap(name: str, group: Any, mode: Mode) -> Atom:
    return Atom(("\\" + name, *_group(_convert(group.nodelist, _fresh(mode))).tokens))


def _fraction(name: str, top: Atom, bottom: Atom) -> Atom:
    return Atom((r"\binom" if name == "binom" else r"\frac", *top.tokens, *bottom.tokens))


def _fraction_of_following(queue: list[Any], index: int, mode: Mode) -> tuple[list[Atom], int] | None:
    """`\\dfrac`, `\\tfrac`, `\\binom` take the next two groups; `\\binom` also bare nodes or characters."""
    name = queue[index].macroname
    first = _skip_blank_nodes(queue, index + 1)
    second = _skip_blank_nodes(queue, first + 1)
    top = queue[first] if first < len(queue) else None
    bottom = queue[second] if second < len(queue) else None
    if name == "binom" and isinstance(getattr(top, "chars", None), str):
        pair = re.match(r"\s*(\S+)\s+(\S+)(.*)", top.chars, flags=re.DOTALL)
        if pair:
            queue[first] = LatexCharsNode(chars=pair[3])
            return [_fraction(name, _chars_atom(pair[1], mode), _chars_atom(pair[2], mode))], first
    if _is_delimited(top) and _is_delimited(bottom):
        groups = [_group(_convert(node.nodelist, _fresh(mode))) for node in (top, bottom)]
        return [_fraction(name, *groups)], second + 1
    if name != "binom" or top is None or bottom is None or _is_ampersand(top) or _ends_cell(bottom):
        return None
    upper = _convert(_node_list(top), _fresh(mode))
    word = re.match(r"\s*(\S+)(.*)", getattr(bottom, "chars", None) or "", flags=re.DOTALL)
    if upper and word and word[2].strip():
        queue[second] = LatexCharsNode(chars=word[2])
        return [_fraction(name, _single(upper), _chars_atom(word[1], mode))], second
    lower = _convert(_node_list(bottom), _fresh(mode))
    return ([_fraction(name, _single(upper), _single(lower))], second + 1) if upper and lower else None


def _is_ampersand(node: Any) -> bool:
    return getattr(node, "specials_chars", None) == "&"


def _is_row_end(node: Any) -> bool:
    return isinstance(node, LatexMacroNode) and node.macroname == "\\"


def _ends_cell(node: Any) -> bool:
    return _is_ampersand(node) or _is_row_end(node)


def _chars_atom(text: str, mode: Mode) -> Atom:
    return _single(_attach_scripts(_convert_chars(text, _fresh(mode))))


def _rule_of_following(queue: list[Any], first: int) -> tuple[list[Atom], int] | None:
    second = _skip_blank_nodes(queue, first + 1)
    if second >= len(queue) or not (_is_delimited(queue[first]) and _is_delimited(queue[second])):
        return None
    sizes = [_LENGTH.match(_direct_text(queue[at])) for at in (first, second)]
    if sizes[0] is None or sizes[1] is None:
        return None
    printed = [piece for size in sizes if size for piece in ("{", _number(size[1] + size[2]), size[3], "}")]
    return [Atom((r"\rule", *printed))], second + 1


def _number(text: str) -> str:
    value = float(text)
    return str(int(value)) if value.is_integer() else str(value)


# --- scripts ---------------------------------------------------------------------------------------------


def _attach_scripts(items: list[Item]) -> list[Atom]:
    """Bind `^` and `_` to the atom before them. Without a base a script sign is printed as a character."""
    atoms: list[Atom] = []
    index = 0
    while index < len(items):
        base = items[index]
        if isinstance(base, Script):
            atoms.append(_word(base.sign))
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
                tokens += [sign, *_braced(script)]
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
    return primes[0] if len(primes) == 1 else _group(primes)


def _unwrap_primes(script: Atom | None) -> Atom | None:
    """`{^''}` as a superscript is just the primes."""
    if script is None or not script.inner or script.inner[0] != _word("^"):
        return script
    found = [_primes(child) for child in script.inner[1:]]
    if not found or any(primes is None for primes in found):
        return script
    return _prime_group([prime for primes in found if primes for prime in primes])


# --- single nodes ----------------------------------------------------------------------------------------


def _convert_node(node: Any, mode: Mode) -> list[Item]:
    if isinstance(node, LatexCommentNode):
        return []
    if isinstance(node, LatexCharsNode):
        return _convert_chars(node.chars or "", mode)
    if isinstance(node, LatexSpecialsNode):
        return _convert_chars(node.specials_chars or "", mode)
    if isinstance(node, LatexGroupNode):
        return [_group(_convert(node.nodelist, mode))]
    if isinstance(node, LatexMathNode):
        dollar = Atom(("$",), glyph="$")
        return [dollar, *_convert(node.nodelist, replace(mode, text=False)), dollar]
    if isinstance(node, LatexEnvironmentNode):
        return [_convert_environment(node, mode)]
    if isinstance(node, LatexMacroNode):
        return [*_convert_macro(node, mode)]
    return []


def _convert_chars(text: str, mode: Mode) -> list[Item]:
    """Characters: blanks vanish in math and collapse to `~` in text; `'` is `^\\prime`; `--` stays together."""
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
            items.append(_glyph("--", mode))
            step = 2
        elif char == "'" and not mode.text and mode.primes:
            while text.startswith("'", index + step):
                step += 1
            items += [Script("^"), _prime_group([Atom((r"\prime",), glyph=r"\prime")] * step)]
        elif char in "^_":
            items.append(Script(char))
        else:
            items.append(_glyph(char, mode))
        index += step
    return items


def _convert_macro(node: Any, mode: Mode) -> list[Atom]:
    name = node.macroname
    if name in {"limits", "nolimits"}:
        return []
    atoms = _print_macro(name, node, mode)
    if mode.text and getattr(node, "macro_post_space", "") and not (atoms and atoms[-1].is_blank):
        atoms.append(Atom(("~",), glyph=" "))
    return atoms


def _print_macro(name: str, node: Any, mode: Mode) -> list[Atom]:
    head = "\\" + name
    arguments = _arguments(node)
    first = arguments[0] if arguments else None
    if name in FRACTIONS:
        pair = arguments[:2] if len(arguments) >= 2 else [None, None]
        return [_fraction(name, *(_argument(argument, mode) for argument in pair))]
    if name == "sqrt":
        return [_root(node, mode)]
    if name in ACCENTS:
        return [Atom((head, *_braced(_argument(first, mode))))]
    if name in FONTS:
        return [_font(name, _argument(first, replace(mode, roman=name in ROMAN)))]
    if name == "text":
        return [
            Atom((r"\mathrm", *_group(_convert(_node_list(first), replace(_fresh(mode), text=True))).tokens))
        ]
    if name in {"overline", "underline"}:
        return [Atom((head, "{", *_argument(first, mode).tokens, "}"))]
    return [_word(head), *(atom for argument in arguments for atom in _inline_argument(argument, mode))]


def _root(node: Any, mode: Mode) -> Atom:
    slots = list(getattr(node.nodeargd, "argnlist", None) or [])
    degree = slots[0] if len(slots) >= 2 else None
    body = _argument(slots[1] if len(slots) >= 2 else (slots[0] if slots else None), mode)
    if degree is None:
        return Atom((r"\sqrt", *body.tokens))
    inside = _flat(_convert(_node_list(degree), _fresh(mode)))
    return Atom((r"\sqrt", "[", *inside, "]", *body.tokens))


def _argument(node: Any, mode: Mode) -> Atom:
    """One atom for an argument: a group for `{..}`, the single atom of a bare one, `{ }` when absent."""
    mode = _fresh(mode)
    if node is None:
        return _group([])
    if _is_braced(node):
        return _group(_convert(node.nodelist, mode))
    return _single(_convert(_node_list(node), mode))


def _inline_argument(node: Any, mode: Mode) -> list[Atom]:
    """Arguments of an unknown macro stay where they are; `[..]` keeps its brackets."""
    mode = _fresh(mode)
    if not _is_delimited(node):
        return _convert(_node_list(node), mode)
    inner = _convert(node.nodelist, mode)
    if tuple(node.delimiters) == ("[", "]"):
        return [_word("["), *inner, _word("]")]
    return [_group(inner)]


# --- environments ----------------------------------------------------------------------------------------


def _convert_environment(node: Any, mode: Mode) -> Atom:
    """Any environment as `array`: empty rows skipped, empty cells bare, matrices and cases with their fences."""
    name = node.environmentname
    rows = _rows(node, aligned=name.startswith("aligned"), mode=mode)
    tokens = [r"\begin{array}", "{", *_columns(node, name, rows), "}"]
    for row in rows:
        if not any(row):
            continue
        for position, cell in enumerate(row):
            tokens += ["&"] if position else []
            tokens += _group(cell).tokens if cell else ()
        tokens.append(r"\\")
    tokens.append(r"\end{array}")
    base = name.rstrip("*")
    fences = CASE_FENCES.get(base) or MATRIX_FENCES.get(base)
    if fences:
        tokens = [r"\left" + fences[0], *tokens, r"\right" + fences[1]]
    return Atom(tuple(tokens))


def _rows(node: Any, *, aligned: bool, mode: Mode) -> list[list[list[Atom]]]:
    """Cells by row. In the aligned family every second cell opens with an empty group."""
    rows: list[list[list[Atom]]] = [[]]
    cell: list[Any] = []
    cell_mode = replace(_fresh(mode), text=False)

    def close_cell() -> None:
        odd = aligned and len(rows[-1]) % 2 == 1
        rows[-1].append([*([_group([])] if odd else []), *_convert(cell, cell_mode)])
        cell.clear()

    for child in node.nodelist or []:
        if isinstance(child, LatexSpecialsNode) and child.specials_chars == "&":
            close_cell()
        elif _is_row_end(child):
            close_cell()
            rows.append([])
            star = next(iter(getattr(child.nodeargd, "argnlist", None) or []), None)
            if isinstance(star, LatexCharsNode) and star.chars == "*":
                cell.append(star)
        else:
            cell.append(child)
    close_cell()
    return rows


def _columns(node: Any, name: str, rows: list[list[list[Atom]]]) -> list[str]:
    """Alignment letters: from the column argument, or r l r l for the aligned family, or l for each first-row cell."""
    if name.rstrip("*") in CASE_FENCES:
        return ["l", "l"]
    slots = list(getattr(node.nodeargd, "argnlist", None) or [])
    at = {"array": 1, "tabular": 0, "tabularx": 0}.get(name, -1)
    argument = slots[at if -len(slots) <= at < len(slots) else -1] if slots else None
    if argument is not None:
        spec = _direct_text(argument)
        if not spec or spec.strip():
            return [letter for letter in spec if letter in "lcr"]
    if name.startswith("aligned"):
        return ["l" if column % 2 else "r" for column in range(max(map(len, rows)))]
    return ["l"] * len(rows[0])


# --- pylatexenc nodes ------------------------------------------------------------------------------------


def _arguments(node: Any) -> list[Any]:
    """Arguments pylatexenc attached to a macro, absent optional ones left out."""
    slots = list(getattr(getattr(node, "nodeargd", None), "argnlist", None) or [])
    if slots:
        return [slot for slot in slots if slot is not None]
    return list(getattr(node, "nodeargs", None) or [])


def _node_list(node: Any) -> list[Any]:
    """Children of a node; a node without children stands for itself; nothing for `None`."""
    if node is None:
        return []
    children = getattr(node, "nodelist", None)
    return [node] if children is None else list(children)


def _is_delimited(node: Any) -> bool:
    return hasattr(node, "nodelist") and hasattr(node, "delimiters")


def _is_braced(node: Any) -> bool:
    return _is_delimited(node) and tuple(node.delimiters) == ("{", "}")


def _direct_text(group: Any) -> str:
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
            yield from _source_tokens(_arguments(node))
