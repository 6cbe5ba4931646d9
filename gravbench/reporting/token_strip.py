"""Round by round, what became of a draft: which tokens were accepted, which the verifier wrote itself.

Drafted ids that were rejected are not recorded; their number is, and that is what the strip shows.
"""

from __future__ import annotations

from typing import NamedTuple

from gravbench.records import Rounds

PREFILL, SEED, ACCEPTED, CORRECTION, BONUS, PLAIN = "psacbg"


class StripRound(NamedTuple):
    """A round. `kinds` has a letter a committed token: s seed, a accepted, c correction, b bonus, g plain.

    `rejected` drafts failed the check or came behind one that did; `dropped` were right, but behind the end.
    """

    kinds: str
    offered: int
    rejected: int
    dropped: int


def strip_rounds(arm: str, rounds: Rounds) -> tuple[StripRound, ...]:
    """Rounds of one request. The seed opens those of `selfspec` alone; prefill's token is before them."""
    seeded = arm.partition(":")[0] == "selfspec"
    columns = list(zip(rounds.offered, rounds.accepted, rounds.committed, strict=True))
    kinds = {column: _round(*column, seeded=seeded) for column in set(columns)}
    return tuple(kinds[column] for column in columns)


def _round(offered: int, accepted: int, committed: int, *, seeded: bool) -> StripRound:
    if not offered:
        return StripRound(kinds=PLAIN * committed, offered=0, rejected=0, dropped=0)
    own = BONUS if accepted == offered else CORRECTION
    whole = (SEED if seeded else "") + ACCEPTED * accepted + own
    kinds = whole[:committed].ljust(committed, own)
    return StripRound(
        kinds=kinds,
        offered=offered,
        rejected=offered - accepted,
        dropped=accepted - kinds.count(ACCEPTED),
    )
