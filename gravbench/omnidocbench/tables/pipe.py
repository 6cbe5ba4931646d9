"""Markdown pipe tables -> HTML tables, accident by accident as OmniDocBench v1.6 (section 7.5).

The official rules are line-based and lose text; each loss is kept, because published digits hold it:

* the shortest match decides what a table is, so each Markdown row becomes its own one-row table;
* a line with a colon or three dashes counts as a delimiter row, so a cell such as `12:30` disappears;
* the line directly above the first table joins the block and is lost.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_FRAME_TAG = re.compile(r"</?t(?:able|head|body)>")


def pipe_rows(text: str) -> list[str]:
    """Every shortest "bar … bar, newline" piece of `text`, left to right; pieces may span lines."""
    return [text[start:end] for start, end in _row_spans(text)]


def convert_pipe_tables(text: str) -> str:
    """`text` with its pipe tables rewritten as HTML; a newline is appended and carriage returns go."""
    text = text.replace("\r", "") + "\n"
    pieces: list[str] = []
    done = 0
    for start, end in _row_spans(text):
        pieces += (text[done:start], _row_table(text[start:end]))
        done = end
    glued = _glue_tables("".join(pieces) + text[done:])
    return glued.replace("<table>", '<table border="1" >').replace("<td>", '<td colspan="1" rowspan="1">')


def _row_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = text.find("|")
    while start >= 0 and (bar := text.find("|\n", start + 1)) >= 0:
        spans.append((start, bar + 2))
        start = text.find("|", bar + 2)
    return spans


def _row_table(source: str) -> str:
    """One matched piece as a table: first line th, second line dropped, further lines td."""
    rows = [row.strip() for row in source.strip().split("\n")]
    lines = ["<table>", "  <thead>", "    <tr>"]
    lines += [f"      <th>{cell}</th>" for cell in _cells(rows[0])]
    lines += ["    </tr>", "  </thead>", "  <tbody>"]
    for row in rows[2:]:
        lines += ["    <tr>", *(f"      <td>{cell}</td>" for cell in _cells(row)), "    </tr>"]
    return "\n".join([*lines, "  </tbody>", "</table>", ""])


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def _looks_like_delimiter_row(line: str) -> bool:
    return ":" in line or "---" in line


def _glue_tables(text: str) -> str:
    """Join neighbouring tables: a scanner over lines that always handles the line before the current one."""
    output: list[str] = []
    block: list[str] = []
    inside = False
    previous = ""
    for line in text.split("\n"):
        if "<table>" in line:
            inside = True
            block.append(previous)
        elif inside:
            if not _looks_like_delimiter_row(previous) and "</thead>" not in previous:
                block += ("\n", previous)
            if "</table>" in previous:
                inside = False
                output.append(_merge_block("".join(block)))
                block = []
        else:
            output.append(previous)
        previous = line
    if previous:
        closing = inside or "</table>" in previous
        output.append(_merge_block("".join([*block, "\n", previous])) if closing else previous)
    return "\n".join(output)


def _merge_block(block: str) -> str:
    """All complete tables of a block as one table between blank lines; frames and tiny tables go."""
    block = _sub_closed(_COMMENT, block, closing="-->")
    kept: list[str] = []
    for table in _TABLE.findall(block[: block.rfind("</table>") + len("</table>")]):
        lines = [
            line.replace("<th>", "<td>").replace("</th>", "</td>") if "<th>" in line else line
            for line in table.split("\n")
        ]
        lines = [line for line in lines if not _FRAME_TAG.search(line)]
        if len(lines) > 2:
            kept += lines
    return "\n\n<table>\n" + "\n".join(kept) + "\n</table>\n\n"


def _sub_closed(pattern: re.Pattern[str], text: str, *, closing: str) -> str:
    """Delete `pattern`, looking no further than its last closing, so that open ends cost nothing."""
    end = text.rfind(closing) + len(closing)
    return pattern.sub("", text[:end]) + text[end:] if end >= len(closing) else text


_WHOLE = re.compile(r"(<table\b.*?</table>|\$\$.*?\$\$|\\\[.*?\\\])", re.DOTALL | re.IGNORECASE)


def with_html_tables(text: str) -> str:
    """A page with its pipe tables rewritten before anything else is found; HTML tables and formulas stay.

    The official order finds pipe tables last, and what follows a rewritten one has moved against the rest.
    """
    parts = _WHOLE.split(text)
    return "".join(part if n % 2 else convert_pipe_tables(part) for n, part in enumerate(parts))
