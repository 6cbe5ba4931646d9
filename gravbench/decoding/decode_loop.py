"""The one decode loop: prefill, then rounds of a strategy until EOS or the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gravbench.decoding.output import Output
from gravbench.decoding.protocols import StateT, StepModel, Strategy
from gravbench.decoding.repetition import has_loop
from gravbench.decoding.tracing import TraceRecorder
from gravbench.records import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What one request gave. `tokens` ends with EOS when `stop_reason` is eos."""

    tokens: tuple[int, ...]
    stop_reason: Literal["eos", "length"]
    loop_flag: bool


def decode_request(
    model: StepModel[StateT], request: Request, *, strategy: Strategy, budget: int, trace: TraceRecorder
) -> Decoded:
    """Decode one request with at most `budget` output tokens, the prefill's own token included.

    The budget is cut to what the model's positions leave after the prefix, alike for every strategy;
    reaching either is `stop_reason="length"`.
    """
    window = strategy.widest_window(model.info)
    state, logits = model.prefill(request, budget=budget, window=window, trace=trace)
    output = Output(model.info.eos_token_ids, budget=min(budget, model.room(state)))
    output.extend((int(logits.argmax(-1)),))
    with trace.stage("decode"):
        while output.stop_reason is None:
            strategy.round(model, state, output, trace)
    return Decoded(
        tokens=tuple(output.tokens), stop_reason=output.stop_reason, loop_flag=has_loop(output.tokens)
    )
