"""A weight matrix laid out for the machine: one row by a column-major product, more rows by a packed one.

In float32 on CPUs one row is a matrix times a vector, which is called with less ado than a product of two
matrices.

On CPUs in float32 the packed layout of oneDNN is up to twice as fast for 2 to 64 rows, slower for one
row and no better for small matrices; elsewhere, and where the operator is not built in, the plain
product serves every row count.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
