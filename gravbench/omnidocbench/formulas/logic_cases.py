r"""`cases` blocks that list statements, rewritten as left-brace arrays.

The OmniDocBench v1.6 scorer reads predicted formulas a second time after this rewriting and keeps the
better reading.
"""

from __future__ import annotations

from gravbench.omnidocbench.formulas.rows import MULTILINE_BEGIN, environment_end, split_cells, split_rows
from gravbench.omnidocbench.formulas.split import has_logic_marker

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
