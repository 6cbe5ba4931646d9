"""`adaptive`: every round drafts the block that pays best after what was accepted lately, or nothing.

    J(b) = (2 + p + p^2 + .. + p^b) / (2 c(b + 1))     tokens a cost unit of a `selfspec` round with b drafts
    J(0) = 1 / c(1)                                     a step of autoregression

p is the chance that one more draft is right: accepted / (accepted + rejected) over this answer's own
rounds, each round counting `memory` times the one after it, so that drafting stops where the next tokens
hang on the image and starts again behind it. A block that was accepted whole saw no rejection. While
nothing is drafted nothing is learnt: every `explore`-th such round drafts one token all the same. c is a
table (`costs=PATH`, see `gravbench.decoding.costs`) and no clock, so counters are the same on every
machine. Tokens never depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.decoding.ar import Autoregressive
from gravbench.decoding.costs import SHIPPED, Costs, costs_of
from gravbench.decoding.drafting import block_needs, draft_setting
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.selfspec import SelfSpeculative
from gravbench.decoding.window import Needs


@dataclass(slots=True)
class _Recent:
    """Drafts accepted and rejected, recent ones counting more; rounds since the last draft.

    It begins as if a few drafts had been seen, four of five of them right.
    """

    costs: Costs = SHIPPED
    """Read once an answer."""
    accepted: float = 4.0
    rejected: float = 1.0
    idle: int = 0

    def saw(self, accepted: int, *, rejected: bool, memory: float) -> None:
        self.accepted = memory * self.accepted + accepted
        self.rejected = memory * self.rejected + rejected
        self.idle = 0

    @property
    def chance(self) -> float:
        seen = self.accepted + self.rejected
        return self.accepted / seen if seen > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Adaptive(Strategy):
    """Blocks of 1 to `block` drafts; `block=None`: up to the trained size."""

    block: int | None = option(None, low=1)
    memory: float = option(0.95, low=0, high=1)
    explore: int = option(16, low=1)
    costs: str | None = option(None)

    def needs(self, info: ModelInfo) -> Needs:
        needs = block_needs("adaptive", self.block, info)
        costs_of(self.costs, "adaptive")
        return needs

    def round(self, lane: Lane[StateT]) -> Round:
        most, _ = draft_setting("adaptive", self.block, lane.info)
        if lane.carried is None:
            lane.carried = _Recent(costs_of(self.costs, "adaptive"))
        recent: _Recent = lane.carried
        block = best_block(recent.chance, most, recent.costs)
        if not block and recent.idle + 1 >= self.explore:
            block = 1
        lane.trace.count("rounds_without_draft", not block)
        if not block:
            recent.idle += 1
            yield from Autoregressive().round(lane)
            return
        before = len(lane.output.tokens)
        yield from SelfSpeculative(block).round(lane)
        if lane.output.stop_reason is None:  # nothing was cut: the seed, the accepted drafts, one token more
            accepted = len(lane.output.tokens) - before - 2
            recent.saw(accepted, rejected=accepted < block, memory=self.memory)


def best_block(chance: float, most: int, costs: Costs) -> int:
    """Drafts that promise most tokens for their cost, the fewer of equals; 0: none."""
    best, rate = 0, 1 / costs(1)
    promised, reach = 2.0, 1.0
    for block in range(1, most + 1):
        reach *= chance
        promised += reach
        own = promised / (2 * costs(block + 1))
        if own > rate:
            best, rate = block, own
    return best
