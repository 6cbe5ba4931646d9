"""Acceptance from the per-round log: histogram, and acceptance by draft position.

Positions behind the end of the output tell nothing about the drafter: in a round cut by EOS or the budget
they leave the risk set (right-censored), otherwise short outputs would bend the tail downwards. A round that
committed less than it accepted was cut: the last of a request, of which a page has one a region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import repeat

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

    @property
    def first_rejections(self) -> dict[int, int]:
        """Draft position (from 1) -> rounds whose first rejected draft it was; absent where there is none."""
        rejected = {p.position: p.reached - p.accepted for p in self.positions}
        return {position: n for position, n in rejected.items() if n}

    @property
    def conditional(self) -> dict[int, float]:
        """Draft position -> accepted there / reached; absent where no round reached it."""
        return {p.position: p.conditional for p in self.positions if p.conditional is not None}


def acceptance(records: Iterable[GenRecord]) -> Acceptance | None:
    """Acceptance of the ok records; `None` when no round offered a draft."""
    histogram: Counter[int] = Counter()
    commits: Counter[int] = Counter()
    at_risk: Counter[int] = Counter()
    reached: Counter[int] = Counter()
    accepted_at: Counter[int] = Counter()
    for (offered, accepted, committed, seeded), n in _rounds(records).items():
        commits[committed] += n
        if not offered:
            continue
        histogram[accepted] += n
        cut = committed < accepted + (2 if seeded else 1)
        seen = min(accepted, committed - seeded) if cut else accepted
        for position in range(1, (seen if cut else offered) + 1):
            at_risk[position] += n
            reached[position] += n * (position <= seen + 1)
            accepted_at[position] += n * (position <= seen)
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


def _rounds(records: Iterable[GenRecord]) -> Counter[tuple[int, int, int, bool]]:
    """How many rounds there are of each kind: offered, accepted, committed, whether a seed opens it."""
    found: Counter[tuple[int, int, int, bool]] = Counter()
    for record in records:
        if record.status == "ok" and record.trace is not None:
            rounds, seeded = record.trace.rounds, record.arm.partition(":")[0] == "selfspec"
            assert len(rounds.offered) == len(rounds.accepted) == len(rounds.committed)
            found.update(zip(rounds.offered, rounds.accepted, rounds.committed, repeat(seeded)))
    return found
