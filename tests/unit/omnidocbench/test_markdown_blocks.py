from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.omnidocbench.markdown_blocks import (
    HTML_TABLE,
    TABULAR,
    BlockSyntax,
    PredictionCrashError,
    outermost_blocks,
)


def _recursive(text: str, opening: str, syntax: BlockSyntax) -> list[tuple[int, int]]:
    """The plain scanner: a stack, and a fresh start behind the first opening that never closes."""
    found, stack, position = [], [], 0
    while True:
        begin = re.compile(opening).search(text, position)
        end = text.find(syntax.closing, position)
        if begin is None and end < 0:
            break
        if begin is not None and (end < 0 or begin.start() < end):
            stack.append(begin.start())
            position = begin.start() + syntax.skip
            continue
        position = end + syntax.span
        if stack:
            start = stack.pop()
            if not stack:
                found.append((start, min(position, len(text))))
    if stack:
        shift = stack[0] + syntax.restart
        found += [(start + shift, end + shift) for start, end in _recursive(text[shift:], opening, syntax)]
    return found


@given(
    st.lists(st.sampled_from(["<table>", "</table>", "<table a>", "<table", ">", "x", "y" * 9])).map("".join)
)
def test_html_tables_are_found_as_by_the_recursive_scanner(text: str) -> None:
    assert outermost_blocks(text, HTML_TABLE) == _recursive(text, r"<table[^>]*>", HTML_TABLE)


@given(st.lists(st.sampled_from(["\\begin{tabular}", "\\end{tabular}", "x", "{ll}", "z" * 7])).map("".join))
def test_tabulars_are_found_as_by_the_recursive_scanner(text: str) -> None:
    assert outermost_blocks(text, TABULAR) == _recursive(text, r"\\begin\{tabular\}", TABULAR)


def test_too_many_unclosed_tables_crash_as_officially() -> None:
    with pytest.raises(PredictionCrashError, match="never close"):
        outermost_blocks("<table><tr>" * 1200, HTML_TABLE)
