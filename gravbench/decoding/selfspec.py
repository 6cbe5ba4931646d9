"""`selfspec`: the same weights draft a block by diffusion and verify it autoregressively.

The two-forward full-draft round of GravityOCR, and its legacy variant:

    draft    [x0 | MASK x B]        WINDOW(1)  ->  a0 (exact, the row is causal), d_1..d_B
    verify   [a0, d_1..d_B]         CAUSAL     ->  a_1..a_{B+1}
    commit   a0, d_1..d_A, a_{A+1}             A = longest prefix with d_j = a_j; 2..B+2 tokens

x0's keys and values are kept from the draft forward, so both forwards have B + 1 rows and no third
one is needed. The legacy round verifies `[x0, a0, d_1..d_{B-1}]` instead: the last mask's logits are
unused, there is no bonus token, and a round commits at most B tokens. The output is the same.

When a0 itself ends the request (EOS, or the last token of the budget) the verify is skipped and the
round has offered nothing. Otherwise the window keeps its size up to the end of the budget: a shorter
one could not change the tokens, and one shape serves every round.

`verify=m` verifies the first m drafts alone: what is drafted does not change, and where few are accepted
the narrower forward is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.decoding.drafting import (
    block_draft,
    block_needs,
    draft_setting,
    ended_by_seed,
    matched_prefix,
    within_block,
)
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, causal_window

EXTRA = 2
"""A round commits up to this many tokens beside the accepted drafts: the seed and the verifier's own."""


@dataclass(frozen=True, slots=True)
class SelfSpeculative(Strategy):
    """`block=None` drafts the block size the checkpoint was trained with; `verify=None` verifies it whole."""

    block: int | None = option(None, low=1)
    legacy: bool = False
    verify: int | None = option(None, low=1)

    def needs(self, info: ModelInfo) -> Needs:
        within_block("selfspec", "verify", self.verify, draft_setting("selfspec", self.block, info)[0])
        return block_needs("selfspec", self.block, info)

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("selfspec", self.block, lane.info)
        rows = yield block_draft(lane, block, mask_id)
        a0, *drafts = rows.tokens
        if ended_by_seed(lane, a0):
            return
        if self.legacy:
            yield from _verify_legacy(lane, a0=a0, drafts=drafts[:-1][: self.verify])
        else:
            yield from _verify_full(lane, a0=a0, drafts=drafts[: self.verify])


def _verify_full(lane: Lane[StateT], *, a0: int, drafts: list[int]) -> Round:
    """Keep x0's row, verify `[a0, d_1..d_B]`, commit a0, the accepted drafts and the verifier's token."""
    lane.keep(1)
    verified = (yield Step("verify", causal_window((a0, *drafts)))).tokens
    accepted = matched_prefix(drafts, verified)
    committed = lane.commit([a0, *drafts[:accepted], verified[accepted]])
    lane.keep(committed - 1)  # all but the new boundary token
    lane.trace.round(seeds=1, offered=len(drafts), accepted=accepted, extra=EXTRA)


def _verify_legacy(lane: Lane[StateT], *, a0: int, drafts: list[int]) -> Round:
    """Drop the draft's rows, verify `[x0, a0, d_1..d_{B-1}]`, commit without a bonus token."""
    lane.keep(0)
    rows = yield Step("verify", causal_window((lane.output.boundary, a0, *drafts)))
    _, *verified = rows.tokens
    accepted = matched_prefix(drafts, verified)
    correction = verified[accepted : accepted + 1] if accepted < len(drafts) else []
    committed = lane.commit([a0, *drafts[:accepted], *correction])
    lane.keep(committed)  # x0 and all but the new boundary token
    lane.trace.round(seeds=1, offered=len(drafts), accepted=accepted, extra=EXTRA)
