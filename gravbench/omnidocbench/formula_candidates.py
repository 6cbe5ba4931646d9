r"""Is this text a formula, or a caption beside one? The heuristics of the OmniDocBench v1.6 scorer."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gravbench.omnidocbench.text import inline_math

_DISPLAY = re.compile(r"\$\$(.*?)\$\$|\\\[(.*?)\\\]", re.DOTALL)
_WRAPPERS = tuple(
    (closer, re.compile(pattern, re.DOTALL))
    for closer, pattern in (
        ("$$", r"\$\$(.*?)\$\$"),
        ("\\]", r"\\\[(.*?)\\\]"),
        ("\\)", r"\\\((.*?)\\\)"),
        ("$", r"\$(.*?)\$"),
    )
)
_OPERATOR = re.compile(
    r"(?:\\frac|\\sqrt|\\sum|\\int|\\prod|\\times|\\div|\\square|\\cdots|\\left|\\right|\\approx"
    r"|\\xrightarrow|\\rightarrow|\\longrightarrow|=|<|>|≤|≥|≈|÷|×|±|∑|∫|√|→|\^|_|□|△|…|%|/|\+|-)"
)
_SYMBOLS = re.compile(r"(?:\\[A-Za-z]+|[=<>≤≥÷×±∑∫√\^_□△…%/()+\-])")
_CJK = re.compile(r"[\u4e00-\u9fff]")
_LONG_WORD = re.compile(r"[A-Za-z]{4,}")
_DIGIT = re.compile(r"\d")
_SPACE = re.compile(r"\s+")
_RATIO = re.compile(r"\d+\s*/\s*\d+")
_ARROW = re.compile(r"(?P<lhs>.*?)\\xrightarrow\s*\{(?P<label>[^{}]+)\}(?P<rhs>.*)")
_REPLACEMENTS = (
    ("……", " \\cdots \\cdots "),
    ("…", " \\cdots "),
    ("×", " \\times "),
    ("÷", " \\div "),
    ("≤", " \\leq "),
    ("≥", " \\geq "),
    ("≠", " \\neq "),
    ("≈", " \\approx "),
    ("□", " \\square "),
    ("△", " \\triangle "),
    ("（", "("),
    ("）", ")"),
    ("［", "["),
    ("］", "]"),
    ("｛", "{"),
    ("｝", "}"),
)
_REDOX = "氧化还原反应"
_CELL_OPERATORS = ("=", "+", "-", "×", "÷", "/", "≈", "\\times", "\\div", "\\approx")
_LABEL_MATH = (
    *("=", "<", ">", "≤", "≥", "≈", "≠", "^", "+", "-", "/", "\\cdot", "\\frac", "\\sqrt", "\\sum", "\\int"),
    *("\\times", "\\div", "\\approx", "\\neq", "\\leq", "\\geq", "\\xrightarrow", "\\longrightarrow"),
)
_ANY_LABEL_MATH = re.compile("|".join(map(re.escape, _LABEL_MATH)))
_LABEL = re.compile(
    r"[A-Za-z0-9._,-]+|[A-Za-z][A-Za-z0-9_.,-]*|[A-Za-z0-9]+Oy|[ΓγλμνxyzuvwMNOabcABC0-9._,-]+"
)
MAX_CANDIDATE_CHARS = 220
MAX_CELL_CHARS = 120
MAX_LABEL_CHARS = 24


def collapse(text: str) -> str:
    """Whitespace runs to single blanks, none at the ends."""
    return " ".join(text.split())


def without_wrappers(text: str) -> str:
    """Math delimiters replaced by blanks around their content."""
    for closer, pattern in _WRAPPERS:
        if closer in text:
            text = pattern.sub(lambda match: f" {match.group(1)} ", text)
    return text


def is_formula_like(text: str) -> bool:
    """Any of the five signs of a formula in at most 220 characters; see the conditions in order."""
    text = collapse(text)
    if not text or len(text) > MAX_CANDIDATE_CHARS:
        return False
    bare = without_wrappers(text)
    operators = len(_OPERATOR.findall(bare))
    if operators == 0:
        return False
    size = len(_SPACE.sub("", bare))
    if not size:
        return False
    words = len(_LONG_WORD.findall(bare))
    cjk = len(_CJK.findall(bare))
    if any(inline_math(text)) or _DISPLAY.search(text):
        residual = _SPACE.sub("", _DIGIT.sub(" ", _SYMBOLS.sub(" ", bare)))
        if len(residual) <= 18:
            return True
    if ("□" in bare or "\\square" in bare) and words <= 1 and size <= 80:
        return True
    if (
        any(arrow in bare for arrow in ("\\xrightarrow", "\\longrightarrow", "→"))
        and cjk <= 24
        and size <= 120
    ):
        return True
    if operators >= 2 and _DIGIT.search(bare) and words <= 2 and cjk <= 12 and size <= 100:
        return True
    return operators >= 3 and words == 0 and cjk <= 18 and size <= 80


def _with_text_label(text: str) -> str:
    r"""Plain labels over an `\xrightarrow` go into `\text`; the redox note moves under the arrow (quirk)."""
    match = _ARROW.search(text)
    if not match:
        return text
    before, label, behind = (match.group(name).strip() for name in ("lhs", "label", "rhs"))
    if label and "\\" not in label:
        label = f"\\text{{{label}}}"
    arrow = f"\\xrightarrow{{{label}}}"
    if behind.endswith(_REDOX):
        arrow, behind = f"\\underset{{{_REDOX}}}{{{arrow}}}", behind[: -len(_REDOX)].strip()
    return f"{before} {arrow} {behind}".strip()


def sanitized(text: str) -> str:
    r"""A candidate as LaTeX in `\[ .. \]`; '' when nothing is left."""
    text = without_wrappers(collapse(text.replace("\u3000", " ")))
    if not text:
        return ""
    for source, target in _REPLACEMENTS:
        text = text.replace(source, target)
    text = _with_text_label(text)
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = re.sub(r"(?<!\\)&", r"\\&", text)
    text = _SPACE.sub(" ", text).strip()
    if not text or text.startswith(("\\begin{", "$$", "\\[")):
        return text
    return f"\\[ {text} \\]"


def is_arithmetic_cell(text: str) -> bool:
    """A table cell that computes: formula-like, an operator, and two digits or a fraction."""
    text = collapse(text)
    if not text or len(text) > MAX_CELL_CHARS or not any(token in text for token in _CELL_OPERATORS):
        return False
    if not is_formula_like(text):
        return False
    return len(_DIGIT.findall(text)) >= 2 or "\\frac" in text or bool(_RATIO.search(text))


def is_short_label(formula: str) -> bool:
    """An inline formula that only names something (`x`, `A1`, an arrow): dropped from the candidates."""
    formula = formula.strip()
    if not formula:
        return False
    core = without_wrappers(formula)
    compact = _SPACE.sub("", core)
    if compact.startswith(("\\xrightarrow", "\\longrightarrow")):
        return True
    if not compact or len(compact) > MAX_LABEL_CHARS or _ANY_LABEL_MATH.search(core):
        return False
    return bool(_LABEL.fullmatch(compact))


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
_NUMERAL = re.compile(r"[0-9IVXivx]+")
_QUAD = re.compile(r"\s*(?:\\qquad|\\quad)\s*")
_NOT_ARITHMETIC = re.compile(r"\\(mathbf|left|right|cdot|lambda|Gamma|varGamma|text|matrix|pmatrix|bmatrix)")
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
