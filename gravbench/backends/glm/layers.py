"""What a decoder layer is computed with: products, rotation, attention.

A weight matrix is laid out for the machine: one row by a column-major product, more rows by a packed one.
In float32 on CPUs one row is a matrix times a vector, which is called with less ado than a product of two
matrices. There the packed layout of oneDNN is up to twice as fast for 2 to 64 rows, slower for one row and no
better for small matrices; elsewhere, and where the operator is not built in, the plain product serves every
row count.

Rotary angles are M-RoPE for the prefix, one plain table for the response. Channel 2i pairs with channel
2i+1, so a rotation is a product with a complex number. Response tokens have the same position on all three
axes, whence their angles do not depend on the sections.

Attention says where a window's keys and values go and what its rows attend to: one request, or a batch of
them. Both answer the same two questions for layer i: write these keys and values; mix these queries.
Visibility is data: a row of a batch sees cache rows up to its own request's length and as far into the window
as its mask reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend

from gravbench.backends.glm.cache import KvPool

_PACK_ELEMENTS = 1 << 16
"""Matrices of up to this many elements are not packed."""

_PACK_ROWS = 16
"""Row count the packed layout is chosen for."""


class Linear:
    """y = x W^T without bias, for x [Q, K] and W [N, K]."""

    def __init__(self, weight: Tensor) -> None:
        self._transposed = weight.detach().t().contiguous()  # [K, N]
        self._columns = self._transposed.t()  # [N, K]
        self._by_vector = weight.device.type == "cpu" and weight.dtype is torch.float32
        self._packed = _pack(weight.detach())
        if self._packed is not None:
            self._product = torch.ops.mkldnn._linear_pointwise.default

    def one(self, x: Tensor, out: Tensor) -> Tensor:
        """For a single row: x [K] into `out` [N]."""
        if self._by_vector:
            return torch.mv(self._columns, x, out=out)
        torch.mm(x.unsqueeze(0), self._transposed, out=out.unsqueeze(0))
        return out

    def many(self, x: Tensor) -> Tensor:
        """For any number of rows: x [Q, K] -> [Q, N], newly allocated."""
        if self._packed is None:
            return torch.mm(x, self._transposed)
        packed: Tensor = self._product(x, self._packed, None, "none", [], "")
        return packed


def _pack(weight: Tensor) -> Tensor | None:
    """The packed weight, or `None` where packing does not apply."""
    applies = (
        weight.device.type == "cpu"
        and weight.dtype is torch.float32
        and weight.numel() > _PACK_ELEMENTS
        and torch._C._has_mkldnn
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
    if not applies:
        return None
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _PACK_ROWS)
    return packed


class Rope:
    """Angles as complex numbers [positions, 1, rotary_dim / 2]; the 1 broadcasts over heads.

    `table` holds those of response positions from 0 on, as far as `reserve` was asked for.
    """

    def __init__(self, rotary: Any, *, device: torch.device) -> None:
        self._frequencies: Tensor = rotary.inv_freq.to(device=device, dtype=torch.float32)
        self._scaling = float(rotary.attention_scaling)
        self._sections = [int(size) for size in rotary.mrope_section]
        self.table = self._turn(torch.zeros(0, len(self._frequencies), device=device))

    @property
    def rotary_dim(self) -> int:
        """Channels of a head that turn; the others pass."""
        return 2 * len(self._frequencies)

    def prefix(self, positions: Tensor) -> Tensor:
        """For M-RoPE positions [3, P]: section i of the frequencies takes its angle from axis i mod 3."""
        angles = positions[..., None].float() * self._frequencies  # [3, P, rotary_dim / 2]
        parts = torch.split(angles, self._sections, dim=-1)
        return self._turn(torch.cat([part[i % 3] for i, part in enumerate(parts)], dim=-1))

    def response(self, first: int, rows: int) -> Tensor:
        """For positions first .. first + rows - 1, a view of the table."""
        return self.table[first : first + rows]

    def at(self, positions: Tensor) -> Tensor:
        """For response positions [N], gathered from the table."""
        return self.table.index_select(0, positions)

    def reserve(self, positions: int) -> None:
        """Make the table cover positions 0 .. positions - 1."""
        if positions > len(self.table):
            size = -(-positions // 1024) * 1024
            every = torch.arange(size, device=self._frequencies.device)
            self.table = self._turn(every[:, None].float() * self._frequencies)

    def _turn(self, angles: Tensor) -> Tensor:
        return torch.polar(torch.full_like(angles, self._scaling), angles)[:, None]


def turning(channels: Tensor) -> Tensor:
    """Channels [Q, heads, rotary_dim / 2, 2] as `rotate` takes them: float32 as complex numbers."""
    return torch.view_as_complex(channels) if channels.dtype is torch.float32 else channels


def rotate(channels: Tensor, turn: Tensor) -> None:
    """Rotate in place: what `turning` gave, turn [Q, 1, rotary_dim / 2] complex."""
    if channels.is_complex():
        channels.mul_(turn)
        return
    cos, sin = turn.real.to(channels.dtype), turn.imag.to(channels.dtype)
    even, odd = channels.unbind(-1)
    channels.copy_(torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1))


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
