"""Normalised edit distance of one crop on raw strings: no normalisation, so nothing is hidden."""

from __future__ import annotations

from rapidfuzz.distance import Levenshtein

SIGNATURE = "ned|unit:char|norm:none|agg:crop_mean|v:1"
WORST = 1.0


def crop_ned(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
    """Levenshtein distance / longer length, in [0, 1], 0 is best; two empty strings score 0.

    Also returns the counts it is made of: `edits` and `length`, in code points.
    """
    edits = Levenshtein.distance(prediction, reference)
    length = max(len(prediction), len(reference))
    return (edits / length if length else 0.0), {"edits": float(edits), "length": float(length)}
