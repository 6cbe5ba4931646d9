"""Forwards of fixed shape that are recorded once and replayed: CUDA graphs for decoding.

A decode forward of a small model is bound by launching its kernels. A forward over N requests, Q rows each
and K keys always launches the same ones, with positions, cache places and visibility as data, so it can be
recorded. K is rounded up to a few lengths; keys beyond a request's own are hidden by the bias.

A shape runs unrecorded when it is first met and is recorded by `settle`, which the backend calls between
requests: no recording falls into anybody's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gravbench.backends.glm.cache import KvPool
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.errors import EngineError

SHORTEST_KEYS = 512

Work = Callable[[], Tensor]
Record = Callable[[Work], Work]
"""Turns work into something that repeats it on the same memory and returns the same output tensor."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests, rows of each, keys they may see."""

    requests: int
    rows: int
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """tokens, positions, written [N * Q] and bias [N, 1, Q, K]: all that differs between two forwards."""

    tokens: Tensor
    positions: Tensor
    written: Tensor
    bias: Tensor

    def fill(self, other: Inputs) -> None:
        """Take over the values of `other`."""
        self.tokens.copy_(other.tokens)
        self.positions.copy_(other.positions)
        self.written.copy_(other.written)
        self.bias.copy_(other.bias)

    def clone(self) -> Inputs:
        """A copy on memory of its own."""
        return Inputs(
            tokens=self.tokens.clone(),
            positions=self.positions.clone(),
            written=self.written.clone(),
            bias=self.bias.clone(),
        )


def rounded_keys(needed: int, *, capacity: int) -> int:
    """The key count a forward is run with: 512, 1024, 2048, ..., never more than a slot has."""
    keys = SHORTEST_KEYS
    while keys < needed:
        keys *= 2
    return max(needed, min(keys, capacity))


def forward(decoder: GlmDecoder, pool: KvPool, inputs: Inputs) -> Tensor:
    """Logits [N * Q, V] of one batch."""
    hidden = decoder.forward_batch(
        decoder.embed(inputs.tokens),
        decoder.rope.at(inputs.positions),
        pool,
        written=inputs.written,
        bias=inputs.bias,
    )
    return decoder.logits(hidden)


class GraphedForwards:
    """Recorded forwards of one decoder over one pool."""

    def __init__(self, decoder: GlmDecoder, pool: KvPool, *, record: Record) -> None:
        self._decoder, self._pool, self._record = decoder, pool, record
        self._recorded: dict[Shape, tuple[Inputs, Work]] = {}
        self._met: dict[Shape, Inputs] = {}
        self._memory = self._where()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """What is recorded, in the order it was."""
        return tuple(self._recorded)

    def __call__(self, shape: Shape, inputs: Inputs) -> Tensor:
        """Logits [N * Q, V], valid until the next forward of this shape."""
        self._forget_if_moved()
        if (found := self._recorded.get(shape)) is None:
            self._met[shape] = inputs
            return forward(self._decoder, self._pool, inputs)
        own, replay = found
        own.fill(inputs)
        return replay()

    def settle(self) -> None:
        """Record the shapes met since the last call. Call it when no request is under way.

        `EngineError` when a replay does not give the numbers of the plain forward.
        """
        self._forget_if_moved()
        for shape, inputs in self._met.items():
            own = inputs.clone()
            expected = forward(self._decoder, self._pool, own).clone()
            replay = self._record(lambda own=own: forward(self._decoder, self._pool, own))  # type: ignore[misc]
            _check(replay(), expected, shape)
            self._recorded[shape] = (own, replay)
        self._met.clear()

    def _forget_if_moved(self) -> None:
        """A pool or a table of angles that grew lies elsewhere, and recordings know the old place."""
        here = self._where()
        if any(a is not b for a, b in zip(here, self._memory, strict=True)):
            self._recorded.clear()
            self._met.clear()
            self._memory = here

    def _where(self) -> tuple[Tensor, Tensor]:
        return self._pool.rows, self._decoder.rope.table


def _check(got: Tensor, expected: Tensor, shape: Shape) -> None:
    tolerance = 1e-4 if expected.dtype is torch.float32 else 1e-2 * float(expected.abs().max())
    error = float((got - expected).abs().max())
    if not error <= tolerance:
        raise EngineError(
            f"the recorded forward of {shape.requests} x {shape.rows} rows is off by {error:.3g}",
            hint="Run without --cuda-graphs, and report this with the output of gravbench doctor.",
        )


def cuda_record(work: Work) -> Work:
    """Record `work` as a CUDA graph, after a few runs on a side stream to let libraries set themselves up."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = work()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay
