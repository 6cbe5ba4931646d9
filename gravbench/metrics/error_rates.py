"""Character and word error rates under named normalisation chains.

A chain is a row of steps, applied in order to both sides; its name stands in the metric's signature.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence

from rapidfuzz.distance import Levenshtein

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
