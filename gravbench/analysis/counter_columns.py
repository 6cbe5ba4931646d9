"""Decode counts of two runs of the same strategy on exactly the tokens they share.

Where outputs are identical all rounds count. Where they part, only the rounds that lie wholly before the
first difference count, on both sides; what follows answers another question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.analysis.bootstrap import Floats, Statistic, divided
from gravbench.analysis.divergence import first_divergence
from gravbench.analysis.pieces import Piece, joined
from gravbench.records import Rounds

TOKENS, ROUNDS, FORWARDS, ACCEPTED = range(4)
WIDTH = 4


Answers = tuple[Piece, ...] | None
"""Answers of one sample; `None` when it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTable:
    """`columns` [n, 8]: tokens, rounds, forwards, accepted of the base, then of the own side.

    `comparable[i]`: the row has counts on both sides; others are zero. `identical[i]`: equal token ids.
    """

    columns: Floats
    comparable: tuple[bool, ...]
    identical: tuple[bool, ...]

    @property
    def comparable_share(self) -> float:
        """Share of rows with counts to compare; 0.0 without rows."""
        return sum(self.comparable) / len(self.comparable) if self.comparable else 0.0


def counter_table(pairs: Sequence[tuple[Answers, Answers]]) -> CounterTable:
    """Counts of (base, own) pairs on their common tokens; pages are compared region by region."""
    columns = np.zeros((len(pairs), 2 * WIDTH))
    comparable, identical = [], []
    for row, (base, own) in enumerate(pairs):
        counts = None if base is None or own is None else _common_counts(base, own)
        comparable.append(counts is not None)
        identical.append(counts is not None and counts[1])
        if counts is not None:
            columns[row] = counts[0]
    return CounterTable(columns=columns, comparable=tuple(comparable), identical=tuple(identical))


def _common_counts(base: Sequence[Piece], own: Sequence[Piece]) -> tuple[Floats, bool] | None:
    """Counts [8] of one sample and whether its tokens are identical; `None` without a common round.

    Sides cut into other regions, or not cut at all, have counts only when their tokens are equal as a whole.
    """
    if [piece.region_id for piece in base] != [piece.region_id for piece in own]:
        base, own = (joined(base),), (joined(own),)
        if base[0].token_ids != own[0].token_ids:
            return None
    total = np.zeros(2 * WIDTH)
    same = True
    for a, b in zip(base, own, strict=True):
        divergence = first_divergence(a.token_ids, b.token_ids)
        same = same and divergence is None
        total += [*_counts(a.rounds, until=divergence), *_counts(b.rounds, until=divergence)]
    return (total, same) if same or (total[ROUNDS] and total[WIDTH + ROUNDS]) else None


def paired_ratio(numerator: int, denominator: int) -> Statistic:
    """Statistic over the table's columns: own (numerator / denominator) / base (the same)."""

    def statistic(sums: Floats) -> Floats:
        own = divided(sums[..., WIDTH + numerator], sums[..., WIDTH + denominator])
        base = divided(sums[..., numerator], sums[..., denominator])
        return divided(own, base)

    return statistic


def _counts(rounds: Rounds, *, until: int | None) -> tuple[int, int, int, int]:
    """Tokens, rounds, forwards and accepted drafts of the rounds that end before token `until`."""
    position, tokens, count, forwards, accepted = 1, 0, 0, 0, 0  # prefill's own token is position 0
    for committed, cost, matched in zip(rounds.committed, rounds.forwards, rounds.accepted, strict=True):
        position += committed
        if until is not None and position > until:
            break
        tokens, count, forwards = tokens + committed, count + 1, forwards + cost
        accepted += matched
    return tokens, count, forwards, accepted
