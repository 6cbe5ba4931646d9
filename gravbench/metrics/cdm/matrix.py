"""Alternative sources for matrices: what the OmniDocBench v1.6 scorer compares besides the raw prediction.

Models write one and the same matrix in many ways (braced cells, bold wrappers, a one-column array of
matrices). When either side of a row hints at a matrix, the prediction is also scored in a cleaned-up form and
the better F1 counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gravbench.metrics.cdm.wrappers import strip_delimiters, strip_tags

MATRICES = ("matrix", "bmatrix", "pmatrix", "vmatrix", "Vmatrix", "smallmatrix")
_ANY = "|".join(MATRICES)
_STYLES = re.compile(r"\\(?:boldsymbol|mathbf|mathrm|mathit|mathsf|mathtt|textbf)\s*\{([^{}]+)\}")
_DETERMINANT = re.compile(r"\\operatorname\s*\{\s*det\s*\}")
_NO_COLUMNS = re.compile(r"\\begin\{array\}\s*\{\s*\}")
_ARRAY = re.compile(r"\\begin\{array\}\s*\{(?P<spec>[^}]*)\}(?P<body>.*?)\\end\{array\}", re.DOTALL)
_MATRIX = re.compile(rf"\\begin\{{(?P<name>{_ANY})\}}(?P<body>.*?)\\end\{{(?P=name)\}}", re.DOTALL)
_ONE_COLUMN = re.compile(r"^\s*\\begin\{array\}\s*\{\s*l\s*\}(?P<body>.*)\\end\{array\}\s*$", re.DOTALL)
_LONE_MATRIX = re.compile(
    rf"^\s*\\begin\{{aligned\*?\}}\s*&?\s*(?P<body>\\begin\{{(?:{_ANY})\}}.*?\\end\{{(?:{_ANY})\}})"
    r"\s*(?:\\\\\s*)?\\end\{aligned\*?\}\s*$",
    re.DOTALL,
)


def matrix_variants(gt: str, pred: str) -> tuple[str, str]:
    """(ground truth to score, second prediction to score or ``""``) of a formula row.

    Without any hint at a matrix: the ground truth without delimiters and tags, and no second prediction.
    With one: the same ground truth, repaired only when an array has no columns, and the cleaned-up
    prediction if it differs from the raw one. Two empty sides give two empty strings.
    """
    truth, prediction = (strip_tags(strip_delimiters(side).strip()) for side in (gt, pred))
    if not (hints_at_matrix(truth) or hints_at_matrix(prediction)):
        return truth, ""
    cleaned_truth = _clean_formula(truth, context=truth)
    cleaned = _clean_formula(prediction, context=cleaned_truth or truth)
    return (
        (cleaned_truth if _NO_COLUMNS.search(strip_delimiters(truth)) else truth) or truth,
        cleaned if cleaned != prediction else "",
    )


def hints_at_matrix(source: str) -> bool:
    """A matrix environment, or an array with `\\left[`, `\\right]` or a cell separator."""
    if any(rf"\begin{{{name}}}" in source for name in MATRICES):
        return True
    return r"\begin{array}" in source and any(sign in source for sign in (r"\left[", r"\right]", "&"))


def _clean_formula(source: str, *, context: str) -> str:
    formula = strip_tags(strip_delimiters(source).strip())
    if not formula:
        return ""
    if not (hints_at_matrix(formula) or hints_at_matrix(strip_tags(context))):
        return formula.strip()
    formula = _clean_fragment(formula)
    column = _ONE_COLUMN.match(formula)
    if column:
        rows = [_clean_fragment(row) for row in _rows(column["body"])]
        if any(map(hints_at_matrix, rows)):
            formula = r" \qquad ".join(rows)
    return _clean_fragment(formula)


def _clean_fragment(source: str) -> str:
    text = _bare(source)
    text = _NO_COLUMNS.sub(r"\\begin{array}{l}", text).replace(r"\dfrac", r"\frac")
    text = re.sub(r"_\{_\{([^{}]+)\}\}", r"_{\1}", text)
    before = None
    while before != text:
        before, text = text, _STYLES.sub(r"\1", text)
    text = _DETERMINANT.sub(r"\\det", text)
    text = _ARRAY.sub(
        lambda a: rf"\begin{{array}}{{{a['spec']}}}{_clean_cells(a['body'])}\end{{array}}", text
    )
    text = _MATRIX.sub(lambda m: rf"\begin{{{m['name']}}}{_clean_cells(m['body'])}\end{{{m['name']}}}", text)
    text = re.sub(rf"(\\begin\{{(?:{_ANY})\}})\s*\\\\", r"\1 ", text)
    text = re.sub(rf"\\\\\s*(\\end\{{(?:{_ANY})\}})", r" \1", text)
    lone = _LONE_MATRIX.match(text)
    return (lone["body"] if lone else text).strip()


def _clean_cells(body: str) -> str:
    """Rows and cells with their outer braces gone."""
    rows = _split(body, r"\\")
    return r"\\".join("&".join(_bare(cell) for cell in _split(row, "&")) for row in rows)


def _bare(text: str) -> str:
    """Text without braces that wrap all of it; `{}` alone stays."""
    text = text.strip()
    while _wraps_all(text) and text[1:-1].strip():
        text = text[1:-1].strip()
    return text


def _wraps_all(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")):
        return False
    depth = 0
    for index, char in enumerate(text):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "}" and depth == 0 and index != len(text) - 1:
            return False
    return depth == 0


def _split(text: str, separator: str) -> list[str]:
    """Pieces between separators outside braces and environments; an empty last piece is dropped."""
    pieces = [""]
    for piece, top in _scan(text, separator):
        if top and piece == separator:
            pieces[-1] = pieces[-1].strip()
            pieces.append("")
        else:
            pieces[-1] += piece
    pieces[-1] = pieces[-1].strip()
    return pieces if pieces[-1] else pieces[:-1]


def _rows(body: str) -> list[str]:
    """Non-empty rows; the star and the optional `[..]` of a row break are swallowed."""
    rows = [""]
    swallow = False
    for piece, top in _scan(body, r"\\", breaks_with_options=True):
        swallow = top and piece.startswith(r"\\")
        if swallow:
            rows.append("")
        else:
            rows[-1] += piece
    return [row.strip() for row in rows if row.strip()]


_BREAK = re.compile(r"\\\\\s*\*?(?:\[[^\]]*\])?")


def _scan(text: str, separator: str, *, breaks_with_options: bool = False) -> Iterator[tuple[str, bool]]:
    """Pieces of `text` with whether they stand outside braces and environments.

    A piece is a whole `\\begin{..}` or `\\end{..}`, the separator, or one character.
    """
    braces = environments = 0
    index = 0
    while index < len(text):
        top = braces == 0 and environments == 0
        tag = re.compile(r"\\(begin|end)\{[^}]*\}").match(text, index)
        if tag:
            environments = environments + 1 if tag[1] == "begin" else max(0, environments - 1)
            piece = tag[0]
        elif top and text.startswith(separator, index):
            found = _BREAK.match(text, index) if breaks_with_options else None
            piece = found[0] if found else separator
        else:
            piece = text[index]
            braces = max(0, braces + {"{": 1, "}": -1}.get(piece, 0))
        yield piece, top
        index += len(piece)
