r"""What stands beside a display formula: equation numbers, captions, several sums in one line.

OmniDocBench v1.6 scorer, "margin text and compound formulas".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gravbench.omnidocbench.markdown.candidates import collapse

Span = tuple[int, int]

_ENVELOPES = (("\\[", "\\]"), ("\\(", "\\)"), ("$$", "$$"), ("$", "$"))
_GAP = r"(?:\\qquad|\\quad|\\enspace|\\,|\\;|\\:)\s*"
_NUMBER = re.compile(
    r"^\s*(?P<prefix>(?:\\left\(\s*[0-9IVXivx]+\s*\\right\)|\(\s*[0-9IVXivx]+\s*\)))\s*(?:" + _GAP + ")*"
)
_CAPTIONS = (
    re.compile(r"(?P<gap>" + _GAP + r")(?P<caption>\\text\s*\{[^{}]*\}\.?)\s*$"),
    re.compile(r"(?P<gap>" + _GAP + r")(?P<caption>\([^)]*[A-Za-z][^)]*\)\.?)\s*$"),
)
_TRAILING_GAPS = re.compile(r"(?:" + _GAP + r")+$")
_LETTER = re.compile(r"[A-Za-z]")
_WORD = re.compile(r"[A-Za-z]{2,}")
_MATH = re.compile(r"(?:\\[A-Za-z]+|[=<>≤≥÷×±∑∫√_^{}])")
_DIGIT = re.compile(r"\d")
_NUMERAL = re.compile(r"[0-9IVXivx]+")
_QUAD = re.compile(r"\s*(?:\\qquad|\\quad)\s*")
_NOT_ARITHMETIC = re.compile(r"\\(mathbf|left|right|cdot|lambda|Gamma|varGamma|text|matrix|pmatrix|bmatrix)")
_RATIO = re.compile(r"\d+\s*/\s*\d+")
_RELATIONS = ("=", "\\approx", "≈", "\\neq", "≠", "\\leq", "≤", "\\geq", "≥")
MAX_PART_CHARS = 160


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a display formula and the range it is given."""

    text: str
    span: Span


def _unwrap(formula: str) -> tuple[str, str, str]:
    for left, right in _ENVELOPES:
        if formula.startswith(left) and formula.endswith(right) and len(formula) >= len(left) + len(right):
            return left, right, formula[len(left) : len(formula) - len(right)].strip()
    return "", "", formula


def _wrap(inner: str, left: str, right: str) -> str:
    inner = inner.strip()
    return f"{left} {inner} {right}" if inner and left else inner


def _plain(latex: str, to_text: Callable[[str], str]) -> str:
    latex = latex.strip()
    return re.sub(r"\s+", " ", to_text(latex).replace("\xa0", " ")).strip() if latex else ""


def _is_caption(raw: str, to_text: Callable[[str], str]) -> bool:
    """Words enough for a caption, and hardly any mathematics; a number or roman numeral is not one."""
    raw = raw.strip()
    plain = _plain(raw, to_text)
    if not plain:
        return False
    core = plain[1:-1].strip() if plain.startswith("(") and plain.endswith(")") else plain
    if _NUMERAL.fullmatch(core.replace(" ", "")):
        return False
    letters = len(_LETTER.findall(plain))
    maths = len(_MATH.findall(raw))
    if letters >= 10 and len(_WORD.findall(plain)) >= 2 and maths <= 6:
        return True
    return letters >= 14 and not _DIGIT.search(plain) and maths <= 3


def _last_caption(formula: str, to_text: Callable[[str], str]) -> re.Match[str] | None:
    for pattern in _CAPTIONS:
        match = pattern.search(formula)
        if match and _is_caption(match.group("caption"), to_text):
            return match
    return None


def split_margin(formula: str, span: Span, to_text: Callable[[str], str]) -> tuple[str, list[Piece]]:
    """The formula without number and captions, and those as plain text with their ranges.

    A formula without any keeps its exact spelling; one that would be left empty stays whole.
    """
    compact = collapse(formula)
    left, right, inner = _unwrap(compact)
    number = _NUMBER.match(inner)
    if not inner or not (number or _last_caption(inner, to_text)):
        return formula, []
    pieces: list[Piece] = []

    def add(raw: str, where: Span) -> None:
        plain = _plain(raw, to_text)
        if plain:
            pieces.append(Piece(plain, where))

    start, end = span
    if number:
        prefix = number.group("prefix").strip()
        add(prefix, (start, min(end, start + len(prefix))))
        inner = inner[number.end() :].strip()
    while inner and (caption := _last_caption(inner, to_text)):
        raw = caption.group("caption").strip()
        add(raw, (max(start, end - len(raw)), end))
        inner = inner[: caption.start("gap")].rstrip()
    inner = _TRAILING_GAPS.sub("", inner).strip()
    return (_wrap(inner, left, right), pieces) if inner else (compact, [])


def _is_arithmetic(part: str) -> bool:
    if len(part) > MAX_PART_CHARS or "\\begin{" in part or "\\end{" in part or _NOT_ARITHMETIC.search(part):
        return False
    if not any(relation in part for relation in _RELATIONS):
        return False
    return len(_DIGIT.findall(part)) >= 2 or "\\frac" in part or bool(_RATIO.search(part))


def split_compound(formula: str, span: Span) -> list[Piece]:
    r"""Sums set side by side with `\quad`: one piece each, the range divided evenly; empty otherwise."""
    if "\\quad" not in formula and "\\qquad" not in formula:
        return []
    left, right, inner = _unwrap(collapse(formula))
    parts = [part.strip() for part in _QUAD.split(inner) if part.strip()]
    if len(parts) <= 1 or not all(_is_arithmetic(collapse(part)) for part in parts):
        return []
    start, end = span
    share = max(max(end - start, len(parts)) // len(parts), 1)
    pieces = []
    for index, part in enumerate(parts):
        first = start + index * share
        last = end if index == len(parts) - 1 else min(end, first + share)
        pieces.append(Piece(_wrap(part, left, right), (first, last)))
    return pieces
