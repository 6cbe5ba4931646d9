"""Surplus and repetition of a predicted page: what the official score does not charge for.

Surplus text is free in OmniDocBench: predictions that match nothing give no row. These numbers stand beside
the score and move nothing in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIGNATURE = "surplus|unit:char|norm:omnidoc16|repeat:adjacent-tokens|min:3|v:1"
MIN_REPEATS = 3
MAX_UNIT_TOKENS = 512
MAX_TOKENS = 200_000
"""Only so many tokens of a page are searched for repetition."""
LONG_WORD_CHARS = 32
MIN_COVERED_CHARS = 16
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_TOKEN = re.compile(r"[^\W_\u4e00-\u9fff]+|[^\s\-|:=_*#`~<>]")
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[^\s\-|:=_*#`~<>]")


@dataclass(frozen=True, slots=True)
class Repetition:
    """A unit that follows itself `repeats` times; '' and 0 when nothing does so long enough."""

    unit: str
    repeats: int


@dataclass(frozen=True, slots=True)
class Surplus:
    """Normalised predicted characters, and how many of them belong to no row."""

    predicted_chars: int
    surplus_chars: int

    @property
    def share(self) -> float | None:
        """Surplus / predicted characters, 0..1, 0 is best; None when nothing was predicted."""
        return self.surplus_chars / self.predicted_chars if self.predicted_chars else None


def measure_surplus(pieces: Sequence[tuple[int, bool]]) -> Surplus:
    """Surplus over (characters, matched to something) of all predicted pieces."""
    return Surplus(
        sum(size for size, _ in pieces), sum(size for size, is_matched in pieces if not is_matched)
    )


def _tokens(text: str) -> list[str]:
    """Words, single other characters, and the characters of overlong words; at most `MAX_TOKENS`.

    Rules of Markdown (dashes, bars, hashes and the like) are no tokens.
    """
    tokens: list[str] = (_ASCII_TOKEN if text.isascii() else _TOKEN).findall(text)
    if max(map(len, tokens), default=0) > LONG_WORD_CHARS:
        short = (token if len(token) <= LONG_WORD_CHARS else tuple(token) for token in tokens)
        tokens = [part for token in short for part in ((token,) if isinstance(token, str) else token)]
    return tokens[:MAX_TOKENS]


def _place(text: str, tokens: Sequence[str], first: int, last: int) -> str:
    """The text from token `first` to token `last`, with what stands between its tokens."""
    start = position = 0
    for number in range(last + 1):
        at = text.index(tokens[number], position)
        start = at if number == first else start
        position = at + len(tokens[number])
    return text[start:position]


def _longest_run(equal: NDArray[np.bool_]) -> tuple[int, int]:
    """(start, length) of the first longest run of True."""
    breaks = np.flatnonzero(~equal)
    edges = np.concatenate(([-1], breaks, [equal.size]))
    gaps = np.diff(edges) - 1
    longest = int(gaps.argmax())
    return int(edges[longest]) + 1, int(gaps[longest])


def _possible_periods(tokens: NDArray[np.int32]) -> list[int]:
    """Periods, ascending, at which three copies may stand; all others cannot have three.

    Wherever three copies of p tokens begin, they hold two multiples of p that each equal the token p behind.
    """
    size = tokens.size
    periods = np.arange(1, min(MAX_UNIT_TOKENS, size // MIN_REPEATS) + 1)
    if not periods.size:
        return []
    counts = (size - 2 * periods - 1) // periods + 1  # multiples k p with k p + 2 p inside
    period = np.repeat(periods, counts)
    multiple = np.arange(period.size) - np.repeat(np.cumsum(counts) - counts, counts)
    first = tokens[multiple * period]
    second = tokens[(multiple + 1) * period]
    equal = (first == second) & (second == tokens[(multiple + 2) * period])
    found: list[int] = sorted(set(period[equal].tolist()))
    return found


def find_repetition(text: str) -> Repetition:
    """The adjacent repetition that covers most tokens, the shorter unit on ties; HTML tags are passed over.

    At least three copies and 16 characters. With period p, a run of r tokens that each equal the one p
    before them makes r // p + 1 copies.
    """
    if "<" in text:
        text = _TAG.sub(lambda tag: " " * len(tag.group()), text)
    tokens = _tokens(text)
    numbers = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    ids = np.fromiter(map(numbers.__getitem__, tokens), dtype=np.int32, count=len(tokens))
    covered, unit, copies = 0, "", 0
    for period in _possible_periods(ids):
        if covered + period > ids.size:
            break
        equal = ids[period:] == ids[:-period]
        if np.count_nonzero(equal) < max((MIN_REPEATS - 1) * period, covered - period + 1):
            continue  # too few for a run long enough
        start, run = _longest_run(equal)
        repeats = run // period + 1
        if repeats < MIN_REPEATS or repeats * period <= covered:
            continue
        copy = _place(text, tokens, start, start + period - 1)
        if len(copy) * repeats >= MIN_COVERED_CHARS:
            covered, unit, copies = repeats * period, copy, repeats
    return Repetition(unit, copies)
