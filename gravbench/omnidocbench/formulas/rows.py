r"""Rows and cells of a LaTeX body, cut only at the top level of braces and environments."""

from __future__ import annotations

import re

_ROW_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\|[{}]")
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
    while token := _ROW_TOKEN.search(body, position):
        position = token.end()
        kind = token.group()
        if kind.startswith("\\begin"):
            environments += 1
        elif kind.startswith("\\end"):
            environments = max(0, environments - 1)
        elif kind == "\\\\":
            if braces or environments:
                # only the first backslash is ordinary here; the second may still escape what follows
                position = token.start() + 1
                continue
            rows.append(body[start : token.start()].strip())
            start = position = _behind_row_break(body, position)
        elif not (escaped_braces and is_escaped(body, token.start())):
            braces = braces + 1 if kind == "{" else max(0, braces - 1)
    rows.append(body[start:].strip())
    return [row for row in rows if row]


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
