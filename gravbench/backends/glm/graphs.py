"""Forwards of fixed shape that are recorded once and replayed: CUDA graphs for decoding.

A decode forward of a small model is bound by launching its kernels. A forward of one shape always launches
the same ones, so it can be recorded. Key counts are rounded up to a few lengths; keys beyond a request's own
are hidden.

A shape runs unrecorded when it is first met and is recorded by `settle`, which is called between requests
and outside every clock.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gravbench.backends.glm.batch import Embedder, Inputs, Outputs, Shape, forward_rows
from gravbench.backends.glm.cache import KvPool
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.decoding.masks import block, causal, packed
from gravbench.errors import EngineError

SHORTEST_KEYS = 512

Work = Callable[[], Outputs]
Recorder = Callable[[Work], Work]
"""Turns work into something that repeats it on the same memory. Its output is valid until the next replay
of anything it recorded."""


def rounded_keys(needed: int, *, capacity: int) -> int:
    """The key count a forward is run with: 512, 1024, 2048, ..., never more than a slot has."""
    keys = SHORTEST_KEYS
    while keys < needed:
        keys *= 2
    return max(needed, min(keys, capacity))


class GraphedForwards:
    """Recorded forwards of one decoder over one pool."""

    def __init__(
        self, decoder: GlmDecoder, pool: KvPool, *, record: Recorder, embedder: Embedder | None = None
    ) -> None:
        self._decoder, self._pool, self._record, self._embedder = decoder, pool, record, embedder
        self._recorded: dict[Shape, tuple[Inputs, Work]] = {}
        self._met: list[Shape] = []
        self._memory = self._where()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """What is recorded, in the order it was."""
        return tuple(self._recorded)

    def __call__(self, shape: Shape, inputs: Inputs) -> Outputs:
        """All rows' outputs, valid until the next forward."""
        self._forget_if_moved()
        if (found := self._recorded.get(shape)) is None:
            if shape not in self._met:
                self._met.append(shape)
            return self._plain(shape, inputs)
        own, replay = found
        own.copy_(inputs)
        return replay()

    def _plain(self, shape: Shape, inputs: Inputs) -> Outputs:
        return forward_rows(self._decoder, self._pool, inputs, shape, embedder=self._embedder)

    def settle(self) -> None:
        """Record the shapes met since the last call. Only while no request is under way: slots are written.

        `EngineError` when a shape cannot be recorded, or a replay does not give the plain forward's numbers.
        """
        self._forget_if_moved()
        while self._met:
            shape = self._met.pop()
            try:
                self._recorded[shape] = self._recording(shape)
            except (RuntimeError, MemoryError) as error:
                reason = " ".join(str(error).split())[:200]
                raise EngineError(
                    f"a decode forward of {shape.requests} x {shape.rows} rows and {shape.keys} keys "
                    f"cannot be recorded: {reason}",
                    hint="Run with --backend transformers, without cuda_graphs=yes.",
                ) from error

    def _recording(self, shape: Shape) -> tuple[Inputs, Work]:
        """Record with one set of inputs, then hold a replay with another against the plain forward."""
        own, other = (
            trial_inputs(shape, self._pool.capacity, seed).to(self._decoder.device) for seed in (0, 1)
        )
        replay = self._record(lambda: self._plain(shape, own))
        plain = self._plain(shape, other)
        expected = [output.clone() for output in (plain.logits, plain.hidden, *plain.taps)]
        slots, written = self._pool.rows.flatten(3, 4), other.numbers[2]
        cached = slots.index_select(3, written)
        slots.index_fill_(3, written, 0.0)  # so that only the replay can have written them
        own.copy_(other)
        got = replay()
        for output, right in zip((got.logits, got.hidden, *got.taps), expected, strict=True):
            _check(output, right, shape)
        _check(slots.index_select(3, written), cached, shape)
        return own, replay

    def _forget_if_moved(self) -> None:
        """A pool or a table of angles that grew lies elsewhere, and recordings know the old place."""
        here = self._where()
        if any(a is not b for a, b in zip(here, self._memory, strict=True)):
            self._recorded.clear()
            self._met.clear()
            self._memory = here

    def _where(self) -> tuple[Tensor, Tensor]:
        return self._pool.rows, self._decoder.rope.table


def trial_inputs(shape: Shape, capacity: int, seed: int) -> Inputs:
    """Inputs that a forward of this shape may meet; all of them differ between two seeds, where they can."""
    rows, requests = torch.arange(shape.rows), torch.arange(shape.requests)[:, None]
    length = max(shape.keys - shape.span - seed, 0)
    tokens = (7 * requests + rows + 3 * seed) % 11
    positions = (length + rows).expand(shape.requests, -1)
    written = requests * capacity + length + rows
    lengths = torch.full((shape.requests, shape.rows), length)
    words = [
        torch.tensor(column).expand(shape.requests, -1)
        for column in packed(causal(shape.rows) if seed else block(shape.rows), shape.words)
    ]
    numbers = torch.stack([part.flatten() for part in (tokens, positions, written, lengths, *words)])
    if not shape.noise:
        return Inputs(numbers, None)
    every = torch.arange(numbers.shape[1], dtype=torch.float64)
    drawn = torch.stack(((0.31 * every + 0.17 * seed) % 1, 0.5 + 0 * every, (every + seed) % 2))
    return Inputs(numbers, drawn)


def _check(got: Tensor, expected: Tensor, shape: Shape) -> None:
    exact = expected.dtype is torch.float32
    error, size = float((got - expected).abs().max()), float(expected.abs().max())
    if not error <= (1e-4 if exact else 1e-2 * size):
        raise EngineError(
            f"the recorded forward of {shape.requests} x {shape.rows} rows is off by {error:.3g}",
            hint="Run with --backend transformers, without cuda_graphs=yes, and report this with what "
            "gravbench doctor prints.",
        )


class CudaRecorder:
    """Records work as CUDA graphs that share one memory pool; each is warmed up on a side stream first."""

    def __init__(self, device: torch.device) -> None:
        with torch.cuda.device(device):
            self._side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            self._memory = torch.cuda.graph_pool_handle()
        self._device = device

    def __call__(self, work: Work) -> Work:
        with torch.cuda.device(self._device):
            self._side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._side):
                for _ in range(3):
                    work()
            torch.cuda.current_stream().wait_stream(self._side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self._memory):
                output = work()

        def replay() -> Outputs:
            graph.replay()
            return output

        return replay
