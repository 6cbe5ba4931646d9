"""Acceptance from the per-round log: histogram, and acceptance by draft position.

Positions behind the end of the output tell nothing about the drafter: in a round cut by EOS or the budget
they leave the risk set (right-censored), otherwise short outputs would bend the tail downwards. Rounds that
were rejected before the end was reached stay in it, so a share of the rounds at risk would lie too low at
every position: P(accepted >= j) is the running product of the conditional shares (Kaplan-Meier). A round that
committed less than it accepted was cut: the last of a request, of which a page has one a region.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import repeat

from gravbench.records import Record
from gravbench.store.schema import GenRecord


class PositionAcceptance(Record):
    """Draft position `j` (from 1). `conditional` = accepted / reached, P(accepted >= j | accepted >= j - 1).

    `unconditional` = P(accepted >= j) as `Acceptance.survival` has it, `None` where that has nothing. Older
    documents hold accepted / at_risk, which is too low; `survival` is right for them too.
    `at_risk` rounds offered j and were not cut before it; of them `reached` had j - 1 accepted and `accepted`
    had j.
    """

    position: int
    at_risk: int
    reached: int
    accepted: int
    unconditional: float | None
    conditional: float | None


class Acceptance(Record):
    """`histogram[a]` drafting rounds accepted `a` tokens; `committed[c]` rounds committed `c`.

    Drafts that were accepted behind the end of the output count in `histogram`: the verifier agreed with
    them, and trimming the output takes nothing back.
    """

    histogram: dict[int, int]
    committed: dict[int, int]
    positions: tuple[PositionAcceptance, ...]

    @property
    def survival(self) -> dict[int, float]:
        """Draft position -> P(accepted >= position), the running product of `conditional` (Kaplan-Meier).

        Absent from the first position on that no round reached, unless nothing gets that far: then 0.
        """
        found: dict[int, float] = {}
        share = 1.0
        for place in self.positions:
            if share and place.conditional is None:
                break
            share *= place.conditional or 0.0
            found[place.position] = share
        return found

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
    counted = Acceptance(
        histogram=dict(sorted(histogram.items())),
        committed=dict(sorted(commits.items())),
        positions=tuple(
            PositionAcceptance(
                position=position,
                at_risk=at_risk[position],
                reached=reached[position],
                accepted=accepted_at[position],
                unconditional=None,
                conditional=accepted_at[position] / reached[position] if reached[position] else None,
            )
            for position in sorted(at_risk)
        ),
    )
    return _with_survival(counted)


def _with_survival(counted: Acceptance) -> Acceptance:
    survival = counted.survival
    positions = (p.model_copy(update={"unconditional": survival.get(p.position)}) for p in counted.positions)
    return counted.model_copy(update={"positions": tuple(positions)})


def _rounds(records: Iterable[GenRecord]) -> Counter[tuple[int, int, int, bool]]:
    """How many rounds there are of each kind: offered, accepted, committed, whether a seed opens it."""
    found: Counter[tuple[int, int, int, bool]] = Counter()
    for record in records:
        if record.status == "ok" and record.trace is not None:
            rounds, seeded = record.trace.rounds, record.arm.partition(":")[0] == "selfspec"
            assert len(rounds.offered) == len(rounds.accepted) == len(rounds.committed)
            found.update(zip(rounds.offered, rounds.accepted, rounds.committed, repeat(seeded)))
    return found
