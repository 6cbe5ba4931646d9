"""Sources the tokeniser refuses to parse: unbalanced braces, environments or delimiters, or far too long.

A refused source is rendered as it stands (OmniDocBench v1.6). The limit counts characters, never seconds.
"""

from __future__ import annotations

import re

MAX_CHARS = 20_000
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([^{}]+)\}")
_FENCES = ((r"\\left\b", r"\\right\b"), (r"\\\(", r"\\\)"), (r"\\\[", r"\\\]"))
_ESCAPED = "{}[]()"


def parses(source: str, *, tabular: bool = False) -> bool:
    """True when the source may be parsed: braces and environments fit, and delimiters outside tables."""
    source = source.strip()
    if not source:
        return True
    if len(source) > MAX_CHARS or not braces_balanced(source) or not environments_nested(source):
        return False
    return tabular or _delimiters_paired(source)


def braces_balanced(source: str) -> bool:
    """Braces close in order; a backslash before one of `{}[]()` escapes it."""
    depth = 0
    index = 0
    while index < len(source):
        char = source[index]
        if char == "\\" and source[index + 1 : index + 2] and source[index + 1] in _ESCAPED:
            index += 2
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        if depth < 0:
            return False
        index += 1
    return depth == 0


def environments_nested(source: str) -> bool:
    """Every `\\end{x}` closes the latest open `\\begin{x}`, and none stays open."""
    open_names: list[str] = []
    for kind, name in _ENVIRONMENT.findall(source):
        if kind == "begin":
            open_names.append(name)
        elif not open_names or open_names.pop() != name:
            return False
    return not open_names


def _delimiters_paired(source: str) -> bool:
    """Equal counts of `\\left`/`\\right`, `\\(`/`\\)`, `\\[`/`\\]`, and an even number of bare dollars."""
    for opening, closing in _FENCES:
        if len(re.findall(opening, source)) != len(re.findall(closing, source)):
            return False
    return len(re.findall(r"(?<!\\)\$", source)) % 2 == 0
