"""Where a window's keys and values go and what its rows attend to: one request, or a batch of them.

Both answer the same two questions for layer i: write these keys and values; mix these queries. Visibility
is data: a row of a batch sees cache rows up to its own request's length and as far into the window as its
mask reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from gravbench.backends.glm.cache import KvPool


class Place(Protocol):
    """Attention of one forward."""

    def write(self, layer: int, key_value: Tensor) -> None:
        """Store keys and values [2, kv_heads, rows, head_dim] of all rows of the forward."""
        ...

    def mix(self, layer: int, query: Tensor) -> Tensor:
        """Attended values [rows, heads * head_dim] for queries [rows, heads, head_dim]."""
        ...


class OneRequest:
    """Rows of one request behind its own cache, whose `window` gives `written` and `seen`.

    Without a bias they are causal and nothing is cached yet. `slots` [Q] says where each row is written;
    without it they lie one after another.
    """

    def __init__(
        self,
        written: Sequence[Tensor],
        seen: Sequence[Tensor],
        *,
        bias: Tensor | None,
        grouped: bool,
        slots: Tensor | None = None,
    ) -> None:
        self._written, self._seen, self._bias, self._grouped = written, seen, bias, grouped
        self._slots = slots

    def write(self, layer: int, key_value: Tensor) -> None:
        if self._slots is None:
            self._written[layer].copy_(key_value)
        else:
            self._written[layer].index_copy_(2, self._slots, key_value)

    def mix(self, layer: int, query: Tensor) -> Tensor:
        mixed = attend(
            query.transpose(0, 1).unsqueeze(0),  # [1, H, Q, hd]
            self._seen[2 * layer],
            self._seen[2 * layer + 1],
            attn_mask=self._bias,
            is_causal=self._bias is None,
            enable_gqa=self._grouped,
        )
        return mixed.transpose(1, 2).reshape(query.shape[0], -1)


class Batch:
    """Q rows for each of the first N requests of a pool, behind `keys` rows of every slot.

    `written` [N * Q] are rows of the flattened slots; `bias` [N, 1, Q, keys] is 0 where a row sees, else
    the lowest finite number.
    """

    def __init__(self, pool: KvPool, *, written: Tensor, bias: Tensor, grouped: bool) -> None:
        self._requests, _, self._rows, keys = bias.shape
        self._layers = pool.rows.flatten(3, 4).unbind(0)  # [2, kv_heads, slots * capacity, head_dim] each
        seen = pool.rows[:, :, :, : self._requests, :keys]
        self._seen = seen.flatten(0, 1).transpose(1, 2).unbind(0)  # [N, kv_heads, keys, head_dim] each
        self._written, self._bias, self._grouped = written, bias, grouped

    def write(self, layer: int, key_value: Tensor) -> None:
        self._layers[layer].index_copy_(2, self._written, key_value)

    def mix(self, layer: int, query: Tensor) -> Tensor:
        mixed = attend(
            query.view(self._requests, self._rows, *query.shape[1:]).transpose(1, 2),  # [N, H, Q, hd]
            self._seen[2 * layer],
            self._seen[2 * layer + 1],
            attn_mask=self._bias,
            enable_gqa=self._grouped,
        )
        return mixed.transpose(1, 2).reshape(query.shape[0], -1)
