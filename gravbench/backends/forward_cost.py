"""c(Q) / c(1): what a forward over Q rows costs against one row, on a given checkpoint and machine.

A round of draft and verify pays off when it commits more than 2 c(B + 1) / c(1) tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from gravbench.backends.glm.step_model import GlmState, GlmStepModel, synchronize
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.window import Needs, Step, causal_window
from gravbench.errors import UsageError
from gravbench.records import Record

ROW_COUNTS = (1, 2, 4, 8, 16, 17, 32, 33)
WARM = 3
"""Forwards of one shape before one is timed. Decoding repeats its shapes; behind another one a forward of one
row takes half as long again on a CPU, one of many rows hardly more."""


class ForwardCost(Record):
    """Seconds of one decode forward of `requests` requests, `rows` rows each behind `context` cached ones.

    The fastest of the interleaved repetitions is the cost, since other work on the machine only adds
    time, and more to long forwards; the median beside it shows how much it added.
    """

    rows: int
    requests: int = 1
    context: int
    seconds: float
    median_seconds: float
    ratio: float
    """seconds / seconds of the first counts measured, which are 1 by default."""


def measure(
    folder: Path,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    row_counts: Sequence[int] = ROW_COUNTS,
    context: int = 256,
    repetitions: int = 30,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[ForwardCost]:
    """Load the checkpoint and time causal forwards, row counts interleaved, each behind some of its shape.

    As in decoding, the windows' way to the device and the argmax of all rows on the host are in the time.
    """
    backend = TransformersLocal(folder, device=device, dtype=dtype, threads=threads)
    costs = measure_model(
        backend.step_model,
        requests=(1,),
        row_counts=row_counts,
        context=context,
        repetitions=repetitions,
        clock=clock,
    )
    backend.close()
    return costs


@torch.inference_mode()
def measure_model(
    model: GlmStepModel,
    *,
    requests: Sequence[int],
    row_counts: Sequence[int],
    context: int,
    repetitions: int = 30,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> list[ForwardCost]:
    """As `measure`, on a model at hand with no request under way; also of several requests in one forward.

    The first count of requests and of rows is the unit.
    """
    if min((*requests, *row_counts, context, repetitions)) < 1:
        raise UsageError("counts of requests and rows, context and repetitions must be at least 1")
    widest = max(row_counts)
    model.expect(max(requests), Needs(rows_max=widest))
    states = [_state(model, context, widest) for _ in range(max(requests))]
    steps = {rows: Step("verify", causal_window((0,) * rows)) for rows in row_counts}
    samples: dict[tuple[int, int], list[int]] = {}
    for count in sorted(requests, reverse=True):
        while len(states) > count:
            model.release(states.pop())
        for _ in range(repetitions):
            for rows, step in steps.items():
                for _ in range(WARM):
                    _forward(model, states, step)
                started = clock()
                _forward(model, states, step)
                samples.setdefault((count, rows), []).append(clock() - started)
    model.abandon()
    fastest = {key: min(times) / 1e9 for key, times in samples.items()}
    unit = fastest[requests[0], row_counts[0]]
    return [
        ForwardCost(
            rows=rows,
            requests=count,
            context=context,
            seconds=fastest[count, rows],
            median_seconds=statistics.median(samples[count, rows]) / 1e9,
            ratio=fastest[count, rows] / unit,
        )
        for count in requests
        for rows in row_counts
    ]


def _forward(model: GlmStepModel, states: Sequence[GlmState], step: Step) -> None:
    synchronize(model.decoder.device)
    model.forward(states, [step] * len(states)).read_tokens()
    for state in states:
        model.keep(state, 0)


def _state(model: GlmStepModel, context: int, widest: int) -> GlmState:
    """A request with `context` rows in the cache and room for `widest` more."""
    decoder, cache = model.decoder, model.pool.claim(context + widest)
    decoder.rope.reserve(context + widest)
    ids = torch.zeros(context, dtype=torch.long, device=decoder.device)
    decoder.forward(decoder.embed(ids), decoder.rope.response(0, context), cache, None)
    cache.keep(context)
    return GlmState(cache=cache, prefix_tokens=context, offset=0)
