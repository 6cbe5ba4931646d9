"""Sampling from a row of logits with keyed randomness: a draw depends on its key and on nothing else.

The key of an output token is made of seed, request and output index, never of strategy, round or row. So
every lossless strategy emits, at any temperature, exactly the tokens that keyed autoregression emits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

_ROUND = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
"""Multipliers of the mixing function of SplitMix64, as signed 64-bit integers."""
_STEP = -0x61C8864680B583EB


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """p = softmax(logits / temperature), cut to the `top_k` likeliest tokens, then to the smallest set whose
    mass reaches `top_p`, and normalised again. One law for autoregression and for every verifier."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature > 0 or not 0 < self.top_p <= 1 or (self.top_k is not None and self.top_k < 1):
            raise ValueError(f"not a sampling law: {self}")


PLAIN = Law()


@dataclass(frozen=True, slots=True)
class Draw:
    """Draws of one arm: what they are drawn from, and the seed of their keys."""

    law: Law
    seed: int = 0


def log_probabilities(logits: Tensor, law: Law = PLAIN) -> Tensor:
    """log p [Q, V] in float64 of logits [Q, V]; minus infinity for a token that the law cuts."""
    logp = torch.log_softmax(logits.double() / law.temperature, dim=-1)
    if law.top_k is not None and law.top_k < logp.shape[-1]:
        worst = logp.topk(law.top_k, dim=-1).values[..., -1:]
        logp = torch.log_softmax(logp.masked_fill(logp < worst, -torch.inf), dim=-1)
    if law.top_p < 1:
        ordered, ids = logp.sort(dim=-1, descending=True, stable=True)
        before = ordered.exp().cumsum(dim=-1) - ordered.exp()  # mass of the likelier ones
        cut = torch.zeros_like(logp, dtype=torch.bool).scatter(-1, ids, before >= law.top_p)
        logp = torch.log_softmax(logp.masked_fill(cut, -torch.inf), dim=-1)
    return logp


def key_of(seed: int, request_id: str, index: int) -> int:
    """The key of output token `index` (0: prefill's own) of a request: a signed 64-bit integer."""
    text = f"{seed}\0{request_id}\0{index}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big", signed=True)


def uniforms(keys: Tensor, count: int) -> Tensor:
    """Numbers in (0, 1) [n, count] in float64 for keys [n], int64: the same on every device."""
    counter = torch.arange(1, count + 1, device=keys.device) * _STEP
    bits = keys[:, None] + counter  # wraps around, as it should
    bits = (bits ^ _right(bits, 30)) * _ROUND[0]
    bits = (bits ^ _right(bits, 27)) * _ROUND[1]
    bits = bits ^ _right(bits, 31)
    return (_right(bits, 11).double() + 0.5) / 2**53


def gumbel_draw(logp: Tensor, keys: Tensor) -> Tensor:
    """Tokens [n] drawn from log p [n, V] with Gumbel noise of keys [n]."""
    noise = -torch.log(-torch.log(uniforms(keys, logp.shape[-1])))
    return (logp + noise).argmax(-1)


def _right(bits: Tensor, by: int) -> Tensor:
    """Logical shift to the right of signed 64-bit integers."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
