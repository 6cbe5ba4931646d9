"""One forward for the windows of several requests: what differs between two such forwards is one table.

A shape is N requests, Q rows each (narrower windows are padded) and K keys. Everything else about a
forward stands in `numbers` [4, N * Q]: for each row its token, its position, the place in the flattened
slots where its keys and values go, and the first key it does not see. One copy brings it to the device,
and a recorded forward is replayed by filling it in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gravbench.backends.glm.cache import KvCache, KvPool
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.decoding.masks import Mask
from gravbench.decoding.protocols import Window


@dataclass(frozen=True, slots=True)
class Shape:
    """Requests, rows of each, keys they may see."""

    requests: int
    rows: int
    keys: int


def numbers_of(
    caches: Sequence[KvCache], offsets: Sequence[int], windows: Sequence[Window], shape: Shape
) -> Tensor:
    """The table [4, N * Q] of windows behind caches that fill the first slots of their pool in order.

    `offsets` turn a cache row into its position. A window that does not fit its slot is a ValueError.
    """
    table: list[list[int]] = [[], [], [], []]
    tokens, positions, written, hidden = table
    each = range(shape.rows)
    for cache, offset, window in zip(caches, offsets, windows, strict=True):
        length, capacity, own = cache.length, cache.capacity, len(window.tokens)
        if length + shape.rows > capacity:
            raise ValueError(f"{length + shape.rows} cache rows needed, {capacity} reserved")
        tokens += [*window.tokens, *(0,) * (shape.rows - own)]
        positions += [length + offset + row for row in each]
        written += [cache.slot * capacity + length + row for row in each]
        hidden += [length + reach for reach in reaching(window.mask, own, shape.rows)]
    return torch.tensor(table, dtype=torch.long)


def reaching(mask: Mask, own: int, rows: int) -> list[int]:
    """How many rows of the window each row sees, for a window of `own` rows padded to `rows`.

    Padding is causal, so that every row sees itself.
    """
    causal = own if mask.causal_rows is None else min(mask.causal_rows, own)
    return [own if causal <= row < own else row + 1 for row in range(rows)]


def forward_rows(decoder: GlmDecoder, pool: KvPool, numbers: Tensor, shape: Shape) -> Tensor:
    """Logits [N * Q, V], all rows of all requests; `numbers` lies on the decoder's device."""
    tokens, positions, written, first_hidden = numbers.unbind(0)
    hidden = pool.row_numbers[: shape.keys] >= first_hidden.view(shape.requests, shape.rows, 1)
    bias = torch.zeros(hidden.shape, dtype=decoder.dtype, device=decoder.device)
    bias.masked_fill_(hidden, torch.finfo(decoder.dtype).min)
    rows = decoder.forward_batch(
        decoder.embed(tokens),
        decoder.rope.at(positions),
        pool,
        written=written,
        bias=bias.unsqueeze(1),  # [N, 1, Q, K]
    )
    return decoder.logits(rows)
