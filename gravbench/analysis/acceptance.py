"""Acceptance from the per-round log: histogram, and acceptance by draft position.

Positions behind the end of the output tell nothing about the drafter: in a round cut by EOS or the budget
they leave the risk set (right-censored), otherwise short outputs would bend the tail downwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gravbench.records import Record
from gravbench.store.schema import GenRecord


class PositionAcceptance(Record):
    """Draft position `j` (from 1). `unconditional` = P(accepted >= j), `conditional` = given j - 1 accepted.

    `at_risk` rounds offered j and were not cut before it; of them `reached` had j - 1 accepted and `accepted`
    had j.
    """

    position: int
    at_risk: int
    reached: int
    accepted: int
    unconditional: float
    conditional: float | None


class Acceptance(Record):
    """`histogram[a]` drafting rounds accepted `a` tokens; `committed[c]` rounds committed `c`."""

    histogram: dict[int, int]
    committed: dict[int, int]
    positions: tuple[PositionAcceptance, ...]


def acceptance(records: Iterable[GenRecord]) -> Acceptance | None:
    """Acceptance of the ok records; `None` when no round offered a draft."""
    histogram: Counter[int] = Counter()
    commits: Counter[int] = Counter()
    at_risk: Counter[int] = Counter()
    reached: Counter[int] = Counter()
    accepted_at: Counter[int] = Counter()
    for record in records:
        for offered, accepted, committed, last in _rounds(record):
            commits[committed] += 1
            if not offered:
                continue
            histogram[accepted] += 1
            seeded = record.arm.partition(":")[0] == "selfspec"
            cut = last and committed < accepted + (2 if seeded else 1)
            seen = min(accepted, committed - seeded) if cut else accepted
            limit = seen if cut else offered
            for position in range(1, limit + 1):
                at_risk[position] += 1
                reached[position] += position <= seen + 1
                accepted_at[position] += position <= seen
    if not histogram:
        return None
    return Acceptance(
        histogram=dict(sorted(histogram.items())),
        committed=dict(sorted(commits.items())),
        positions=tuple(
            PositionAcceptance(
                position=position,
                at_risk=at_risk[position],
                reached=reached[position],
                accepted=accepted_at[position],
                unconditional=accepted_at[position] / at_risk[position],
                conditional=accepted_at[position] / reached[position] if reached[position] else None,
            )
            for position in sorted(at_risk)
        ),
    )


def _rounds(record: GenRecord) -> Iterable[tuple[int, int, int, bool]]:
    if record.status != "ok" or record.trace is None:
        return
    rounds = record.trace.rounds
    last = record.trace.counters.rounds - 1
    columns = zip(rounds.offered, rounds.accepted, rounds.committed, strict=True)
    for index, (offered, accepted, committed) in enumerate(columns):
        yield offered, accepted, committed, index == last
