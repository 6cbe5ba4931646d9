"""`ar`: greedy autoregression, the oracle of every other strategy."""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.decoding.masks import causal
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, Window

_ONE = causal(1)


@dataclass(frozen=True, slots=True)
class Autoregressive(Strategy):
    """One causal row a round: forward x0, take one token. Counted as a verify forward."""

    def needs(self, info: ModelInfo) -> Needs:  # noqa: ARG002 - every checkpoint can do this
        return Needs(rows_max=1)

    def round(self, lane: Lane[StateT]) -> Round:
        rows = yield Step("verify", Window((lane.output.boundary,), _ONE))
        lane.keep(1)
        lane.commit(rows.tokens)
        lane.trace.round(extra=1)
