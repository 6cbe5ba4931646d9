"""Text of files and libraries, made fit for messages: on one line, and with no power over a terminal."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CONTROLS = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def printable(text: str) -> str:
    r"""`text` with controls, direction marks and half surrogate pairs written out: `\x1b`, `\u202e`."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def has_controls(text: str) -> bool:
    """Whether `text` has control characters or half surrogate pairs; no file and no id needs them."""
    return _CONTROLS.search(text) is not None


def shortened(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters: whole sentences, else whole words and `...`."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    ends = [match.start() for match in _SENTENCE_END.finditer(line) if match.start() <= limit]
    if ends:
        return line[: ends[-1]]
    cut = line[: limit - 3]
    return (cut.rpartition(" ")[0] or cut) + "..."
