"""LaTeX source to the first normal form: KaTeX-like tokens, printed from pylatexenc's node tree.

The rules are those of the OmniDocBench v1.6 tokeniser, oddities included: scripts are printed sub before
super and always braced, every environment becomes an `array`, operators with limits are spelled out, unknown
macros keep their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
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

from gravbench.omnidocbench.cdm.atoms import (
    Atom,
    Item,
    Mode,
    Script,
    arguments_of,
    attach_scripts,
    braced,
    convert_chars,
    direct_text,
    ends_cell,
    flat,
    glyph,
    group,
    is_ampersand,
    is_braced,
    is_delimited,
    is_row_end,
    node_list,
    quiet_parser,
    single,
    word,
)
from gravbench.omnidocbench.cdm.colour import names

LIMIT_OPERATORS = names("det gcd inf lim liminf limsup max min Pr sup")
"""Printed as `\\operatorname* { l i m }`."""
PLAIN_OPERATORS = frozenset({"arccos", "tanh"})
"""Printed as `\\operatorname { t a n h }`; both are in `NAMED_OPERATORS` and become macros again."""
NAMED_OPERATORS = names(
    "arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim liminf "
    "limsup ln log max min Pr projlim sec sin sinh sup tan tanh"
)
"""`\\operatorname{x}` with one of these names is `\\x`."""
FONTS = names("mathrm mathbf mathit mathsf mathtt mathcal mathbb mathfrak mathscr mbox hbox")
ROMAN = frozenset({"mathrm", "mbox", "hbox"})
ACCENTS = names("hat bar vec dot ddot tilde breve check acute grave")
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


def print_tree(source: str) -> list[str]:
    """Tokens of the first normal form of a formula; raises whatever pylatexenc raises on hopeless input."""
    with quiet_parser():
        nodes, _, _ = LatexWalker(source).get_latex_nodes()
    return flat(_convert(nodes, Mode()))


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
    return attach_scripts(items)


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
    if name == "operatorname" and is_delimited(following):
        return [*_operator_name(following, mode)], first + 1
    if name in FONTS and following is not None and not arguments_of(node):
        return [_font(name, _argument(following, replace(mode, roman=name in ROMAN)))], first + 1
    if name in FRACTIONS and not arguments_of(node):
        return _fraction_of_following(queue, index, mode)
    if name in LAPS and is_delimited(following):
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
    arguments = arguments_of(node)
    inner = getattr(arguments[0], "macroname", None) if len(arguments) == 1 else None
    if inner not in FONTS or arguments_of(arguments[0]) or not is_braced(following):
        return None
    font = _font(inner, _argument(following, replace(mode, roman=inner in ROMAN)))
    head = "\\" + node.macroname
    if node.macroname in ACCENTS:
        return [Atom((head, *braced(font)))], first + 1
    return [word(head), font], first + 1


def _operator_name(node: Any, mode: Mode) -> list[Atom]:
    text = direct_text(node)
    if text == text.strip() and re.sub(r"\s+", "", text) in NAMED_OPERATORS:
        return [word("\\" + re.sub(r"\s+", "", text))]
    return [
        glyph(r"\operatorname", mode),
        group(_convert(node.nodelist, replace(mode, text=False, primes=True))),
    ]


def _font(name: str, body: Atom) -> Atom:
    printed = "mathrm" if name in {"mbox", "hbox"} else name
    return Atom(("\\" + printed, *body.tokens))


def _lap(name: str, node: Any, mode: Mode) -> Atom:
    return Atom(("\\" + name, *group(_convert(node.nodelist, _fresh(mode))).tokens))


def _fraction(name: str, top: Atom, bottom: Atom) -> Atom:
    return Atom((r"\binom" if name == "binom" else r"\frac", *top.tokens, *bottom.tokens))


def _fraction_of_following(queue: list[Any], index: int, mode: Mode) -> tuple[list[Atom], int] | None:
    """`\\dfrac`, `\\tfrac`, `\\binom` take the next two groups; `\\binom` also bare nodes or characters."""
    name = queue[index].macroname
    first = _skip_blank_nodes(queue, index + 1)
    second = _skip_blank_nodes(queue, first + 1)
    top: Any = queue[first] if first < len(queue) else None
    bottom: Any = queue[second] if second < len(queue) else None
    if name == "binom" and isinstance(getattr(top, "chars", None), str):
        pair = re.match(r"\s*(\S+)\s+(\S+)(.*)", top.chars, flags=re.DOTALL)
        if pair:
            queue[first] = LatexCharsNode(chars=pair[3])
            return [_fraction(name, _chars_atom(pair[1], mode), _chars_atom(pair[2], mode))], first
    if is_delimited(top) and is_delimited(bottom):
        groups = [group(_convert(node.nodelist, _fresh(mode))) for node in (top, bottom)]
        return [_fraction(name, *groups)], second + 1
    if name != "binom" or top is None or bottom is None or is_ampersand(top) or ends_cell(bottom):
        return None
    upper = _convert(node_list(top), _fresh(mode))
    word = re.match(r"\s*(\S+)(.*)", getattr(bottom, "chars", None) or "", flags=re.DOTALL)
    if upper and word and word[2].strip():
        queue[second] = LatexCharsNode(chars=word[2])
        return [_fraction(name, single(upper), _chars_atom(word[1], mode))], second
    lower = _convert(node_list(bottom), _fresh(mode))
    return ([_fraction(name, single(upper), single(lower))], second + 1) if upper and lower else None


def _chars_atom(text: str, mode: Mode) -> Atom:
    return single(attach_scripts(convert_chars(text, _fresh(mode))))


def _rule_of_following(queue: list[Any], first: int) -> tuple[list[Atom], int] | None:
    second = _skip_blank_nodes(queue, first + 1)
    if second >= len(queue) or not (is_delimited(queue[first]) and is_delimited(queue[second])):
        return None
    sizes = [_LENGTH.match(direct_text(queue[at])) for at in (first, second)]
    if sizes[0] is None or sizes[1] is None:
        return None
    printed = [piece for size in sizes if size for piece in ("{", _number(size[1] + size[2]), size[3], "}")]
    return [Atom((r"\rule", *printed))], second + 1


def _number(text: str) -> str:
    value = float(text)
    return str(int(value)) if value.is_integer() else str(value)


# --- single nodes ----------------------------------------------------------------------------------------


def _convert_node(node: Any, mode: Mode) -> list[Item]:
    if isinstance(node, LatexCommentNode):
        return []
    if isinstance(node, LatexCharsNode):
        return convert_chars(node.chars or "", mode)
    if isinstance(node, LatexSpecialsNode):
        return convert_chars(node.specials_chars or "", mode)
    if isinstance(node, LatexGroupNode):
        return [group(_convert(node.nodelist, mode))]
    if isinstance(node, LatexMathNode):
        dollar = Atom(("$",), glyph="$")
        return [dollar, *_convert(node.nodelist, replace(mode, text=False)), dollar]
    if isinstance(node, LatexEnvironmentNode):
        return [_convert_environment(node, mode)]
    if isinstance(node, LatexMacroNode):
        return [*_convert_macro(node, mode)]
    return []


def _convert_macro(node: Any, mode: Mode) -> list[Atom]:
    name = node.macroname
    if name in {"limits", "nolimits"}:
        return []
    atoms = _print_macro(name, node, mode)
    if mode.text and node.macro_post_space and not (atoms and atoms[-1].is_blank):
        atoms.append(Atom(("~",), glyph=" "))
    return atoms


def _print_macro(name: str, node: Any, mode: Mode) -> list[Atom]:
    head = "\\" + name
    arguments = arguments_of(node)
    first = arguments[0] if arguments else None
    if name in FRACTIONS:
        pair = arguments[:2] if len(arguments) >= 2 else [None, None]
        return [_fraction(name, *(_argument(argument, mode) for argument in pair))]
    if name == "sqrt":
        return [_root(node, mode)]
    if name in ACCENTS:
        return [Atom((head, *braced(_argument(first, mode))))]
    if name in FONTS:
        return [_font(name, _argument(first, replace(mode, roman=name in ROMAN)))]
    if name == "text":
        return [
            Atom((r"\mathrm", *group(_convert(node_list(first), replace(_fresh(mode), text=True))).tokens))
        ]
    if name in {"overline", "underline"}:
        return [Atom((head, "{", *_argument(first, mode).tokens, "}"))]
    return [word(head), *(atom for argument in arguments for atom in _inline_argument(argument, mode))]


def _root(node: Any, mode: Mode) -> Atom:
    slots: list[Any] = list(getattr(node.nodeargd, "argnlist", None) or [])
    degree = slots[0] if len(slots) >= 2 else None
    body = _argument(slots[1] if len(slots) >= 2 else (slots[0] if slots else None), mode)
    if degree is None:
        return Atom((r"\sqrt", *body.tokens))
    inside = flat(_convert(node_list(degree), _fresh(mode)))
    return Atom((r"\sqrt", "[", *inside, "]", *body.tokens))


def _argument(node: Any, mode: Mode) -> Atom:
    """One atom for an argument: a group for `{..}`, the single atom of a bare one, `{ }` when absent."""
    mode = _fresh(mode)
    if node is None:
        return group([])
    if is_braced(node):
        return group(_convert(node.nodelist, mode))
    return single(_convert(node_list(node), mode))


def _inline_argument(node: Any, mode: Mode) -> list[Atom]:
    """Arguments of an unknown macro stay where they are; `[..]` keeps its brackets."""
    mode = _fresh(mode)
    if not is_delimited(node):
        return _convert(node_list(node), mode)
    inner = _convert(node.nodelist, mode)
    if tuple(node.delimiters) == ("[", "]"):
        return [word("["), *inner, word("]")]
    return [group(inner)]


# --- environments ----------------------------------------------------------------------------------------


def _convert_environment(node: Any, mode: Mode) -> Atom:
    """Any environment as `array`: empty rows skipped, empty cells bare, matrices and cases fenced."""
    name = node.environmentname
    rows = _rows(node, aligned=name.startswith("aligned"), mode=mode)
    tokens = [r"\begin{array}", "{", *_columns(node, name, rows), "}"]
    for row in rows:
        if not any(row):
            continue
        for position, cell in enumerate(row):
            tokens += ["&"] if position else []
            tokens += group(cell).tokens if cell else ()
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
        rows[-1].append([*([group([])] if odd else []), *_convert(cell, cell_mode)])
        cell.clear()

    for child in node.nodelist or []:
        if isinstance(child, LatexSpecialsNode) and child.specials_chars == "&":
            close_cell()
        elif is_row_end(child):
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
    """Alignment letters: the column argument's, or r l r l in the aligned family, or l per first-row cell."""
    if name.rstrip("*") in CASE_FENCES:
        return ["l", "l"]
    slots = list(getattr(node.nodeargd, "argnlist", None) or [])
    at = {"array": 1, "tabular": 0, "tabularx": 0}.get(name, -1)
    argument = slots[at if -len(slots) <= at < len(slots) else -1] if slots else None
    if argument is not None:
        spec = direct_text(argument)
        if not spec or spec.strip():
            return [letter for letter in spec if letter in "lcr"]
    if name.startswith("aligned"):
        return ["l" if column % 2 else "r" for column in range(max(map(len, rows)))]
    return ["l"] * len(rows[0])
