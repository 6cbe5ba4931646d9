r"""Guarded LaTeX -> plain text (OmniDocBench v1.6 scorer, "guarded LaTeX to text").

A fragment is handed to pylatexenc 2.10 only when it looks like LaTeX at all and its groups, environments
and delimiters balance; otherwise it stays as it is. The official scorer forks a process per fragment with a
time limit; the text is the same in this process.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pylatexenc.latex2text import LatexNodes2Text

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


def is_broken_latex(text: str, *, table: bool = False) -> bool:
    """Too long, or unbalanced: pylatexenc (or LaTeXML, with `table`) is not asked."""
    stripped = text.strip()
    if not stripped:
        return False
    if len(stripped) > MAX_LATEX_CHARS or not braces_balance(stripped) or not environments_balance(stripped):
        return True
    if table:
        return False
    if len(_LEFT.findall(stripped)) != len(_RIGHT.findall(stripped)):
        return True
    if stripped.count("\\(") != stripped.count("\\)") or stripped.count("\\[") != stripped.count("\\]"):
        return True
    return len(_UNESCAPED_DOLLAR.findall(stripped)) % 2 != 0


@contextmanager
def _quiet_pylatexenc() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


class LatexText:
    """Converter with a memory: one pylatexenc instance, each fragment converted once."""

    def __init__(self) -> None:
        self._converter = LatexNodes2Text()
        self._known: dict[str, str | None] = {}

    def convert(self, latex: str) -> str:
        """Plain text of `latex`; the input itself when a guard fires or pylatexenc fails."""
        stripped = latex.strip()
        if not stripped:
            return latex
        if not any(char in stripped for char in "\\{}$"):
            return stripped
        if is_plain_noise(stripped) or is_weak_latex(stripped) or is_broken_latex(stripped):
            return latex
        if stripped not in self._known:
            self._known[stripped] = self._pylatexenc(stripped)
        text = self._known[stripped]
        return latex if text is None else text

    def _pylatexenc(self, latex: str) -> str | None:
        with _quiet_pylatexenc():
            try:
                return str(self._converter.latex_to_text(latex))
            except Exception:  # the official scorer, too, falls back on whatever pylatexenc raises
                return None
