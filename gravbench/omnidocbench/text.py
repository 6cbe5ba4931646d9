r"""Text normalisation of the OmniDocBench v1.6 scorer: `normalized_text = clean(unicode(s))`.

No case folding and no NFKC: full-width letters differ from ASCII ones, and `²` is a word character.
`Normalizer` remembers what it has seen, because matching looks at the same text several times.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gravbench.omnidocbench.formula_text import (
    normalized_formula,
    replace_circled,
    strip_delimiters,
    strip_tags,
)
from gravbench.omnidocbench.markdown_blocks import Finder

MAX_INLINE_CHARS = 128
_INLINE_OPENING = re.compile(r"\$|\\\(")
_UNESCAPE = re.compile(r"\\([\\_&%^])")
_NOT_WORD = re.compile(r"\W")
_ASCII_WORDS = {code: None for code in range(128) if _NOT_WORD.match(chr(code))}
_STRUCTURE = re.compile(r"&|\\(?:begin\{|end\{|array|matrix|tabular|cases|align|\\)")


class InlineMath(NamedTuple):
    """One `$...$` or `\\(...\\)` on a single line: where it lies, and what is between the delimiters."""

    start: int
    end: int
    content: str


def inline_math(text: str) -> Iterator[InlineMath]:
    """Inline formulas of `text`, left to right, shortest first; linear even when delimiters never close."""
    closers = {"$": Finder(text, "$"), "\\(": Finder(text, "\\)")}
    newline = Finder(text, "\n")
    position = 0
    while opening := _INLINE_OPENING.search(text, position):
        start, inner = opening.span()
        end = closers[opening.group()].at(inner)
        line_end = newline.at(inner)
        if end is None or (line_end is not None and line_end < end):
            position = start + 1
            continue
        position = end + len(opening.group())
        yield InlineMath(start, position, text[inner:end])


def clean(text: str) -> str:
    r"""Word characters only.

    Quirk: the two-character sequences `\t \n /t /n` vanish first, so `and/then` loses a letter and
    an unconverted `\theta` its head.
    """
    text = replace_circled(text)
    for sequence in ("\\t", "\\n", "\t", "\n", "/t", "/n"):
        text = text.replace(sequence, "")
    return text.translate(_ASCII_WORDS) if text.isascii() else _NOT_WORD.sub("", text.replace(" ", ""))


def _is_structured(latex: str) -> bool:
    """Too long, multi-line or unbalanced for a running text: left as it is."""
    latex = latex.strip()
    if not latex:
        return False
    if len(latex) > MAX_INLINE_CHARS or _STRUCTURE.search(latex):
        return True
    return latex.count("{") != latex.count("}")


def inline_as_formula(text: str) -> str:
    """`text` with every inline formula replaced by its normalised formula."""
    pieces: list[str] = []
    position = 0
    for math in inline_math(text):
        pieces += (text[position : math.start], normalized_formula(math.content).strip())
        position = math.end
    return "".join((*pieces, text[position:]))


class Normalizer:
    """The scorer's text chains with a memory; create one for each batch of pages."""

    def __init__(self) -> None:
        self._latex = LatexText()
        self._texts: dict[str, str] = {}
        self._formulas: dict[str, str] = {}

    def unicode(self, text: str) -> str:
        """Circled characters replaced and convertible inline formulas turned into plain text."""
        text = replace_circled(text)
        if "$" not in text and "\\(" not in text:
            return text
        pieces: list[str] = []
        position = 0
        for math in inline_math(text):
            latex = _UNESCAPE.sub("", math.content)
            if not any(char in latex for char in "\\^_"):
                continue
            if latex.endswith("\\"):
                latex += " "
            if _is_structured(latex):
                continue
            pieces += (text[position : math.start], self._latex.convert(latex).strip())
            position = math.end
        return "".join((*pieces, text[position:]))

    def text(self, text: str) -> str:
        """`normalized_text`: what text edit distance compares."""
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = clean(self.unicode(text))
        return known

    def formula(self, latex: str) -> str:
        """`normalized_formula`: what formula edit distance compares."""
        known = self._formulas.get(latex)
        if known is None:
            known = self._formulas[latex] = normalized_formula(latex)
        return known

    def plain(self, latex: str) -> str:
        """Guarded plain text of a LaTeX fragment."""
        return self._latex.convert(latex)

    def formula_to_text(self, latex: str) -> str:
        """A whole formula as plain text, delimiters and tags removed."""
        return self._latex.convert(strip_tags(strip_delimiters(replace_circled(latex))))


