"""Levenshtein distance (unit costs, code points), alone, as matrices, in sliding windows, and error rates.

Error rates of characters and words are taken under a named chain: a row of steps, applied in order to both
sides; its name stands in the metric's signature.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist


def edit_distance(a: str, b: str) -> int:
    """Insertions, deletions and substitutions that turn `a` into `b`; 0 when equal."""
    return int(Levenshtein.distance(a, b))


def normalized_distance(a: str, b: str) -> float:
    """Distance / longer length: 0 equal or both empty, 1 one empty or nothing in common."""
    longer = max(len(a), len(b))
    return edit_distance(a, b) / longer if longer else 0.0


NAME_SIMILARITY = 0.6


def nearest_name(name: str, others: Sequence[str]) -> int | None:
    """Which of `others` was perhaps meant: the first of the most similar; `None` where none is similar."""
    alike = [Levenshtein.normalized_similarity(name.lower(), other.lower()) for other in others]
    best = max(alike, default=0.0)
    return alike.index(best) if best >= NAME_SIMILARITY else None


class EditTable:
    """Distances of fixed rows to columns asked for; a column that comes again is not measured again."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = tuple(rows)
        self._lengths = np.array([len(row) for row in rows], dtype=np.int64)[:, None]
        self._places: dict[str, int] = {}
        self._edits = np.zeros((len(rows), 0), dtype=np.int32)

    def edits(self, columns: Sequence[str]) -> NDArray[np.int32]:
        """Edit distances, [rows, columns]."""
        if not self.rows:
            return np.zeros((0, len(columns)), dtype=np.int32)
        places = self._places
        first = len(places)
        numbers = [places.setdefault(column, len(places)) for column in columns]
        if len(places) > first:
            new = cdist(self.rows, list(places)[first:], scorer=Levenshtein.distance, dtype=np.int32)
            self._edits = np.concatenate((self._edits, new), axis=1) if first else new
        return self._edits if numbers == list(range(len(places))) else self._edits[:, numbers]

    def longer(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Length of the longer text, [rows, columns]; at least 1."""
        lengths = np.array([len(column) for column in columns], dtype=np.int64)
        return np.asarray(np.maximum(np.maximum(self._lengths, lengths), 1), dtype=np.int64)

    def distances(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Normalised distances, [rows, columns]."""
        return np.asarray(self.edits(columns) / self.longer(columns), dtype=np.float64)


def distance_matrix(rows: Sequence[str], columns: Sequence[str]) -> NDArray[np.float64]:
    """Normalised distances, [rows, columns]."""
    return EditTable(rows).distances(columns)


def largest_distance(length: int, share: float, *, strict: bool) -> int:
    """Largest d with d / length <= share, or < share with `strict`; -1 when there is none."""
    distance = int(share * length) + 1
    while distance >= 0:
        ratio = distance / length
        if ratio < share or (ratio == share and not strict):
            return distance
        distance -= 1
    return -1


def has_close_window(text: str, piece: str, limit: int) -> bool:
    """Some window of `text` as long as `piece` is at most `limit` edits away from it.

    A window moved by one character changes its distance by at most two, so a window that misses by t
    excludes the next (t - 1) // 2 ones. False when `piece` is empty or longer than `text`.
    """
    size = len(piece)
    last = len(text) - size
    if size == 0 or last < 0 or limit < 0:
        return False
    if limit >= size or piece in text:
        return True
    position = 0
    distance = Levenshtein.distance
    while position <= last:
        missing = distance(text[position : position + size], piece) - limit
        if missing <= 0:
            return True
        position += (missing + 1) // 2
    return False


Step = Callable[[str], str]


def _without_punctuation(text: str) -> str:
    return "".join(c if unicodedata.category(c)[0] != "P" else " " for c in text)


STEPS: dict[str, Step] = {
    "nfc": lambda text: unicodedata.normalize("NFC", text),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "casefold": str.casefold,
    "no-punctuation": _without_punctuation,
    "one-space": lambda text: " ".join(text.split()),
    "no-space": lambda text: "".join(text.split()),
}
CHAINS: dict[str, tuple[str, ...]] = {
    "plain": ("nfc", "one-space"),
    "no-space": ("nfc", "no-space"),
    "folded": ("nfkc", "casefold", "no-punctuation", "one-space"),
}
"""`plain`: composed letters, white space as single blanks. `no-space`: white space says nothing. `folded`:
neither do case, punctuation and compatibility forms."""


def normalised(text: str, chain: str) -> str:
    """`text` after every step of the chain of that name."""
    for step in CHAINS[chain]:
        text = STEPS[step](text)
    return text


def character_error_rate(
    prediction: str, reference: str, chain: str
) -> tuple[float | None, dict[str, float]]:
    """Levenshtein distance in code points / length of the reference, at most 1; 0 is best.

    `None` where only the reference is empty after the chain. Counts: `edits` (uncapped) and `length`.
    """
    return _rate(normalised(prediction, chain), normalised(reference, chain))


def word_error_rate(prediction: str, reference: str, chain: str) -> tuple[float | None, dict[str, float]]:
    """The same in words, which are what white space divides: a line of Chinese is one word."""
    return _rate(normalised(prediction, chain).split(), normalised(reference, chain).split())


def _rate(prediction: Sequence[str], reference: Sequence[str]) -> tuple[float | None, dict[str, float]]:
    edits, length = int(Levenshtein.distance(prediction, reference)), len(reference)
    counts = {"edits": float(edits), "length": float(length)}
    if not length:
        return (None if edits else 0.0), counts
    return min(1.0, edits / length), counts
