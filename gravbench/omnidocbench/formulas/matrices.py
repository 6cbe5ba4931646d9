r"""Matrix clean-up before CDM (OmniDocBench v1.6 scorer, "CDM side fields").

When a formula shows signs of a matrix, its prediction gets a second, sanitised spelling; the better CDM of
the two counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gravbench.omnidocbench.formulas.normal_form import strip_delimiters, strip_tags
from gravbench.omnidocbench.formulas.split import split_rows

_MATRICES = ("matrix", "bmatrix", "pmatrix", "vmatrix", "Vmatrix", "smallmatrix")
_ANY_MATRIX = "|".join(_MATRICES)
_STYLE = re.compile(r"\\(?:boldsymbol|mathbf|mathrm|mathit|mathsf|mathtt|textbf)\s*\{([^{}]+)\}")
_DET = re.compile(r"\\operatorname\s*\{\s*det\s*\}")
_EMPTY_SPEC = re.compile(r"\\begin\{array\}\s*\{\s*\}")
_SINGLE_COLUMN = re.compile(r"^\s*\\begin\{array\}\s*\{\s*l\s*\}(?P<body>.*)\\end\{array\}\s*$", re.DOTALL)
_ALIGNED_MATRIX = re.compile(
    r"^\s*\\begin\{aligned\*?\}\s*&?\s*"
    rf"(?P<body>\\begin\{{(?:{_ANY_MATRIX})\}}.*?\\end\{{(?:{_ANY_MATRIX})\}})"
    r"\s*(?:\\\\\s*)?\\end\{aligned\*?\}\s*$",
    re.DOTALL,
)
_ARRAY = re.compile(r"\\begin\{array\}\s*\{(?P<spec>[^}]*)\}(?P<body>.*?)\\end\{array\}", re.DOTALL)
_MATRIX = re.compile(rf"\\begin\{{(?P<env>{_ANY_MATRIX})\}}(?P<body>.*?)\\end\{{(?P=env)\}}", re.DOTALL)
_BREAK_AT_START = re.compile(rf"(\\begin\{{(?:{_ANY_MATRIX})\}})\s*\\\\")
_BREAK_AT_END = re.compile(rf"\\\\\s*(\\end\{{(?:{_ANY_MATRIX})\}})")
_DOUBLE_SUBSCRIPT = re.compile(r"_\{_\{([^{}]+)\}\}")
_CELL_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\|[{}&]")


def has_matrix_hint(formula: str) -> bool:
    """A matrix environment, or an array with big brackets or columns."""
    if any(f"\\begin{{{name}}}" in formula for name in _MATRICES):
        return True
    if "\\begin{array}" not in formula:
        return False
    return "\\left[" in formula or "\\right]" in formula or "&" in formula


def _is_one_group(text: str) -> bool:
    if not text.startswith("{") or not text.endswith("}"):
        return False
    depth = 0
    for index, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if char == "}" and depth == 0 and index != len(text) - 1:
            return False
    return depth == 0


def _without_outer_braces(text: str) -> str:
    text = text.strip()
    while _is_one_group(text) and (inner := text[1:-1].strip()):
        text = inner
    return text


def _parts(text: str, separator: str) -> list[str]:
    """`text` cut at `separator` outside braces and environments; an empty last part is left out."""
    parts: list[str] = []
    braces = environments = start = position = 0
    while token := _CELL_TOKEN.search(text, position):
        kind = token.group()
        position = token.end()
        if kind.startswith("\\begin"):
            environments += 1
        elif kind.startswith("\\end"):
            environments = max(0, environments - 1)
        elif kind == "{":
            braces += 1
        elif kind == "}":
            braces = max(0, braces - 1)
        elif kind == separator and not braces and not environments:
            parts.append(text[start : token.start()].strip())
            start = position
        elif kind == "\\\\":
            position = token.start() + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _clean_body(body: str) -> str:
    rows = (_parts(row, "&") for row in _parts(body, "\\\\"))
    return "\\\\".join("&".join(_without_outer_braces(cell) for cell in row) for row in rows)


def _clean_array(match: re.Match[str]) -> str:
    return f"\\begin{{array}}{{{match['spec']}}}{_clean_body(match['body'])}\\end{{array}}"


def _clean_matrix(match: re.Match[str]) -> str:
    return f"\\begin{{{match['env']}}}{_clean_body(match['body'])}\\end{{{match['env']}}}"


def _without_styles(text: str) -> str:
    previous = None
    while text != previous:
        previous, text = text, _STYLE.sub(r"\1", text)
    return _DET.sub(r"\\det", text)


def _sanitized_fragment(text: str) -> str:
    text = _without_outer_braces(text)
    text = _EMPTY_SPEC.sub(r"\\begin{array}{l}", text)
    text = text.replace("\\dfrac", "\\frac")
    text = _without_styles(_DOUBLE_SUBSCRIPT.sub(r"_{\1}", text))
    text = _MATRIX.sub(_clean_matrix, _ARRAY.sub(_clean_array, text))
    text = _BREAK_AT_START.sub(r"\1 ", text)
    text = _BREAK_AT_END.sub(r" \1", text)
    if aligned := _ALIGNED_MATRIX.match(text):
        text = aligned["body"]
    return text.strip()


def sanitized_for_cdm(formula: str, truth: str = "") -> str:
    """Matrix formulas spelled plainly; a single-column array of matrices side by side."""
    formula = strip_tags(strip_delimiters(formula))
    if not formula:
        return ""
    if not has_matrix_hint(formula) and not has_matrix_hint(strip_tags(truth)):
        return formula.strip()
    formula = _sanitized_fragment(formula)
    if column := _SINGLE_COLUMN.match(formula):
        rows = [_sanitized_fragment(row) for row in split_rows(column["body"], escaped_braces=False)]
        if any(has_matrix_hint(row) for row in rows):
            formula = " \\qquad ".join(rows)
    return _sanitized_fragment(formula)


@dataclass(frozen=True, slots=True)
class MatrixVariants:
    """Truth as CDM gets it, and a second spelling of the prediction ('': there is none)."""

    truth: str
    alternative: str


def matrix_variants(truth: str, prediction: str) -> MatrixVariants:
    """CDM spellings of one pair; only formulas with a matrix hint differ from the plain ones."""
    raw_truth = strip_tags(strip_delimiters(truth))
    raw = strip_tags(strip_delimiters(prediction))
    if not has_matrix_hint(raw_truth) and not has_matrix_hint(raw):
        return MatrixVariants(raw_truth, "")
    clean_truth = sanitized_for_cdm(raw_truth, raw_truth)
    alternative = sanitized_for_cdm(raw, clean_truth or raw_truth)
    shown = clean_truth if _EMPTY_SPEC.search(raw_truth) else raw_truth
    return MatrixVariants(shown or raw_truth, alternative if alternative not in ("", raw) else "")