MAX_LATEX_CHARS = 8000
"""Longer fragments are left alone; a budget in characters, so it holds on any machine."""

_COMMAND = re.compile(r"\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z]{3,}")
_SIGNAL = re.compile(r"\\[A-Za-z]+|[_^{}$]|\\[\[\]()]]|&|%|#")
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}]+)\}")
_LEFT = re.compile(r"\\left\b")
_RIGHT = re.compile(r"\\right\b")
_UNESCAPED_DOLLAR = re.compile(r"(?<!\\)\$")
_MATH_MACROS = (
    r"\frac",
    r"\sqrt",
    r"\left",
    r"\right",
    r"\begin",
    r"\end",
    r"\sum",
    r"\int",
    r"\alpha",
    r"\beta",
)
_LOGGERS = (
    "pylatexenc",
    "pylatexenc.latexwalker",
    "pylatexenc.latexwalker._walker",
    "pylatexenc.macrospec",
    "pylatexenc.macrospec._environmentbodyparser",
)


def is_plain_noise(text: str) -> bool:
    """Prose mistaken for a formula: at least 32 characters, six words, at most two LaTeX signals."""
    if len(text) < 32 or len(_SIGNAL.findall(text)) > 2:
        return False
    if any(char in text for char in "{}$^_") or any(macro in text for macro in _MATH_MACROS):
        return False
    return len(_WORD.findall(text)) >= 6 and text.count(" ") >= 5


def is_weak_latex(text: str) -> bool:
    """Backslashes without commands, or words with next to no mathematics: nothing worth converting."""
    if text in {"", "\\", "\\\\"}:
        return True
    commands = len(_COMMAND.findall(text))
    words = len(_WORD.findall(text))
    signals = sum(text.count(char) for char in "{}$^_=&%#")
    if commands == 0:
        if text.endswith("\\") and not text.endswith("\\\\"):
            return True
        if "\\" in text and signals == 0:
            return True
        if words >= 2 and signals <= 1:
            return True
    return words >= 4 and commands <= 1 and signals <= 2


def braces_balance(text: str) -> bool:
    """`{` and `}` pair up; `\\{ \\} \\[ \\] \\( \\)` are skipped."""
    depth = index = 0
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text) and text[index + 1] in "{}[]()":
            index += 2
            continue
        if char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth < 0:
                return False
        index += 1
    return depth == 0


def environments_balance(text: str) -> bool:
    """Every `\\end{x}` closes the innermost open `\\begin{x}` and none stays open."""
    stack: list[str] = []
    for match in _ENVIRONMENT.finditer(text):
        if match.group(1) == "begin":
            stack.append(match.group(2))
        elif not stack or stack.pop() != match.group(2):
            return False
    return not stack


def is_broken_latex(text: str, *, table: bool = False, max_chars: int = MAX_LATEX_CHARS) -> bool:
    """Too long, or unbalanced: pylatexenc (or LaTeXML, with `table`) is not asked."""
    stripped = text.strip()
    if not stripped:
        return False
    if len(stripped) > max_chars or not braces_balance(stripped) or not environments_balance(stripped):
        return True
    if table:
        return False
    if len(_LEFT.findall(stripped)) != len(_RIGHT.findall(stripped)):
        return True
    if stripped.count("\\(") != stripped.count("\\)") or stripped.count("\\[") != stripped.count("\\]"):
        return True
    return len(_UNESCAPED_DOLLAR.findall(stripped)) % 2 != 0


@lru_cache(maxsize=1)
def _pylatexenc() -> tuple[Any, Any]:
    """What macros take, and the converter: each costs a page to build. Warnings are off."""
    from pylatexenc.latex2text import LatexNodes2Text
    from pylatexenc.latexwalker import get_default_latex_context_db

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    return get_default_latex_context_db(), LatexNodes2Text()


def _arguments() -> type:
    """The class of macros whose arguments are all that they read."""
    from pylatexenc.macrospec import MacroStandardArgsParser

    kind: type = MacroStandardArgsParser
    return kind


