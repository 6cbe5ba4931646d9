"""The committed tokens of one request: stop rule, budget and the flag of a loop, alike for every strategy.

Nothing after the first EOS, and nothing over the budget, ever enters `tokens`. Verified decoding reproduces
the loops of autoregressive decoding, only faster. Stopping one arm on a loop would break the comparison, so
a loop is reported beside the output and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np


class Output:
    """Committed response tokens. The last one is the boundary token, whose keys and values are not cached."""

    def __init__(self, eos_token_ids: Collection[int], *, budget: int) -> None:
        if budget < 1:
            raise ValueError(f"budget must be at least 1, got {budget}")
        self.tokens: list[int] = []
        self.stop_reason: Literal["eos", "length"] | None = None
        self._eos = frozenset(eos_token_ids)
        self._budget = budget

    @property
    def boundary(self) -> int:
        """x0, the last committed token."""
        return self.tokens[-1]

    @property
    def remaining(self) -> int:
        """Tokens the budget still allows."""
        return self._budget - len(self.tokens)

    def ends_with(self, token: int) -> bool:
        """Whether committing `token` would end the request: it is EOS, or the last one the budget allows."""
        return token in self._eos or self.remaining == 1

    def extend(self, tokens: Sequence[int]) -> int:
        """Commit `tokens` up to the first EOS and the budget; returns how many were committed."""
        committed = 0
        for token in tokens:
            if self.stop_reason is not None:
                break
            self.tokens.append(token)
            committed += 1
            if token in self._eos:
                self.stop_reason = "eos"
            elif len(self.tokens) == self._budget:
                self.stop_reason = "length"
        return committed


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
