r"""Text normalisation of the OmniDocBench v1.6 scorer: `normalized_text = clean(unicode(s))`.

No case folding and no NFKC: full-width letters differ from ASCII ones, and `²` is a word character.
`Normalizer` remembers what it has seen, because matching looks at the same text several times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gravbench.omnidocbench.circled import replace_circled
from gravbench.omnidocbench.formulas.normal_form import normalized_formula, strip_delimiters, strip_tags
from gravbench.omnidocbench.latex_text import LatexText
from gravbench.omnidocbench.markdown.finder import Finder

MAX_INLINE_CHARS = 128
_INLINE_OPENING = re.compile(r"\$|\\\(")
_UNESCAPE = re.compile(r"\\([\\_&%^])")
_NOT_WORD = re.compile(r"[^\w]")
_STRUCTURES = ("\\begin{", "\\end{", "\\array", "\\matrix", "\\tabular", "\\cases", "\\align", "\\\\", "&")


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
    return _NOT_WORD.sub("", text)


def _is_structured(latex: str) -> bool:
    """Too long, multi-line or unbalanced for a running text: left as it is."""
    latex = latex.strip()
    if not latex:
        return False
    if len(latex) > MAX_INLINE_CHARS or any(token in latex for token in _STRUCTURES):
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
