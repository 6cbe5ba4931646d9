"""`ar`: greedy autoregression, the oracle of every other strategy."""

from __future__ import annotations

from gravbench.decoding.masks import CAUSAL
from gravbench.decoding.output import Output
from gravbench.decoding.protocols import ModelInfo, Round, StateT, Step, StepModel, Window
from gravbench.decoding.tracing import TraceRecorder


class Autoregressive:
    """One causal row a round: forward x0, take one token. Counted as a verify forward."""

    def widest_window(self, info: ModelInfo) -> int:  # noqa: ARG002 - every checkpoint can do this
        return 1

    def round(self, model: StepModel[StateT], state: StateT, output: Output, trace: TraceRecorder) -> Round:
        token = yield Step("verify", Window((output.boundary,), CAUSAL))
        model.keep(state, 1)
        trace.round(offered=0, accepted=0, produced=1, committed=output.extend(token))
