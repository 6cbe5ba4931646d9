"""The independent answers inside a sample, and decode counts of two sides on exactly the tokens they share.

A crop has one answer, a page one a region; rounds and token ids of a page are those of its regions one after
another. Regions are read independently, so a difference in one says nothing about the next: comparisons go
region by region. Where outputs are identical all rounds count. Where they part, only the rounds that lie
wholly before the first difference count, on both sides; what follows answers another question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gravbench.analysis.bootstrap import Floats, Statistic, divided
from gravbench.records import Counters, Record, Rounds, joined_rounds
from gravbench.store.page_schema import PageDetail
from gravbench.store.schema import GenRecord


class Segment(Record):
    """How far one region's answer reaches in its page's token ids and rounds."""

    region_id: str
    tokens_out: int
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One answer. `region_id` is empty for a crop."""

    region_id: str
    token_ids: tuple[int, ...]
    rounds: Rounds | None
    """`None` when the engine hides them."""


class HasPage(Protocol):
    """A record that may be of a page."""

    @property
    def page(self) -> PageDetail | None: ...


def segments_of(record: HasPage) -> tuple[Segment, ...]:
    """Segments of a page, failed regions left out; empty for a crop."""
    if record.page is None:
        return ()
    return tuple(
        Segment(region_id=r.region_id, tokens_out=r.counters.tokens_out, rounds=r.counters.rounds)
        for r in record.page.regions
        if r.counters is not None
    )


def cut_pieces(
    token_ids: Sequence[int], rounds: Rounds | None, segments: Sequence[Segment]
) -> tuple[Piece, ...]:
    """Answers of one sample; without segments the whole is one."""
    if not segments:
        return (Piece(region_id="", token_ids=tuple(token_ids), rounds=rounds),)
    pieces, token, start = [], 0, 0
    for segment in segments:
        stop = start + segment.rounds
        pieces.append(
            Piece(
                region_id=segment.region_id,
                token_ids=tuple(token_ids[token : token + segment.tokens_out]),
                rounds=None if rounds is None else rounds.part(start, stop),
            )
        )
        token, start = token + segment.tokens_out, stop
    return tuple(pieces)


def joined(pieces: Sequence[Piece]) -> Piece:
    """All answers of a sample as one."""
    return Piece(
        region_id="",
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        rounds=joined_rounds([piece.rounds for piece in pieces]),
    )


def pieces_of(record: GenRecord) -> tuple[Piece, ...] | None:
    """Answers of a record; `None` when it failed."""
    if record.status != "ok" or record.trace is None:
        return None
    return cut_pieces(record.token_ids, record.trace.rounds, segments_of(record))


def counted(record: GenRecord) -> Counters | None:
    """Totals of a record; `None` when it failed."""
    return record.trace.counters if record.status == "ok" and record.trace is not None else None


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

Answers = tuple[Piece, ...] | None
"""Answers of one sample; `None` when it failed."""


Totals = tuple[Counters | None, Counters | None]
"""Counters of one sample on both sides; `None` when it failed."""


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


def counter_table(pairs: Sequence[tuple[Answers, Answers]], totals: Sequence[Totals] = ()) -> CounterTable:
    """Counts of (base, own) pairs on their common tokens; pages are compared region by region.

    Where an engine hides its rounds, equal outputs have their `totals`, as far as both sides told them.
    """
    columns = np.zeros((len(pairs), 2 * WIDTH))
    comparable, identical = [], []
    for row, (base, own) in enumerate(pairs):
        counts = None if base is None or own is None else _common_counts(base, own)
        if counts is None and totals:
            counts = _equal_totals(base, own, *totals[row])
        comparable.append(counts is not None)
        identical.append(counts is not None and counts[1])
        if counts is not None:
            columns[row] = counts[0]
    return CounterTable(columns=columns, comparable=tuple(comparable), identical=tuple(identical))


def _equal_totals(
    base: Answers, own: Answers, told: Counters | None, told_own: Counters | None
) -> tuple[Floats, bool] | None:
    """Totals [8] of two answers of equal tokens; `None` where they differ or a side did not tell them."""
    if base is None or own is None or told is None or told_own is None:
        return None
    equal = joined(base).token_ids == joined(own).token_ids
    if not (equal and _told(told) and _told(told_own)):
        return None
    return np.array([*_totals(told), *_totals(told_own)], dtype=np.float64), True


def whole_table(pairs: Sequence[Totals]) -> CounterTable:
    """Counts of (base, own) pairs on everything each side wrote; `None` stands for a failed sample.

    A sample whose totals an engine did not tell is not comparable.
    Outputs need not be equal: this is what two models did with the same samples.
    """
    columns = np.zeros((len(pairs), 2 * WIDTH))
    both = [False] * len(pairs)
    for row, (base, own) in enumerate(pairs):
        if base is not None and own is not None and _told(base) and _told(own):
            columns[row] = [*_totals(base), *_totals(own)]
            both[row] = True
    return CounterTable(columns=columns, comparable=tuple(both), identical=(False,) * len(pairs))


def _told(c: Counters) -> bool:
    """Whether an engine that wrote tokens told its rounds and forwards."""
    return not c.decode_tokens or (c.rounds > 0 and c.decode_forwards > 0)


def _totals(c: Counters) -> tuple[int, int, int, int]:
    return c.decode_tokens, c.rounds, c.decode_forwards, c.draft_accepted


def _common_counts(base: Sequence[Piece], own: Sequence[Piece]) -> tuple[Floats, bool] | None:
    """Counts [8] of one sample and whether its tokens are identical; `None` without a common round, and where
    an engine hides its rounds.

    Sides cut into other regions, or not cut at all, have counts only when their tokens are equal as a whole.
    """
    if [piece.region_id for piece in base] != [piece.region_id for piece in own]:
        base, own = (joined(base),), (joined(own),)
        if base[0].token_ids != own[0].token_ids:
            return None
    if any(piece.rounds is None for piece in (*base, *own)):
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


def _counts(rounds: Rounds | None, *, until: int | None) -> tuple[int, int, int, int]:
    """Tokens, rounds, forwards and accepted drafts of the rounds that end before token `until`."""
    assert rounds is not None
    position, tokens, count, forwards, accepted = 1, 0, 0, 0, 0  # prefill's own token is position 0
    columns = rounds.committed, rounds.model_forwards, rounds.accepted
    for committed, cost, matched in zip(*columns, strict=True):
        position += committed
        if until is not None and position > until:
            break
        tokens, count, forwards = tokens + committed, count + 1, forwards + cost
        accepted += matched
    return tokens, count, forwards, accepted
