"""The committed tokens of one request: stop rule and budget, shared by every strategy.

Nothing after the first EOS, and nothing over the budget, ever enters `tokens`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal


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
