r"""Is this text a formula? The heuristics of the OmniDocBench v1.6 scorer, and its clean-up of candidates."""

from __future__ import annotations

import re

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
    residual = _SPACE.sub("", _DIGIT.sub(" ", _SYMBOLS.sub(" ", bare)))
    if len(residual) <= 18 and (any(inline_math(text)) or _DISPLAY.search(text)):
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
    if not compact or len(compact) > MAX_LABEL_CHARS or any(token in core for token in _LABEL_MATH):
        return False
    return bool(_LABEL.fullmatch(compact))
