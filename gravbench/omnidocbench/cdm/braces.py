"""Matching brackets in a token list."""

from __future__ import annotations

from collections.abc import Sequence


def closing_index(tokens: Sequence[str], start: int, opening: str = "{", closing: str = "}") -> int:
    """Index of the token that closes the first bracket opened at or behind `start`.

    `ValueError` when it stays open; -1 when none opens at all, as the OmniDocBench scorer has it (callers
    there compute with that -1, and so do we).
    """
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token == opening:
            depth += 1
        elif token == closing:
            depth -= 1
            if depth == 0:
                return index
    if depth > 0:
        raise ValueError(f"{opening!r} at token {start} is never closed")
    return -1
