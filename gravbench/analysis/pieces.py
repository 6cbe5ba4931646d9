"""Decode counts of two sides on exactly the tokens they share, piece by piece.

Pieces are read independently, so a difference in one says nothing about the next. Where outputs are identical
all rounds count. Where they part, only the rounds that lie wholly before the first difference count, on both
sides; what follows answers another question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.analysis.bootstrap import Floats, Statistic, divided
from gravbench.records import Counters, Rounds
from gravbench.store.schema import SampleAnswer


def first_divergence(base: Sequence[int], own: Sequence[int]) -> int | None:
    """Index of the first differing token, the shorter length when one begins the other, `None` if equal."""
    for index, (a, b) in enumerate(zip(base, own, strict=False)):
        if a != b:
            return index
    return None if len(base) == len(own) else min(len(base), len(own))


TOKENS, ROUNDS, FORWARDS, ACCEPTED = range(4)
WIDTH = 4


COUNTER_RATIOS: dict[str, tuple[int, int]] = {
    "tau_round": (TOKENS, ROUNDS),
    "tpf_all": (TOKENS, FORWARDS),
    "accepted_draft": (ACCEPTED, ROUNDS),
}
"""Counter -> the columns of `CounterTable` it is the ratio of."""

Pairs = Sequence[tuple[SampleAnswer, SampleAnswer]]
"""(base, own) answers to one sample a row."""


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


def counter_table(pairs: Pairs) -> CounterTable:
    """Counts of (base, own) pairs on their common tokens.

    Where an engine hides its rounds, equal outputs have their totals, as far as both sides told them.
    """
    columns = np.zeros((len(pairs), 2 * WIDTH))
    comparable, identical = [], []
    for row, (base, own) in enumerate(pairs):
        counts = None
        if base.status == own.status == "ok":
            counts = _common_counts(base, own) or _equal_totals(base, own)
        comparable.append(counts is not None)
        identical.append(counts is not None and counts[1])
        if counts is not None:
            columns[row] = counts[0]
    return CounterTable(columns=columns, comparable=tuple(comparable), identical=tuple(identical))


def whole_table(pairs: Pairs) -> CounterTable:
    """Counts of (base, own) pairs on everything each side wrote.

    A sample that failed, or whose totals an engine did not tell, is not comparable.
    Outputs need not be equal: this is what two models did with the same samples.
    """
    columns = np.zeros((len(pairs), 2 * WIDTH))
    both = [False] * len(pairs)
    for row, (base, own) in enumerate(pairs):
        counts = _both_totals(base, own)
        if counts is not None:
            columns[row], both[row] = counts, True
    return CounterTable(columns=columns, comparable=tuple(both), identical=(False,) * len(pairs))


def _equal_totals(base: SampleAnswer, own: SampleAnswer) -> tuple[Floats, bool] | None:
    """Totals [8] of two answers of equal tokens; `None` where they differ or a side did not tell them."""
    counts = _both_totals(base, own) if base.token_ids == own.token_ids else None
    return None if counts is None else (counts, True)


def _both_totals(base: SampleAnswer, own: SampleAnswer) -> Floats | None:
    """Totals [8] of both sides; `None` where one failed or did not tell them."""
    told = [one.counters for one in (base, own) if one.counters is not None and _told(one.counters)]
    return np.array([n for c in told for n in _totals(c)], dtype=np.float64) if len(told) == 2 else None


def _told(c: Counters) -> bool:
    """Whether an engine that wrote tokens told its rounds and forwards."""
    return not c.decode_tokens or (c.rounds > 0 and c.decode_forwards > 0)


def _totals(c: Counters) -> tuple[int, int, int, int]:
    return c.decode_tokens, c.rounds, c.decode_forwards, c.draft_accepted


def _common_counts(base: SampleAnswer, own: SampleAnswer) -> tuple[Floats, bool] | None:
    """Counts [8] of one sample and whether its tokens are identical; `None` without a common round, and where
    an engine hides its rounds.

    Sides cut into other regions have counts only when their tokens are equal as a whole.
    """
    mine, theirs = base.answers, own.answers
    ends: list[int | None] = [None] * max(len(mine), len(theirs))
    if [piece.region_id for piece, _ in mine] == [piece.region_id for piece, _ in theirs]:
        both = zip(mine, theirs, strict=True)
        ends = [first_divergence(a.token_ids, b.token_ids) for (a, _), (b, _) in both]
    elif base.token_ids != own.token_ids:
        return None
    total, same = np.zeros(2 * WIDTH), all(end is None for end in ends)
    for side, columns in ((mine, total[:WIDTH]), (theirs, total[WIDTH:])):
        for (_, trace), end in zip(side, ends, strict=False):
            if trace.rounds is None:
                return None
            columns += _counts(trace.rounds, until=end)
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
    columns = rounds.committed, rounds.model_forwards, rounds.accepted
    for committed, cost, matched in zip(*columns, strict=True):
        position += committed
        if until is not None and position > until:
            break
        tokens, count, forwards = tokens + committed, count + 1, forwards + cost
        accepted += matched
    return tokens, count, forwards, accepted
