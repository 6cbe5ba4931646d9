"""`mtp`: a small head drafts token after token from the model's own states (FastMTP, arXiv 2509.18362).

    catch up  the head takes in the true rows of the last round  ->  d_1
    step      (its own state, d_{k-1})                           ->  d_k, k = 2..K
    verify    [x0, d_1..d_K]     CAUSAL                          ->  a_1..a_{K+1} and the states of the rows
    commit    d_1..d_A, a_{A+1}         A = longest prefix with d_j = a_j; 1..K+1 tokens

A true row is the model's state of a slot with the token of the next slot. The head keeps keys and values of
true rows alone: what it drafted from its own states is dropped before the verify. One layer with shared
weights makes all K steps. A drafted end of the answer is verified and nothing is drafted behind it; nothing
is drafted beyond the budget either.
"""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.decoding.drafting import fits, head_of, matched_prefix
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, Wants, causal_window


@dataclass(frozen=True, slots=True)
class MultiToken(Strategy):
    """`steps` tokens drafted a round, K."""

    steps: int = option(3, low=1, high=64)

    def needs(self, info: ModelInfo) -> Needs:
        head_of("mtp", info)
        rows = fits(f"mtp:steps={self.steps}", self.steps + 1, info)
        return Needs(rows_max=rows, hidden=True, head="mtp")

    def round(self, lane: Lane[StateT]) -> Round:
        head = lane.model.head
        assert head is not None
        features, tokens = lane.carried or (
            None,
            [lane.output.boundary],
        )  # at first the prefix's state is held
        last = Wants(rows=(len(tokens) - 1,))
        rows = yield Step("head", causal_window(tokens), last, features=features)
        true_rows, drafts = head.length(lane.state), rows.tokens
        most = min(self.steps, lane.output.remaining)
        while len(drafts) < most and drafts[-1] not in lane.info.eos_token_ids:
            drafts = [*drafts, *(yield Step("head", causal_window(drafts[-1:]))).tokens]
        head.truncate(lane.state, true_rows)
        rows = yield Step("verify", causal_window((lane.output.boundary, *drafts)))
        accepted = matched_prefix(drafts, rows.tokens)
        committed = lane.commit(rows.tokens[: accepted + 1])
        lane.keep(committed)  # x0 and all but the new boundary token
        lane.carried = rows.hidden(range(committed)), rows.tokens[:committed]
        lane.trace.round(extra=1, offered=len(drafts), accepted=accepted)
