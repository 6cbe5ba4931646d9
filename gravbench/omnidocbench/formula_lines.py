r"""Multi-line formulas -> one formula a line (OmniDocBench v1.6 scorer, "splitting multi-line formulas").

A formula is cut when its whole body is one multi-line environment (or bare rows) whose rows stand on their
own; systems of cases and brace-wrapped groups stay together. Ground truth is always scored line by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from gravbench.omnidocbench.formula_text import is_escaped, split_rows, strip_delimiters, strip_tags

_ALIGNED = frozenset({"aligned", "align", "align*", "alignedat", "alignedat*"})
_LOGIC = re.compile(
    r"\\(?:Rightarrow|Leftrightarrow|Longrightarrow|Longleftrightarrow|longrightarrow|longleftrightarrow|"
    r"implies|therefore|because|uparrow|downarrow|Updownarrow|forall|exists)\b|单调|否定"
)
_NESTED = re.compile(
    r"\\begin\{(?:array|aligned|align\*?|alignedat\*?|split|gathered?|multline\*?|flalign\*?|eqnarray\*?|cases)\}"
)
_CASE_LEAD = re.compile(
    r"^(?:\(?\d+\)?|\\(?:Rightarrow|Leftrightarrow|Longrightarrow|Longleftrightarrow|implies|therefore|"
    r"uparrow|downarrow|Updownarrow|leftarrow|rightarrow))"
)
_EXPLANATION = re.compile(r"\\(?:text|mathrm|operatorname)\s*\{")
_OPENING_BRACE = re.compile(r"^(?:\\left\s*\\\{|\\left\.)\s*")
_CLOSING_BRACE = re.compile(r"\s*\\right(?:\.|\\\})\s*$")
_ARGUMENT = re.compile(r"\{([^{}]*)\}")
_LABEL = re.compile(r"\\label\s*\{[^{}]*\}")
_TAG = re.compile(r"\\tag\*?\s*\{[^{}]*\}")
_SPACING = re.compile(r"(?:\\qquad|\\quad|\\,|\\;|\\!|\\>|\\:|~)+")
_LAST_SPACING = re.compile(r"(?:\\qquad|\\quad|\\,|\\;|\\!|\\>|\\:|~)\s*$")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a split formula: its LaTeX, and where it lies in the unsplit source (both ends in it)."""

    latex: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows to cut at, and where the body and what follows the environment lie in the source."""

    body: str
    body_at: int
    suffix: str = ""
    suffix_end: int = 0


def _trim_spacing(text: str) -> str:
    text = text.rstrip()
    while (shorter := _LAST_SPACING.sub("", text).rstrip()) != text:
        text = shorter
    return text


def _is_end_label(label: str, prefix: str) -> bool:
    """`(12a)`, `[#]`, `(\\star)` behind a space or spacing command; up to three small letters are maths."""
    if not label or (prefix and not (prefix[-1].isspace() or _SPACING.search(prefix[-10:]))):
        return False
    if re.fullmatch(r"[a-z]{1,3}", label):
        return False
    return bool(re.fullmatch(r"[A-Za-z0-9.\-#]+", label) or re.fullmatch(r"(?:\\[A-Za-z#]+)+", label))


def _without_end_labels(trailing: str) -> str:
    """What follows the environment, less `\\label`, trailing `\\tag` and trailing `(1)` or `[1]` labels."""
    text = _LABEL.sub("", trailing)
    while stripped := text.rstrip():
        tag = _TAG.search(stripped)
        if tag and tag.end() == len(stripped):
            text = _trim_spacing(stripped[: tag.start()])
            continue
        if stripped[-1] not in ")]":
            return stripped
        start = stripped.rfind("(" if stripped[-1] == ")" else "[")
        if start < 0 or not _is_end_label(stripped[start + 1 : -1].strip(), stripped[:start]):
            return stripped
        text = _trim_spacing(stripped[:start])
    return ""


def _without_markers(row: str) -> str:
    row = row.lstrip()
    while row.startswith("&"):
        row = row[1:].lstrip()
    return row


def _reads_as_case(row: str) -> bool:
    """The row begins like an entry of a list: `(1)`, a number, an implication or an arrow."""
    return bool(_CASE_LEAD.match(strip_tags(_without_markers(row)).strip()))


def _explains(row: str) -> bool:
    return bool(_EXPLANATION.search(_without_markers(row)))


def _has_own_left_side(row: str) -> bool:
    cells = split_cells(row)
    return len(cells) > 1 and bool(strip_tags(cells[0]).strip())


def has_logic_marker(text: str) -> bool:
    """An implication, a quantifier, an up or down arrow, or one of two Chinese words of logic."""
    return bool(_LOGIC.search(text))


def lists_statements(body: str, rows: list[str]) -> bool:
    """A `cases` block that lists statements rather than the branches of one function."""
    if len(rows) <= 1 or any(len(split_cells(row)) > 1 for row in rows) or not has_logic_marker(body):
        return False
    if _NESTED.search(body) or any(has_logic_marker(row) for row in rows):
        return True
    return any(_explains(row) for row in rows[1:])


def _stays_aligned(body: str, rows: list[str], *, braced: bool) -> bool:
    nested = bool(_NESTED.search(body))
    case_like = any(_reads_as_case(row) for row in rows[1:])
    if nested and case_like:
        return True
    if not braced:
        return False
    if nested or case_like or sum(_has_own_left_side(row) for row in rows) >= 2:
        return True
    return any(_explains(row) for row in rows[1:])


def _column_spec(extra: str) -> str:
    groups = _ARGUMENT.findall(extra)
    spec = re.sub(r"\s+|\|", "", groups[0] if groups else "")
    return re.sub(r"!{[^}]*}", "", re.sub(r"@{[^}]*}", "", spec))


def _stays_array(extra: str, body: str, rows: list[str], *, braced: bool) -> bool:
    """Anything but one column, or two of which one is l or r, is a matrix and stays."""
    spec = _column_spec(extra)
    lines_up = len(spec) == 1 or (len(spec) == 2 and ("l" in spec or "r" in spec))
    if not spec or set(spec) - set("lcr") or not lines_up:
        return True
    if _NESTED.search(body) and any(_reads_as_case(row) for row in rows[1:]):
        return True
    return braced and set(spec) == {"l"} and len(rows) > 1


def _environment_block(source: str) -> _Block | None:
    formula = strip_delimiters(source).strip()
    opening = _OPENING_BRACE.match(formula)
    core = formula[opening.end() :].lstrip() if opening else formula
    closing = _CLOSING_BRACE.search(core)
    core = core[: closing.start()].rstrip() if closing else core
    begin = MULTILINE_BEGIN.match(core)
    if not begin:
        return None
    name = begin.group("env")
    end = environment_end(core, name, begin.end())
    if end < begin.end():
        return None
    body = core[begin.end() : end]
    rows = split_rows(body)
    braced = bool(opening or closing)
    if name == "cases" and not lists_statements(body, rows):
        return None
    if name in _ALIGNED and _stays_aligned(body, rows, braced=braced):
        return None
    if name == "array" and _stays_array(begin.group("extra"), body, rows, braced=braced):
        return None
    end_tag = f"\\end{{{name}}}"
    suffix = _without_end_labels(core[end + len(end_tag) :]).strip()
    if suffix and len(split_rows(suffix)) > 1:
        return None
    body_at = max(source.find(body), 0)
    suffix_end = 0
    if suffix and (tag_at := source.find(end_tag, body_at + len(body))) >= 0:
        suffix_at = source.find(suffix, tag_at + len(end_tag))
        suffix_end = suffix_at + len(suffix) if suffix_at >= 0 else 0
    return _Block(body, body_at, suffix, suffix_end)


def _bare_block(source: str) -> _Block | None:
    formula = strip_delimiters(source).strip()
    if "\\\\" not in formula or len(split_rows(formula)) <= 1:
        return None
    return _Block(formula, max(source.find(formula), 0))


@lru_cache(maxsize=4096)
def split_formula(source: str) -> tuple[Line, ...]:
    """Lines of a multi-line formula, tags removed; empty when it is not to be cut."""
    if "\\\\" not in source:
        return ()
    block = _environment_block(source) or _bare_block(source)
    if block is None:
        return ()
    contents = [content for row in split_rows(block.body) if (content := strip_tags(row).strip())]
    if len(contents) <= 1:
        return ()
    lines: list[Line] = []
    search = 0
    for content in contents:
        at = block.body.find(content, search)
        at = search if at < 0 else at
        search = at + len(content)
        lines.append(Line(content, block.body_at + at, block.body_at + search - 1))
    tail = lines[-1]
    lines[-1] = Line(
        f"{tail.latex} {strip_tags(block.suffix).strip()}".strip(),
        tail.first,
        block.suffix_end - 1 if block.suffix_end > 0 else tail.last,
    )
    return tuple(lines)


_CELL_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|&")
_MULTILINE_ENVIRONMENTS = (
    *("array", "aligned", "align", "align*", "alignedat", "alignedat*", "split", "gather", "gather*"),
    *("gathered", "multline", "multline*", "flalign", "flalign*", "eqnarray", "eqnarray*", "cases"),
)
MULTILINE_BEGIN = re.compile(
    r"\\begin\{(?P<env>"
    + "|".join(re.escape(name) for name in _MULTILINE_ENVIRONMENTS)
    + r")\}\s*(?P<extra>(?:\{[^{}]*\}\s*)*)"
)
"""A multi-line environment with the brace arguments behind its name; to be used with `match`."""


def split_cells(row: str) -> list[str]:
    """Cells of one row, cut at unescaped `&` outside environments; braces do not protect (quirk)."""
    cells: list[str] = []
    environments = start = 0
    for token in _CELL_TOKEN.finditer(row):
        kind = token.group()
        if kind.startswith("\\begin"):
            environments += 1
        elif kind.startswith("\\end"):
            environments = max(0, environments - 1)
        elif not environments and not is_escaped(row, token.start()):
            cells.append(row[start : token.start()].strip())
            start = token.end()
    cells.append(row[start:].strip())
    return cells


def environment_end(text: str, name: str, start: int) -> int:
    r"""Index of the `\end{name}` that closes an environment whose body begins at `start`; -1 without one."""
    begin, end = f"\\begin{{{name}}}", f"\\end{{{name}}}"
    depth, index = 1, start
    while True:
        closing = text.find(end, index)
        if closing < 0:
            return -1
        opening = text.find(begin, index, closing)
        if opening >= 0:
            depth += 1
            index = opening + len(begin)
            continue
        depth -= 1
        if depth == 0:
            return closing
        index = closing + len(end)


_LOOK_AHEAD_CHARS = 200


def _lists_statements(body: str, behind: str) -> bool:
    """More than one row, no alignment; logic in the block or right behind it, or an environment there."""
    rows = split_rows(body)
    if len(rows) <= 1 or any(len(split_cells(row)) > 1 for row in rows):
        return False
    return has_logic_marker(body) or has_logic_marker(behind) or bool(MULTILINE_BEGIN.match(behind.lstrip()))


def _rewritten(text: str) -> tuple[str, bool]:
    pieces: list[str] = []
    cursor, changed = 0, False
    while (begin_at := text.find("\\begin{", cursor)) >= 0:
        pieces.append(text[cursor:begin_at])
        begin = MULTILINE_BEGIN.match(text, begin_at)
        if not begin:
            cursor = begin_at + len("\\begin{")
            pieces.append(text[begin_at:cursor])
            continue
        name = begin.group("env")
        body_at = begin.end()
        end = environment_end(text, name, body_at)
        if end < body_at:
            cursor = begin_at
            break
        end_tag = f"\\end{{{name}}}"
        cursor = end + len(end_tag)
        body, body_changed = _rewritten(text[body_at:end])
        if name == "cases" and _lists_statements(body, text[cursor : cursor + _LOOK_AHEAD_CHARS]):
            pieces.append("\\left\\{ \\begin{array}{l} " + body.strip() + " \\end{array} \\right.")
            changed = True
        else:
            pieces += (text[begin_at:body_at], body, end_tag)
            changed = changed or body_changed
    pieces.append(text[cursor:])
    return "".join(pieces), changed


def rewrite_logic_cases(latex: str) -> str:
    """`latex` with statement-listing `cases` blocks as `\\left\\{` arrays; unchanged when there are none."""
    if "\\begin{cases}" not in latex:
        return latex
    text, changed = _rewritten(latex)
    return text if changed else latex