_TOKEN = re.compile(r"([^\\{}]+)|\\([A-Za-z]+) *|([{}]|\\.)")
_OPENING = re.compile(r" *\{")
_NOT_PLAIN = re.compile(r"[^ -~]|[%&~#$*]|--|``|''|[!?]`")
_STYLED = (
    *("mathbf", "mathit", "mathsf", "mathbb", "mathtt", "mathcal", "mathscr", "mathfrak", "vec", "dot"),
    *("hat", "check", "breve", "acute", "grave", "tilde", "bar", "ddot"),
)
"""Macros whose text pylatexenc makes of the text of their argument alone."""


class _Argument:
    """Text of an argument, in the places where pylatexenc's formatters look for a node and its text."""

    def __init__(self, text: str) -> None:
        self.nodeargs = [text]

    def node_arg_to_text(self, node: _Argument, number: int) -> str:
        return node.nodeargs[number]

    def nodelist_to_text(self, nodes: list[str]) -> str:
        return "".join(nodes)


Finish = Callable[[list[str]], str]
_join: Finish = "".join


@lru_cache(maxsize=4096)
def _macro(name: str) -> tuple[int, Finish] | None:
    """Braced arguments of a macro and the text made of theirs; None: only pylatexenc knows."""
    macros, converter = _pylatexenc()
    takes, gives = macros.get_macro_spec(name), converter.latex_context.get_macro_spec(name)
    if name in ("begin", "end") or name in "[]()" or (takes and type(takes.args_parser) is not _arguments()):
        return None
    wanted = takes.args_parser.argspec if takes else ""
    if wanted.strip("{"):
        return None
    text = None if gives is None else gives.simplify_repl
    if not text:
        keeps = gives is not None and not gives.discard
        return len(wanted), _join if keeps else lambda _: ""
    if callable(text):
        if name not in _STYLED or wanted != "{":
            return None
        styled = text
        return 1, lambda texts: styled(_Argument(texts[0]), l2tobj=_Argument("")) or ""
    if "%" not in text:
        return len(wanted), lambda _: str(text)
    if text.count("%s") == text.count("%") == len(wanted):
        return len(wanted), lambda texts: str(text % tuple(texts))
    return None


def plain_latex(latex: str) -> str | None:
    """What pylatexenc makes of `latex`; None if it holds more than characters, groups and plain macros."""
    if _NOT_PLAIN.search(latex):
        return None
    pieces: list[str] = []
    stack: list[tuple[list[str], int, Finish, list[str]]] = []
    """Text around a group that is open, and what becomes of it: arguments wanted, text, arguments there."""
    position, size = 0, len(latex)
    while position < size:
        token = _TOKEN.match(latex, position)
        if token is None:
            return None
        position = token.end()
        chars, name, symbol = token.groups()
        if chars is not None:
            pieces.append(chars)
            continue
        wanted, finish = 1, _join
        texts: list[str] = []
        if symbol == "}":
            if not stack:
                return None
            outside, wanted, finish, texts = stack.pop()
            texts.append("".join(pieces))
            pieces = outside
        elif symbol != "{":
            known = _macro(name or symbol[1:])
            if known is None:
                return None
            wanted, finish = known
        if len(texts) == wanted:
            pieces.append(finish(texts))
            continue
        if symbol != "{":
            opening = _OPENING.match(latex, position)
            if opening is None:
                return None
            position = opening.end()
        stack.append((pieces, wanted, finish, texts))
        pieces = []
    return None if stack else "".join(pieces)


class LatexText:
    """Converter with a memory: each fragment is converted once."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def convert(self, latex: str) -> str:
        """Plain text of `latex`; the input itself when a guard fires or pylatexenc fails."""
        stripped = latex.strip()
        if not stripped:
            return latex
        if not any(char in stripped for char in "\\{}$"):
            return stripped
        if stripped not in self._known:
            self._known[stripped] = self._converted(stripped)
        text = self._known[stripped]
        return latex if text is None else text

    def _converted(self, latex: str) -> str | None:
        if is_plain_noise(latex) or is_weak_latex(latex) or is_broken_latex(latex):
            return None
        text = plain_latex(latex)
        return pylatexenc_text(latex) if text is None else text


def pylatexenc_text(latex: str) -> str | None:
    """What pylatexenc makes of `latex`; None when it fails, as the official scorer then keeps the source."""
    from pylatexenc.latexwalker import LatexWalker

    macros, converter = _pylatexenc()
    try:
        nodes, _, _ = LatexWalker(latex, latex_context=macros).get_latex_nodes()
        return str(converter.nodelist_to_text(nodes))
    except Exception:  # whatever it raises
        return None
