"""One forward for the windows of several requests: what differs between two such forwards is one table.

A shape is N requests, Q rows each (narrower windows are padded), K keys and a mask that spans S scratch
slots. Everything else about a forward stands in `numbers` [4 + W, N * Q]: for each row its token, its
position, the place in the flattened slots where its keys and values go, how many rows of its slot it sees
from the first on, and further ones behind the cached rows as W words of 64 bits. Where every row sees a
beginning of its window, as in autoregression and chains of drafts, there are no such words and S is 0.
Noise rows add `noise` [3, N * Q]. One copy brings a table to the device, and a recorded forward is replayed
by filling it in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gravbench.backends.glm.cache import KvCache, KvPool
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.decoding.masks import WORD, packed
from gravbench.decoding.window import Window

Embedder = Callable[[Tensor], Tensor]
"""Noise [n, 2], float64: u and temperature of each row -> embeddings [n, width]."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests, rows of each, keys they may see, scratch slots that words of a mask span; tapped layers."""

    requests: int
    rows: int
    keys: int
    span: int
    taps: tuple[int, ...] = ()
    noise: bool = False

    @property
    def words(self) -> int:
        """Words of 64 bits that hold a row of the mask."""
        return -(-self.span // WORD)


class Outputs(NamedTuple):
    """Logits [R, V], states after the final norm [R, width], the stream after tapped layers [R, width]."""

    logits: Tensor
    hidden: Tensor
    taps: tuple[Tensor, ...]


class Inputs(NamedTuple):
    """The tables of one forward; `noise` where the shape has some."""

    numbers: Tensor
    noise: Tensor | None

    def to(self, device: torch.device) -> Inputs:
        """On a device, from pinned memory where there is one to copy to."""
        if device.type == "cpu":
            return self
        moved = (
            None if table is None else table.pin_memory().to(device, non_blocking=True) for table in self
        )
        return Inputs(*moved)  # type: ignore[arg-type]

    def copy_(self, other: Inputs) -> None:
        """Take over the values of `other`."""
        self.numbers.copy_(other.numbers)
        if self.noise is not None and other.noise is not None:
            self.noise.copy_(other.noise)


def inputs_of(
    caches: Sequence[KvCache], offsets: Sequence[int], windows: Sequence[Window], shape: Shape
) -> Inputs:
    """The tables of windows behind caches that fill the first slots of their pool in order.

    `offsets` turn a cache row into its position. Padding rows see no row of the window, and are written to
    the last row of their slot, which holds nothing. A window that does not fit its slot is a ValueError.
    """
    table: list[list[int]] = [[] for _ in range(4 + shape.words)]
    tokens, positions, written, seen, *bits = table
    capacity = caches[0].capacity
    for cache, offset, window in zip(caches, offsets, windows, strict=True):
        length, own, at, slots = cache.length, len(window.tokens), window.positions, window.slots
        first, pad = cache.slot * capacity, shape.rows - own
        cache.reach(window.span, last_position=own - 1 if at is None else max(at))
        tokens += window.tokens
        start = length + offset
        positions += range(start, start + own) if at is None else [start + row for row in at]
        start = first + length
        written += range(start, start + own) if slots is None else [start + slot for slot in slots]
        if not bits:
            seen += [length + reach for reach in window.mask.reach or ()]
        else:
            seen += [length] * own
            for word, column in zip(bits, packed(window.mask, shape.words), strict=True):
                word += column
        if pad:
            tokens += [0] * pad
            positions += [length + offset] * pad
            written += [first + capacity - 1] * pad
            seen += [length] * pad
            for word in bits:
                word += [0] * pad
    return Inputs(
        torch.tensor(table, dtype=torch.long), noise_of(windows, shape.rows) if shape.noise else None
    )


def noise_of(windows: Sequence[Window], rows: int) -> Tensor:
    """u, temperature and 1 for a noise row, 0 0 0 for another: [3, N * rows] in float64."""
    table: list[tuple[float, float, float]] = []
    for window in windows:
        drawn = window.noise or [None] * len(window.tokens)
        table += [(0.0, 0.0, 0.0) if n is None else (n.u, n.temperature, 1.0) for n in drawn]
        table += [(0.0, 0.0, 0.0)] * (rows - len(window.tokens))
    return torch.tensor(table, dtype=torch.float64).t().contiguous()


def embedded_rows(
    decoder: GlmDecoder, tokens: Tensor, noise: Tensor | None, embedder: Embedder | None
) -> Tensor:
    """Embeddings [R, width] of token rows, and of noise rows where `noise` [3, R] has them."""
    embedded = decoder.embed(tokens)
    if noise is None:
        return embedded
    if embedder is None:
        raise ValueError("noise rows for a checkpoint without a noise embedder")
    return torch.where(noise[2, :, None] > 0, embedder(noise[:2].t()).to(embedded.dtype), embedded)


def forward_rows(
    decoder: GlmDecoder,
    pool: KvPool,
    inputs: Inputs,
    shape: Shape,
    *,
    embedder: Embedder | None = None,
    wanted: Tensor | None = None,
) -> Outputs:
    """All rows of all requests; with `wanted` [M], logits of those rows alone. `inputs` lie on the device."""
    tokens, positions, written, seen, *words = inputs.numbers.unbind(0)
    taps: list[Tensor] = []
    hidden = decoder.forward_batch(
        embedded_rows(decoder, tokens, inputs.noise, embedder),
        decoder.rope.at(positions),
        pool,
        written=written,
        bias=bias_of(decoder, pool, seen, words, shape),
        tap=(shape.taps, taps),
    )
    read = hidden if wanted is None else hidden.index_select(0, wanted)
    return Outputs(decoder.logits(read), hidden, tuple(taps))


def bias_of(decoder: GlmDecoder, pool: KvPool, seen: Tensor, words: Sequence[Tensor], shape: Shape) -> Tensor:
    """Additive mask [N, 1, Q, K]: 0 where a row sees a key, else the lowest finite number.

    Everything from the first key not seen is hidden, then the slots from there on get what the bits say.
    """
    lowest = torch.finfo(decoder.dtype).min
    first = seen.view(shape.requests, shape.rows, 1)
    bias = torch.zeros(shape.requests, shape.rows, shape.keys, dtype=decoder.dtype, device=decoder.device)
    bias.masked_fill_(pool.row_numbers[: shape.keys] >= first, lowest)
    if not words:
        return bias.unsqueeze(1)
    slots = pool.row_numbers[: shape.span]
    bits = torch.cat(
        [word[:, None] >> slots[: min(WORD, shape.span - at * WORD)] for at, word in enumerate(words)], dim=1
    )
    hidden = ((bits & 1) - 1).to(decoder.dtype) * -lowest  # 0 where seen, else the lowest
    bias.scatter_(2, first + slots, hidden.view(shape.requests, shape.rows, shape.span))
    return bias.unsqueeze(1)
