"""Keys and values of all layers in one preallocated tensor, reused from request to request."""

from __future__ import annotations

import torch
from torch import Tensor

_GRAIN = 256
"""Rows are allocated in multiples of this."""


class KvCache:
    """`length` rows are cached; rows behind them are scratch of the last window."""

    def __init__(
        self, *, layers: int, kv_heads: int, head_dim: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._layers = layers
        self.length = 0
        self._rows = torch.zeros(layers, 2, kv_heads, 0, head_dim, device=device, dtype=dtype)

    @property
    def capacity(self) -> int:
        """Rows that fit before `reserve` must allocate again."""
        return self._rows.shape[3]

    def reserve(self, rows: int) -> None:
        """Start a request: forget every row and make room for `rows`."""
        self.length = 0
        if rows > self.capacity:
            shape = list(self._rows.shape)
            shape[3] = -(-rows // _GRAIN) * _GRAIN
            self._rows = self._rows.new_zeros(shape)

    def window(self, rows: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Per layer, where a window of `rows` rows is written [2, kv_heads, rows, head_dim], and for layer
        i at 2i and 2i + 1 the keys and values it sees [1, kv_heads, length + rows, head_dim]."""
        end = self.length + rows
        if end > self.capacity:
            raise ValueError(f"{end} cache rows needed, {self.capacity} reserved")
        written = self._rows[:, :, :, self.length : end].unbind(0)
        seen = self._rows[:, :, :, :end].flatten(0, 1).unsqueeze(1).unbind(0)
        return written, seen

    def snapshot(self) -> Tensor:
        """Copy of the cached rows [layers, 2, kv_heads, length, head_dim]."""
        return self._rows[:, :, :, : self.length].clone()
