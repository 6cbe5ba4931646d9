"""Words that differ between two texts, and apart from them white space and marks that only lay text out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rapidfuzz.distance import Levenshtein

Kind = Literal["=", "-", "+", "<", ">"]
Segment = tuple[Kind, str]
"""Kept; words only in the reference, only in the prediction; layout only there, only here."""

MAX_CELLS = 4_000_000
"""Words x words up to which the alignment is found; it needs about a quarter byte a cell."""

_PART = re.compile(
    r"(?P<layout>(?:\s|^\#{1,6}(?=\s)|\*\*)+)"  # white space, marks of titles, marks of bold
    r"|[\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]"  # ideographs and syllables stand alone
    r"|[^\W\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]+|[^\w\s]",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Text:
    """`gaps[i]` is the layout before `words[i]`; one more stands behind the last word."""

    words: list[str]
    gaps: list[str]

    def upto(self, start: int, stop: int) -> str:
        """Words `start` to `stop` with the layout between them, without the one before the first."""
        inner = (gap + word for gap, word in zip(self.gaps[start:stop], self.words[start:stop], strict=True))
        return "".join(inner)[len(self.gaps[start]) :]


def _read(text: str) -> _Text:
    words: list[str] = []
    gaps = [""]
    for part in _PART.finditer(text):
        if part["layout"]:
            gaps[-1] = part[0]
        else:
            words.append(part[0])
            gaps.append("")
    return _Text(words, gaps)


def word_diff(reference: str, prediction: str) -> tuple[Segment, ...]:
    """Segments whose `=`, `-` and `<` spell the reference and whose `=`, `+` and `>` spell the prediction.

    Words alone are aligned; layout (white space, `#` of titles, `**`) is held against each other between
    words that agree. Common beginnings and ends are taken first. A middle of more than `MAX_CELLS` word
    pairs is shown as replaced whole: its alignment would need gigabytes.
    """
    a, b = _read(reference), _read(prediction)
    parts: list[Segment] = []
    i = j = 0
    for i0, i1, j0, j1 in _changed(a.words, b.words):
        parts += _kept(a, b, i, j, i0 - i)
        parts += _replaced(a, b, (i0, i1), (j0, j1))
        i, j = i1, j1
    parts += _kept(a, b, i, j, len(a.words) - i)
    parts += _gap(a.gaps[-1], b.gaps[-1])
    return _joined(parts)


def _changed(a: Sequence[str], b: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of either side that do not agree, from left to right; one of the two may be empty."""
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    left, right = a[start : len(a) - end], b[start : len(b) - end]
    if len(left) * len(right) > MAX_CELLS:
        yield start, start + len(left), start, start + len(right)
        return
    open_at: tuple[int, int] | None = None
    for op in Levenshtein.opcodes(left, right):
        if op.tag != "equal":
            open_at = open_at or (op.src_start, op.dest_start)
        elif open_at is not None:
            yield start + open_at[0], start + op.src_start, start + open_at[1], start + op.dest_start
            open_at = None
    if open_at is not None:
        yield start + open_at[0], start + len(left), start + open_at[1], start + len(right)


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _kept(a: _Text, b: _Text, i: int, j: int, count: int) -> Iterator[Segment]:
    if a.gaps[i : i + count] == b.gaps[j : j + count]:
        yield "=", a.gaps[i] * bool(count) + a.upto(i, i + count)
        return
    for k in range(count):
        yield from _gap(a.gaps[i + k], b.gaps[j + k])
        yield "=", a.words[i + k]


def _replaced(a: _Text, b: _Text, old: tuple[int, int], new: tuple[int, int]) -> Iterator[Segment]:
    """A range of words that changed. Where one side has none, layout goes with the words that are more.

    The gap behind the range stays in the texts for what follows: words that are gone or new take the one
    before them, or, if that one has its like on the other side, leave it and take the one behind.
    """
    (i0, i1), (j0, j1) = old, new
    if i0 < i1 and j0 < j1:
        yield from _gap(a.gaps[i0], b.gaps[j0])
        yield "-", a.upto(i0, i1)
        yield "+", b.upto(j0, j1)
    elif i0 < i1:
        yield from _one_sided("-", a, (i0, i1), b, j0)
    else:
        yield from _one_sided("+", b, (j0, j1), a, i0)


def _one_sided(kind: Kind, more: _Text, own: tuple[int, int], less: _Text, at: int) -> Iterator[Segment]:
    first, last = own
    before, behind = more.gaps[first], more.gaps[last]
    if behind != less.gaps[at] and before == less.gaps[at]:
        yield "=", before
        yield kind, more.upto(first, last) + behind
        more.gaps[last] = less.gaps[at] = ""
    else:
        yield kind, before + more.upto(first, last)


def _gap(old: str, new: str) -> Iterator[Segment]:
    if old == new:
        yield "=", old
    else:
        yield "<", old
        yield ">", new


def _joined(parts: Sequence[Segment]) -> tuple[Segment, ...]:
    """Without empty segments; neighbours of one kind joined."""
    found: list[Segment] = []
    for kind, text in parts:
        if text and found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + text)
        elif text:
            found.append((kind, text))
    return tuple(found)
