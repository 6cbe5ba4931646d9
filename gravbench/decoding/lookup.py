"""`lookup`: drafts copied from the answer's own past, verified autoregressively. Training-free.

    draft    the tokens that followed the last earlier occurrence of the longest matching end of the answer
    verify   [x0, d_1..d_K]    CAUSAL    ->  a_1..a_{K+1}
    commit   d_1..d_A, a_{A+1}           A = longest prefix with d_j = a_j; 1..K+1 tokens

Without a match the round is one step of autoregression. A copy that reaches the end of the answer goes on
with what it has copied, so a repeated row is drafted whole however short its period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gravbench.decoding.drafting import fits, matched_prefix
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, causal_window
from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Lookup(Strategy):
    """`tokens` drafted a round; ends of `longest` down to `shortest` tokens are looked for."""

    tokens: int = option(8, low=1)
    longest: int = option(4, low=1)
    shortest: int = option(2, low=1)

    def needs(self, info: ModelInfo) -> Needs:
        if self.shortest > self.longest:
            raise UsageError(
                f"lookup: shortest is {self.shortest}, longest is {self.longest}",
                hint="for example lookup:longest=4,shortest=2",
            )
        return Needs(rows_max=fits(f"lookup:tokens={self.tokens}", self.tokens + 1, info))

    def round(self, lane: Lane[StateT]) -> Round:
        if lane.carried is None:
            lane.carried = _Past(self.shortest, self.longest)
        matched, drafts = lane.carried.drafts(lane.output.tokens, self.tokens)
        rows = yield Step("verify", causal_window((lane.output.boundary, *drafts)))
        verified = rows.tokens
        accepted = matched_prefix(drafts, verified)
        committed = lane.commit([*drafts[:accepted], verified[accepted]])
        lane.keep(committed)  # x0 and all but the new boundary token
        lane.trace.count("match_found", bool(drafts))
        lane.trace.count("match_len", matched)
        lane.trace.round(extra=1, offered=len(drafts), accepted=accepted)


@dataclass(slots=True)
class _Past:
    """Where each run of `shortest` to `longest` tokens was last followed by another token."""

    shortest: int
    longest: int
    after: dict[tuple[int, ...], int] = field(default_factory=dict)
    seen: int = 0

    def drafts(self, tokens: Sequence[int], count: int) -> tuple[int, list[int]]:
        """Length of the longest match and `count` drafts; 0 and none without a match."""
        for end in range(self.seen, len(tokens)):
            for length in range(self.shortest, min(self.longest, end) + 1):
                self.after[tuple(tokens[end - length : end])] = end
        self.seen = len(tokens)
        for length in range(min(self.longest, len(tokens)), self.shortest - 1, -1):
            at = self.after.get(tuple(tokens[-length:]))
            if at is not None:
                whole = list(tokens)
                for source in range(at, at + count):
                    whole.append(whole[source])
                return length, whole[len(tokens) :]
        return 0, []
