"""Rotary angles of the text decoder: M-RoPE for the prefix, one plain table for the response.

Channel 2i pairs with channel 2i+1, so a rotation is a product with a complex number. Response tokens
have the same position on all three axes, whence their angles do not depend on the sections.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
