"""Repetition flag on the committed tokens: the same function for every strategy, and never a reason to stop.

Verified decoding reproduces the loops of autoregressive decoding, only faster; stopping one arm on a
loop would break the comparison, so a loop is reported beside the output and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LONGEST_UNIT = 128
MIN_REPEATS = 8
MIN_SPAN = 48


def has_loop(tokens: Sequence[int]) -> bool:
    """Whether some unit of 1 to 128 tokens stands at least 8 times in a row over at least 48 tokens.

    A run of equal tokens at distance u that is r long spans r + u tokens. Empty and short outputs
    have no loop.
    """
    ids = np.asarray(tokens, dtype=np.int64)
    for unit in range(1, min(LONGEST_UNIT, len(ids) // MIN_REPEATS) + 1):
        span = _longest_run(ids[unit:] == ids[:-unit]) + unit
        if span >= MIN_REPEATS * unit and span >= MIN_SPAN:
            return True
    return False


def _longest_run(equal: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    """Length of the longest run of True; 0 for none."""
    breaks = np.flatnonzero(~equal)
    edges = np.concatenate(([-1], breaks, [len(equal)]))
    return int(np.max(np.diff(edges))) - 1
