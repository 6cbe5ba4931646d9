"""c(Q) / c(1): what a forward over Q rows costs against one row, on a given checkpoint and machine.

A round of draft and verify pays off when it commits more than 2 c(B + 1) / c(1) tokens.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gravbench.backends.glm.cache import KvCache
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.backends.glm.step_model import synchronize
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.window import causal_window
from gravbench.errors import UsageError
from gravbench.records import Record

ROW_COUNTS = (1, 2, 4, 8, 16, 17, 32, 33)


class ForwardCost(Record):
    """Seconds of one decoder forward over `rows` rows behind `context` cached ones.

    The fastest of the interleaved repetitions is the cost, since other work on the machine only adds
    time, and more to long forwards; the median beside it shows how much it added.
    """

    rows: int
    context: int
    seconds: float
    median_seconds: float
    ratio: float
    """seconds / seconds of the first row count measured, which is 1 by default."""


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
    """Load the checkpoint and time causal forwards, row counts interleaved, one warm-up each.

    All rows' logits and their argmax on the host are in the time, as in decoding.
    """
    if min((*row_counts, context, repetitions)) < 1:
        raise UsageError("row counts, context and repetitions must be at least 1")
    backend = TransformersLocal(folder, device=device, dtype=dtype, threads=threads)
    with torch.inference_mode():
        return measure_decoder(
            backend.step_model.decoder,
            row_counts=row_counts,
            context=context,
            repetitions=repetitions,
            clock=clock,
        )


def measure_decoder(
    decoder: GlmDecoder,
    *,
    row_counts: Sequence[int],
    context: int,
    repetitions: int,
    clock: Callable[[], int],
) -> list[ForwardCost]:
    """As `measure`, on a decoder at hand and under `torch.inference_mode`."""
    cache = decoder.new_pool().claim(context + max(row_counts))
    decoder.rope.reserve(context + max(row_counts))
    _forward(decoder, cache, torch.zeros(context, dtype=torch.long, device=decoder.device))
    cache.keep(context)
    tokens = {rows: torch.zeros(rows, dtype=torch.long, device=decoder.device) for rows in row_counts}
    samples: dict[int, list[int]] = {rows: [] for rows in row_counts}
    for repetition in range(repetitions + 1):
        for rows, ids in tokens.items():
            synchronize(decoder.device)
            started = clock()
            _forward(decoder, cache, ids)
            if repetition:  # the first is the warm-up
                samples[rows].append(clock() - started)
    fastest = {rows: min(times) / 1e9 for rows, times in samples.items()}
    unit = fastest[row_counts[0]]
    return [
        ForwardCost(
            rows=rows,
            context=context,
            seconds=fastest[rows],
            median_seconds=statistics.median(samples[rows]) / 1e9,
            ratio=fastest[rows] / unit,
        )
        for rows in row_counts
    ]


def _forward(decoder: GlmDecoder, cache: KvCache, ids: Tensor) -> list[int]:
    turn = decoder.rope.response(cache.length, len(ids))
    window = causal_window((0,) * len(ids)) if cache.length else None
    logits = decoder.logits(decoder.forward(decoder.embed(ids), turn, cache, window))
    return logits.argmax(-1).tolist()
