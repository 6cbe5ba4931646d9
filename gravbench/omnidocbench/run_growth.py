"""Compiled search for runs of predicted lines that together resemble one ground-truth line.

The plain form of the same search stands in `merge_search`; this one streams each run through
Myers' bit-vector columns (G. Myers, JACM 46, 1999, block form), so growing a run costs its new characters
only. Used when a page has so many lines that the plain form would take long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

_UNKNOWN, _NEAR, _FAR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Characters of one page numbered densely: `table[code point]` -> 0..size-1."""

    table: NDArray[np.int32]
    size: int

    def encode(self, text: str) -> NDArray[np.int32]:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return np.asarray(self.table[points], dtype=np.int32)


def alphabet_of(texts: Sequence[str]) -> Alphabet:
    """Alphabet that covers all `texts` and the blank."""
    points = np.frombuffer("".join((" ", *texts)).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    present = np.zeros(0x110000, dtype=np.int32)
    present[points] = 1
    table = np.cumsum(present, dtype=np.int32) - 1
    return Alphabet(np.asarray(table, dtype=np.int32), int(present.sum()))


@njit(cache=True)
def _advance(peq, column_p, column_m, words, last_bit, symbol, score):  # type: ignore[no-untyped-def]
    """One text symbol further in a global alignment: the distance of the longer prefix."""
    one = np.uint64(1)
    top = np.uint64(63)
    carry_p, carry_m = one, np.uint64(0)  # row 0 grows by one a column
    for w in range(words):
        pv, mv = column_p[w], column_m[w]
        eq = peq[symbol, w]
        xv = eq | mv
        eq = eq | carry_m
        xh = (((eq & pv) + pv) ^ pv) | eq
        ph = mv | ~(xh | pv)
        mh = pv & xh
        if w == words - 1:
            if (ph >> last_bit) & one:
                score += 1
            elif (mh >> last_bit) & one:
                score -= 1
        out_p, out_m = (ph >> top) & one, (mh >> top) & one
        ph = (ph << one) | carry_p
        mh = (mh << one) | carry_m
        column_p[w] = mh | ~(xv | ph)
        column_m[w] = ph & xv
        carry_p, carry_m = out_p, out_m
    return score


@njit(cache=True)
def _fill_peq(peq, pattern):  # type: ignore[no-untyped-def]
    for i in range(len(pattern)):
        peq[pattern[i], i >> 6] |= np.uint64(1) << np.uint64(i & 63)


@njit(cache=True)
def _clear_peq(peq, pattern):  # type: ignore[no-untyped-def]
    for i in range(len(pattern)):
        peq[pattern[i], i >> 6] = np.uint64(0)


@njit(cache=True)
def _close_window(text, piece, limit, peq, column_p, column_m):  # type: ignore[no-untyped-def]
    """`has_close_window` on codes; `peq` is zero on entry and on return."""
    size = len(piece)
    last = len(text) - size
    words = (size + 63) >> 6
    last_bit = np.uint64((size - 1) & 63)
    _fill_peq(peq, piece)
    found = False
    position = 0
    while position <= last and not found:
        for w in range(words):
            column_p[w] = ~np.uint64(0)
            column_m[w] = np.uint64(0)
        score = size
        for i in range(size):
            score = _advance(peq, column_p, column_m, words, last_bit, text[position + i], score)
        if score <= limit:
            found = True
        position += (score - limit + 1) // 2
    _clear_peq(peq, piece)
    return found


@njit(cache=True)
def _near(line, limit, near, target, lines, offsets, scratch, column_p, column_m):  # type: ignore[no-untyped-def]
    """Window test of one line against the target, remembered in `near`."""
    if near[line] == _UNKNOWN:
        piece = lines[offsets[line] : offsets[line + 1]]
        size = len(piece)
        close = False
        if 0 < size <= len(target) and limit >= 0:
            close = limit >= size or _close_window(target, piece, limit, scratch, column_p, column_m)
        near[line] = _NEAR if close else _FAR
    return near[line] == _NEAR


@njit(cache=True)
def _grow(target, lines, offsets, masked, loose, strict, blank, symbols, max_lines):  # type: ignore[no-untyped-def]
    """Run length, normalised distance and official window count for every unmasked start."""
    count = len(offsets) - 1
    size = len(target)
    words = (size + 63) >> 6
    last_bit = np.uint64((size - 1) & 63)
    peq = np.zeros((symbols, words), dtype=np.uint64)
    _fill_peq(peq, target)
    scratch = np.zeros((symbols, words), dtype=np.uint64)
    column_p = np.empty(words, dtype=np.uint64)
    column_m = np.empty(words, dtype=np.uint64)
    window_p = np.empty(words, dtype=np.uint64)
    window_m = np.empty(words, dtype=np.uint64)
    near_loose = np.zeros(count, dtype=np.uint8)
    near_strict = np.zeros(count, dtype=np.uint8)
    lengths = np.zeros(count, dtype=np.int64)
    ratios = np.full(count, np.inf)
    windows = 0
    for start in range(count):
        if masked[start]:
            continue
        for w in range(words):
            column_p[w] = ~np.uint64(0)
            column_m[w] = np.uint64(0)
        score = size
        for i in range(offsets[start], offsets[start + 1]):
            score = _advance(peq, column_p, column_m, words, last_bit, lines[i], score)
        length = offsets[start + 1] - offsets[start]
        ratio = score / max(size, length)
        run = 1
        run_windows = 0
        while run < max_lines:
            following = start + run
            if following >= count or masked[following]:
                break
            score = _advance(peq, column_p, column_m, words, last_bit, blank, score)
            for i in range(offsets[following], offsets[following + 1]):
                score = _advance(peq, column_p, column_m, words, last_bit, lines[i], score)
            merged = length + 1 + offsets[following + 1] - offsets[following]
            merged_ratio = score / max(size, merged)
            if merged_ratio > ratio:
                break
            previous = following - 1
            run_windows += max(size - (offsets[previous + 1] - offsets[previous]) + 1, 0)
            windows += run_windows + max(size - (offsets[following + 1] - offsets[following]) + 1, 0)
            if run == 1 and not _near(
                start, loose[start], near_loose, target, lines, offsets, scratch, window_p, window_m
            ):
                break
            if not _near(
                following, strict[following], near_strict, target, lines, offsets, scratch, window_p, window_m
            ):
                break
            run += 1
            ratio, length = merged_ratio, merged
            if merged > size:
                break
        lengths[start] = run
        ratios[start] = ratio
    return lengths, ratios, windows


@dataclass(frozen=True, slots=True)
class Growth:
    """Per start: lines in the grown run, its normalised distance (inf where masked); windows looked at."""

    lengths: NDArray[np.int64]
    ratios: NDArray[np.float64]
    official_windows: int


@dataclass(frozen=True, slots=True)
class EncodedLines:
    """Predicted lines as one code array with offsets, and the window limits of each line."""

    alphabet: Alphabet
    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    masked: NDArray[np.bool_]
    loose: NDArray[np.int64]
    strict: NDArray[np.int64]

    def grow(self, target: str, max_lines: int) -> Growth:
        """Grow a run from every unmasked line towards `target`."""
        lengths, ratios, windows = _grow(
            self.alphabet.encode(target),
            self.codes,
            self.offsets,
            self.masked,
            self.loose,
            self.strict,
            int(self.alphabet.table[ord(" ")]),
            self.alphabet.size,
            max_lines,
        )
        return Growth(lengths, ratios, int(windows))
