"""Keys and values of all layers and requests in one preallocated tensor, reused from request to request.

The pool has one slot a request under way. Slots in use are always the first ones: when a request ends,
the last slot moves into its place, so that a batch is a plain slice. A cache is one slot seen by its
request; `length` rows of it are cached, rows after them are scratch of the windows since the last `keep`.
The last row of a slot is never cached: padding is written there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

_GRAIN = 256
"""Rows are allocated in multiples of this."""


class KvPool:
    """`rows` [layers, 2, kv_heads, slots, capacity, head_dim] and `row_numbers` [capacity] that count them.

    Both are replaced together when the pool grows: while `rows` stay where they are, so do the numbers.
    """

    def __init__(
        self, *, layers: int, kv_heads: int, head_dim: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.rows = torch.zeros(layers, 2, kv_heads, 1, 0, head_dim, device=device, dtype=dtype)
        self.row_numbers = torch.arange(0, device=device)
        self.in_use: list[KvCache] = []
        self.capacity = 0
        """Rows a slot has."""
        self._slots: list[tuple[Tensor, Tensor]] = []
        self._expected = 1

    def slot(self, number: int) -> tuple[Tensor, Tensor]:
        """Views of one slot: [layers, 2, kv_heads, capacity, head_dim] and, as attention takes it,
        [2 * layers, 1, kv_heads, capacity, head_dim] with the keys of layer i at 2i, its values at 2i + 1."""
        return self._slots[number]

    def expect(self, slots: int) -> None:
        """Make room for this many requests the next time the pool must grow anyway."""
        self._expected = slots

    def claim(self, rows: int) -> KvCache:
        """A cache with room for `rows` rows, none of them cached yet, in the next free slot."""
        slot, rows = len(self.in_use), rows + 1  # and the row that padding is written to
        if slot >= self.rows.shape[3] or rows > self.capacity:
            self._grow(slots=max(slot + 1, self._expected), rows=rows)
        cache = KvCache(self, slot)
        if self.rows.dtype is torch.float16:  # an overflow left behind would reach masked sums as NaN
            self.rows[:, :, :, slot].zero_()
        self.in_use.append(cache)
        return cache

    def release(self, cache: KvCache) -> None:
        """Give a slot back; the cache in the last slot moves into it. Doing it twice is harmless."""
        if cache not in self.in_use:
            return
        last = self.in_use.pop()
        if last is not cache:
            end = last.length + last.scratch
            kept = self.rows[:, :, :, last.slot, :end]
            self.rows[:, :, :, cache.slot, :end].copy_(kept)
            self.in_use[cache.slot] = last
            last.slot = cache.slot

    def clear(self) -> None:
        """Give all slots back, moving nothing."""
        self.in_use.clear()

    def _grow(self, *, slots: int, rows: int) -> None:
        have_slots, have_rows = self.rows.shape[3:5]
        shape = list(self.rows.shape)
        shape[3] = max(slots, have_slots)
        shape[4] = max(-(-rows // _GRAIN) * _GRAIN, have_rows)
        grown = self.rows.new_zeros(shape)
        grown[:, :, :, :have_slots, :have_rows].copy_(self.rows)
        self.rows, self.capacity = grown, shape[4]
        self.row_numbers = torch.arange(shape[4], device=grown.device)
        self._slots = [(own, own.flatten(0, 1).unsqueeze(1)) for own in grown.unbind(3)]


class KvCache:
    """One request's slot of a pool."""

    def __init__(self, pool: KvPool, slot: int) -> None:
        self._pool = pool
        self.slot = slot
        self.length = 0
        self.scratch = 0

    @property
    def capacity(self) -> int:
        """Rows of the slot, the one for padding included."""
        return self._pool.capacity

    def reach(self, rows: int, *, last_position: int = 0) -> None:
        """Use scratch rows up to `rows` and positions up to `last_position` after the cached ones.

        ValueError when they were not reserved.
        """
        end = self.length + (rows if rows > last_position else last_position + 1)
        if end >= self._pool.capacity:
            raise ValueError(f"{end} cache rows needed, {self.capacity - 1} reserved")
        if rows > self.scratch:
            self.scratch = rows

    def window(self, rows: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Per layer, `rows` scratch rows [2, kv_heads, rows, head_dim] to write to, and for layer i at 2i and
        2i + 1 the keys and values seen [1, kv_heads, length + rows, head_dim]."""
        own, flat = self._pool.slot(self.slot)
        return own.narrow(3, self.length, rows).unbind(0), flat.narrow(3, 0, self.length + rows).unbind(0)

    def keep(self, rows: int | Sequence[int]) -> None:
        """Cache the first `rows` scratch rows, or those of ascending slots, closed up."""
        if isinstance(rows, int) and 0 <= rows <= self.scratch:
            self.length += rows
            self.scratch = 0
            return
        slots = () if isinstance(rows, int) else rows
        count = len(slots)
        ascends = all(a < b for a, b in pairwise(slots))
        if isinstance(rows, int) or (count and not (ascends and slots[0] >= 0 and slots[-1] < self.scratch)):
            raise ValueError(f"cannot keep {rows} of {self.scratch} rows, ascending from 0")
        if count and slots[-1] >= count:
            scratch = self._pool.rows[:, :, :, self.slot, self.length :]
            moved = torch.tensor(list(slots), device=scratch.device)
            scratch[:, :, :, :count].copy_(scratch.index_select(3, moved))
        self.length += count
        self.scratch = 0

    def snapshot(self) -> Tensor:
        """Copy of the cached rows [layers, 2, kv_heads, length, head_dim]."""
        return self._pool.rows[:, :, :, self.slot, : self.length].clone()
