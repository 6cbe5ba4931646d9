"""`edit`: the draft is read again as tokens and corrected, once or more, before it is verified.

    draft    [x0 | MASK x B]     WINDOW(1)  ->  a0 (exact), d_1..d_B
    edit     [a0 | d_1..d_B]     WINDOW(1)  ->  a1 (exact), a new opinion on d_2..d_B and one token more
    ...      until `passes` drafts were made, or one changed nothing
    verify   [boundary | d]      CAUSAL     ->  commit d_1..d_A and the verifier's token

Every pass starts at an exact token, whose keys and values it keeps, so it commits one token. One pass is
`selfspec`. `passes=auto` edits only where few drafts are likely to stand (`below` of them) and the drafts
behind the first doubtful one are sure of themselves on average (`sure`): an error that stands alone. The
idea is DEdit's (arXiv 2609.38510, whose text and code could not be read); passes on the shared weights are
ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from typing import TYPE_CHECKING, Literal

from gravbench.decoding.drafting import block_needs, draft_setting, matched_prefix
from gravbench.decoding.masks import window
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, Window, causal_window

if TYPE_CHECKING:
    from gravbench.decoding.rows import Rows

AUTO_PASSES = 3
"""At most so many drafts a round where `auto` decides."""


@dataclass(frozen=True, slots=True)
class Edit(Strategy):
    """`block=None` drafts the trained block size. `below` and `sure` are read by `passes=auto` alone."""

    block: int | None = option(None, low=1)
    passes: int | Literal["auto"] = option(2, low=1, high=8)
    below: float = option(2.0, low=0)
    sure: float = option(0.8, low=0, high=1)

    def needs(self, info: ModelInfo) -> Needs:
        return block_needs("edit", self.block, info)

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("edit", self.block, lane.info)
        most = AUTO_PASSES if self.passes == "auto" else self.passes
        drafts: list[int] = [mask_id] * block
        seen: list[list[int]] = []  # the draft of each pass
        exact: list[int] = []
        more = True
        while more:
            asked = (lane.output.boundary, *drafts)
            rows = yield Step("draft", Window(asked, window(1, block + 1)))
            first, *found = rows.tokens
            settled = bool(exact) and [first, *found[:-1]] == drafts
            lane.keep(1)
            exact.append(first)
            drafts = found
            seen.append(drafts)
            ended = lane.output.ends_with(first)
            more = not (ended or settled or len(seen) >= most)
            more = more and (self.passes != "auto" or self._pays(rows, block))
            lane.commit((first,))
            lane.trace.count("edit_settled", settled)
        lane.trace.count("edit_passes", len(seen) - 1)
        if ended:
            lane.trace.round(seeds=len(exact), extra=len(exact))
            return
        verified = (yield Step("verify", causal_window((exact[-1], *drafts)))).tokens
        accepted = matched_prefix(drafts, verified)
        lane.keep(lane.commit([*drafts[:accepted], verified[accepted]]))
        _count(lane, seen, [*exact, *verified[: accepted + 1]])
        lane.trace.round(seeds=len(exact), offered=block, accepted=accepted, extra=len(exact) + 1)

    def _pays(self, rows: Rows, block: int) -> bool:
        """Few drafts are likely to stand, and what follows the first doubtful one is sure of itself."""
        sure = [math.exp(best[0]) for best in rows.topk(range(1, block + 1), 1).logp]
        weak = next((at for at, chance in enumerate(sure) if chance < self.sure), None)
        if weak is None or weak + 1 == block:
            return False
        behind = sure[weak + 1 :]
        return sum(accumulate(sure, mul)) < self.below and sum(behind) / len(behind) >= self.sure


def _count(lane: Lane[StateT], seen: Sequence[Sequence[int]], right: Sequence[int]) -> None:
    """Hold every pass against `right`, the tokens of the round; pass p drafts from its token p + 1 on.

    A slot that two passes drafted was edited to the better, to the worse, or neither.
    """
    for number, drafts in enumerate(seen, start=1):
        known = right[number : number + len(drafts)]
        lane.trace.count(f"accept_if_stopped_at_{number}", matched_prefix(drafts[: len(known)], known))
    for number, (before, after) in enumerate(pairwise(seen), start=2):
        for token, old, new in zip(right[number:], before[1:], after, strict=False):
            kind = "neutral" if (old == token) == (new == token) else "helpful" if new == token else "harmful"
            lane.trace.count(f"edits_{kind}", old != new)
