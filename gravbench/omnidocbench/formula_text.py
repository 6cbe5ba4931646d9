r"""Formulas as strings, as in the OmniDocBench v1.6 scorer: normal form, rows, and the spellings CDM gets.

Several steps of the normal form work on text rather than on LaTeX; those accidents move published digits and
are kept, each marked *quirk*. When a formula shows signs of a matrix, its prediction gets a second, sanitised
spelling, and the better CDM of the two counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_INNER_MATH = re.compile(r"\\\[(.+?)(?<!\\)\\\]|\\\((.+?)(?<!\\)\\\)")
_THIN_SPACES = re.compile(r"\\[!,;:]")
_ALIGNMENT = re.compile(r"(?<!\\)&")
_DROPPED = (
    ("\\hspace", re.compile(r"\\hspace\{.*?\}")),
    ("\\begin", re.compile(r"\\begin\{.*?\}")),
    ("\\end", re.compile(r"\\end\{.*?\}")),
    ("\\arraycolsep", re.compile(r"\\arraycolsep.*?\}")),
    ("{", re.compile(r"\{[lcr| ]+\}")),
)
"""What a pattern begins with, and the pattern."""
# Quirk: plain text deletions, in this order, so prefixes of longer names go too:
# \leftarrow -> arrow, \texttt -> tt, \bmod -> od, \textit -> it.
_DELETED_NAMES = (
    *("\\mathbf", "\\mathrm", "\\mathnormal", "\\mathit", "\\mathbb", "\\mathcal", "\\mathscr"),
    *("\\mathfrak", "\\mathsf", "\\mathtt", "\\textbf", "\\text", "\\boldmath", "\\boldsymbol"),
    *("\\operatorname", "\\bm", "\\symbfit", "\\mathbfcal", "\\symbf", "\\scriptscriptstyle", "\\notag"),
    *("\\setlength", "\\coloneqq", "\\space", "\\thickspace", "\\thinspace", "\\medspace"),
    *("\\nobreakspace", "\\negmedspace", "\\quad", "\\qquad", "\\enspace", "\\substackw", " ", "$$"),
    *("\\left", "\\right", "\\displaystyle", "\\text"),
)
_SIMPLE_GROUP = re.compile(r"\{([A-Za-z0-9.+\-]+)\}")
_OPENING_RUN = re.compile(r"\{\{+")
_CLOSING_RUN = re.compile(r"}}+")
_INNERMOST = re.compile(r"\{([^{}]{1,160})\}")
_UNWRAPPING = re.compile(r"[=+\-^_\[\]()]|\\\\")
_SPACE = re.compile(r"\s+")
_BRACE = re.compile(r"[{}]")


def strip_delimiters(text: str) -> str:
    r"""Remove enclosing `$$`, `\[ \]`, `\( \)`, `$` for as long as there are any."""
    text = text.strip().strip("\n")
    while text:
        for left, right in _DELIMITERS:
            if text.startswith(left) and text.endswith(right) and len(text) >= len(left) + len(right):
                text = text[len(left) : len(text) - len(right)].strip()
                break
        else:
            break
    return text


def _group_end(text: str, start: int) -> int | None:
    """Index behind the group whose content begins at `start`; None when it never closes."""
    depth = 1
    for index in range(start, len(text)):
        if text[index] == "{":
            depth += 1
        elif text[index] == "}":
            depth -= 1
            if depth == 0:
                return index + 1
    return None


def _skip_spaces(text: str, index: int) -> int:
    while index < len(text) and text[index].isspace():
        index += 1
    return index


def _brace_partners(text: str) -> dict[int, int]:
    """Index of every `{` that closes -> index of its `}`."""
    partners: dict[int, int] = {}
    stack: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace.group() == "{":
            stack.append(brace.start())
        elif stack:
            partners[stack.pop()] = brace.start()
    return partners


def _drop_tag_commands(text: str) -> str:
    if "\\tag" not in text:
        return text
    partners = _brace_partners(text)
    pieces: list[str] = []
    done = search = 0
    while (start := text.find("\\tag", search)) >= 0:
        search = after = start + len("\\tag")
        if after < len(text) and text[after].isalpha():
            continue
        index = _skip_spaces(text, after)
        if index < len(text) and text[index] == "*":
            index = _skip_spaces(text, index + 1)
        if index >= len(text) or text[index] != "{":
            continue
        # an argument that never closes loses its command only
        search = partners[index] + 1 if index in partners else after
        pieces.append(text[done:start])
        done = search
    return "".join((*pieces, text[done:]))


def strip_tags(text: str) -> str:
    r"""Remove `\tag{..}`, `\tag*{..}`, `\notag` and `\nonumber`."""
    if "\\" not in text:
        return text
    return _drop_tag_commands(text).replace("\\notag", "").replace("\\nonumber", "")


def _drop_phantoms(text: str) -> str:
    command = "\\phantom"
    while (start := text.find(command + "{")) >= 0:
        end = _group_end(text, start + len(command) + 1)
        if end is None:
            return text[:start] + text[start + len(command) :]
        text = text[:start] + text[end:]
    return text


def _unwrap_group(match: re.Match[str]) -> str:
    inner = match.group(1)
    return inner if _UNWRAPPING.search(inner) else match.group(0)


def _simplify_braces(text: str) -> str:
    """Unwrap atoms and operator-bearing groups until nothing changes."""
    previous = None
    while text != previous and ("{" in text or "}" in text):
        previous = text
        text = _SIMPLE_GROUP.sub(r"\1", text).replace("{}", "")
        if "{{" in text:
            text = _OPENING_RUN.sub("{", text)
        if "}}" in text:
            text = _CLOSING_RUN.sub("}", text)
        if "{" in text:
            text = _INNERMOST.sub(_unwrap_group, text)
    return text


def normalized_formula(text: str) -> str:
    """Canonical text of one formula, lower case and without whitespace; '' when nothing is left."""
    text = strip_tags(strip_delimiters(replace_circled(text)))
    if ("\\]" in text or "\\)" in text) and (inner := _INNER_MATH.search(text)):
        text = (inner.group(1) or inner.group(2) or "").strip()
    text = _drop_phantoms(text)
    if "\\" in text:
        text = _THIN_SPACES.sub("", text)
    if "&" in text:
        text = _ALIGNMENT.sub("", text)
    text = text.replace("\\mid", "|").replace("\\vert", "|")  # quirk: textual, \middle -> |dle
    text = text.replace("\\{", "").replace("\\}", "").replace("~", "")
    for start, pattern in _DROPPED:
        if start in text:
            text = pattern.sub("", text)
    text = text.strip(".")
    for name in _DELETED_NAMES:
        text = text.replace(name, "")
    return _SPACE.sub("", _simplify_braces(text).lower())


def cdm_spelling(latex: str, *, fenced: bool = False) -> str:
    """A formula as CDM gets it: without dollars at its ends, outer brackets and tags.

    `fenced`: only what stands behind the last "```latex" and before the next "```" counts.
    """
    if fenced:
        latex = latex.split("```latex")[-1].split("```")[0]
    text = latex.strip().strip("$").strip().strip("$").strip()
    for left, right in (("\\[", "\\]"), ("\\(", "\\)")):
        if text.startswith(left) and text.endswith(right):
            text = text[2:-2].strip()
    return strip_tags(text).strip()


_COMMAND = re.compile(r"\\textcircled\s*\{\s*([^{}]+?)\s*\}")
_CHARACTERS = {0x2460 + i: str(i + 1) for i in range(20)}  # nothing above ⑳ (quirk)
_CHARACTERS |= {0x24D0 + i: chr(ord("a") + i) for i in range(26)}
_ANY_CIRCLED = re.compile("[\u2460-\u2473\u24b6-\u24e9]")
_CHARACTERS |= {0x24B6 + i: chr(ord("A") + i) for i in range(26)}


def replace_circled(text: str) -> str:
    """`text` with circled digits 1..20 and letters replaced by the plain ones."""
    if "\\textcircled" in text:
        text = _COMMAND.sub(lambda match: match.group(1).strip(), text)
    return text.translate(_CHARACTERS) if not text.isascii() and _ANY_CIRCLED.search(text) else text


_ROW_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\|[{}]")


def is_escaped(text: str, index: int) -> bool:
    """An odd number of backslashes stands right before `index`."""
    cursor = index
    while cursor > 0 and text[cursor - 1] == "\\":
        cursor -= 1
    return (index - cursor) % 2 == 1


def _behind_row_break(text: str, index: int) -> int:
    r"""Index behind the blanks, the `*` and the `[..]` that may follow a `\\`."""
    while index < len(text) and text[index].isspace():
        index += 1
    if index < len(text) and text[index] == "*":
        index += 1
    if index < len(text) and text[index] == "[":
        closing = text.find("]", index + 1)
        if closing >= 0:
            return closing + 1
    return index


def split_rows(body: str, *, escaped_braces: bool = True) -> list[str]:
    r"""Non-empty rows of `body`, cut at `\\` outside braces and environments.

    `escaped_braces`: a `\{` opens no group. The CDM sanitiser of the official scorer counts it (quirk).
    """
    rows: list[str] = []
    braces = environments = start = position = 0
    if "\\\\" not in body:
        return [row] if (row := body.strip()) else []
    while token := _ROW_TOKEN.search(body, position):
        first, position = token.span()
        kind = token.group()
        if kind in "{}":
            escaped = escaped_braces and first and body[first - 1] == "\\" and is_escaped(body, first)
            if not escaped:
                braces = braces + 1 if kind == "{" else max(0, braces - 1)
        elif kind[1] == "b":
            environments += 1
        elif kind[1] == "e":
            environments = max(0, environments - 1)
        else:
            if braces or environments:
                # only the first backslash is ordinary here; the second may still escape what follows
                position = first + 1
                continue
            rows.append(body[start:first].strip())
            start = position = _behind_row_break(body, position)
    rows.append(body[start:].strip())
    return [row for row in rows if row]


_MATRICES = ("matrix", "bmatrix", "pmatrix", "vmatrix", "Vmatrix", "smallmatrix")
_ANY_MATRIX = "|".join(_MATRICES)
# Few formulas hold a matrix: these are compiled by their first use.
_STYLE = r"\\(?:boldsymbol|mathbf|mathrm|mathit|mathsf|mathtt|textbf)\s*\{([^{}]+)\}"
_DET = r"\\operatorname\s*\{\s*det\s*\}"
_EMPTY_SPEC = r"\\begin\{array\}\s*\{\s*\}"
_SINGLE_COLUMN = r"(?s)^\s*\\begin\{array\}\s*\{\s*l\s*\}(?P<body>.*)\\end\{array\}\s*$"
_ALIGNED_MATRIX = (
    r"(?s)^\s*\\begin\{aligned\*?\}\s*&?\s*"
    rf"(?P<body>\\begin\{{(?:{_ANY_MATRIX})\}}.*?\\end\{{(?:{_ANY_MATRIX})\}})"
    r"\s*(?:\\\\\s*)?\\end\{aligned\*?\}\s*$"
)
_ARRAY = r"(?s)\\begin\{array\}\s*\{(?P<spec>[^}]*)\}(?P<body>.*?)\\end\{array\}"
_MATRIX = rf"(?s)\\begin\{{(?P<env>{_ANY_MATRIX})\}}(?P<body>.*?)\\end\{{(?P=env)\}}"
_BREAK_AT_START = rf"(\\begin\{{(?:{_ANY_MATRIX})\}})\s*\\\\"
_BREAK_AT_END = rf"\\\\\s*(\\end\{{(?:{_ANY_MATRIX})\}})"
_DOUBLE_SUBSCRIPT = r"_\{_\{([^{}]+)\}\}"
_PART_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\|[{}&]")


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
    while token := _PART_TOKEN.search(text, position):
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
        previous, text = text, re.sub(_STYLE, r"\1", text)
    return re.sub(_DET, r"\\det", text)


def _sanitized_fragment(text: str) -> str:
    text = _without_outer_braces(text)
    text = re.sub(_EMPTY_SPEC, r"\\begin{array}{l}", text)
    text = text.replace("\\dfrac", "\\frac")
    text = _without_styles(re.sub(_DOUBLE_SUBSCRIPT, r"_{\1}", text))
    text = re.sub(_MATRIX, _clean_matrix, re.sub(_ARRAY, _clean_array, text))
    text = re.sub(_BREAK_AT_START, r"\1 ", text)
    text = re.sub(_BREAK_AT_END, r" \1", text)
    if aligned := re.match(_ALIGNED_MATRIX, text):
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
    if column := re.match(_SINGLE_COLUMN, formula):
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
    shown = clean_truth if re.search(_EMPTY_SPEC, raw_truth) else raw_truth
    return MatrixVariants(shown or raw_truth, alternative if alternative not in ("", raw) else "")
