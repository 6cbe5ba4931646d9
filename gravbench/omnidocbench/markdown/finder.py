"""Repeated searches for one needle that together read a text once."""

from __future__ import annotations


class Finder:
    """Next occurrence of `needle` at or behind a position; positions must not decrease from call to call."""

    def __init__(self, text: str, needle: str) -> None:
        self._text = text
        self._needle = needle
        self._known = -1

    def at(self, position: int) -> int | None:
        """Index of the next occurrence; None when there is none."""
        if self._known < position:
            found = self._text.find(self._needle, position)
            self._known = len(self._text) + 1 if found < 0 else found
        return self._known if self._known <= len(self._text) else None


def blanked(text: str, ranges: list[tuple[int, int]]) -> str:
    """`text` with the given disjoint ranges overwritten by as many blanks."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(ranges):
        pieces += (text[done:start], " " * (end - start))
        done = end
    return "".join((*pieces, text[done:]))
