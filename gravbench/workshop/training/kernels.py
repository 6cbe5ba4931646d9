"""What a training step does beside matrix products, with gradients written out so that memory is read seldom.

Rows of all samples lie one after another (packed, no padding). Everything here is held to a plain
spelling by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Span:
    """Query rows `q0:q1` attend to key rows `k0:k1`; `bias` [q1-q0, k1-k0] is added, None adds nothing."""

    q0: int
    q1: int
    k0: int
    k1: int
    bias: Tensor | None = None

    def to(self, device: torch.device) -> Span:
        """The same span with its bias on `device`."""
        bias = None if self.bias is None else self.bias.to(device)
        return Span(self.q0, self.q1, self.k0, self.k1, bias)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        scaled: Tensor = (x * scale).mul_(weight)
        return scaled

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, scale = ctx.saved_tensors
        g, width = grads[0], x.shape[-1]
        both = (g * x).view(-1, width)
        d_weight = scale.view(1, -1) @ both
        shift = (both @ weight).view(scale.shape) * scale.pow(3) / width
        dx = (g * weight).mul_(scale).addcmul_(x, shift, value=-1)
        return dx, d_weight.view(-1), None


def rms_norm(x: Tensor, norm: Any) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last axis, in float32; result in the weight's dtype."""
    weight: Tensor = norm.weight
    eps: float = norm.variance_epsilon
    out: Tensor = _RmsNorm.apply(x.float().contiguous(), weight.float(), eps)  # type: ignore[no-untyped-call]
    return out.to(weight.dtype)


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary embedding as a complex product: channels (2i, 2i+1) of x [R, H, hd] by `turn` [R, hd/2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn[:, None]).flatten(-2).to(x.dtype)


class _Attention(torch.autograd.Function):
    """Span by span: scores of one sample stay in cache, padding and hidden halves are never computed."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, spans: Sequence[Span]) -> Tensor:
        out = torch.empty_like(q)
        weights = []
        for s in spans:
            qs, ks, vs = (t.transpose(0, 1) for t in (q[s.q0 : s.q1], k[s.k0 : s.k1], v[s.k0 : s.k1]))
            scores = torch.bmm(qs, ks.mT)
            if s.bias is not None:
                scores += s.bias
            share = torch.softmax(scores, -1)
            out[s.q0 : s.q1] = torch.bmm(share, vs).transpose(0, 1)
            weights.append(share)
        ctx.spans = spans
        ctx.save_for_backward(q, k, v, *weights)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, *weights = ctx.saved_tensors
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for s, share in zip(ctx.spans, weights, strict=True):
            rows, keys = slice(s.q0, s.q1), slice(s.k0, s.k1)
            qs, ks, vs, g = (t.transpose(0, 1) for t in (q[rows], k[keys], v[keys], grads[0][rows]))
            dv[keys] += torch.bmm(share.mT, g).transpose(0, 1)
            d_share = torch.bmm(g, vs.mT)
            d_scores = torch._softmax_backward_data(d_share, share, -1, share.dtype)
            dq[rows] = torch.bmm(d_scores, ks).transpose(0, 1)
            dk[keys] += torch.bmm(d_scores.mT, qs).transpose(0, 1)
        return dq, dk, dv, None


def attend(q: Tensor, k: Tensor, v: Tensor, spans: Sequence[Span]) -> Tensor:
    """softmax(q k^T / sqrt(hd) + bias) v over spans; q [R, H, hd], k and v [R, KV, hd] -> [R, H * hd].

    Every query row belongs to exactly one span. Off the CPU one dense mask over all rows is cheaper than many
    small products. Key/value heads are repeated to the query heads (grouped-query attention).
    """
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    if q.device.type != "cpu":
        return attend_densely(q, k, v, spans)
    mixed: Tensor = _Attention.apply(q * q.shape[-1] ** -0.5, k, v, spans)  # type: ignore[no-untyped-call]
    return mixed.flatten(1)


def attend_densely(q: Tensor, k: Tensor, v: Tensor, spans: Sequence[Span]) -> Tensor:
    """`attend` as one fused attention over all rows, for equal numbers of heads."""
    bias = q.new_full((len(q), len(k)), float("-inf"))
    for s in spans:
        bias[s.q0 : s.q1, s.k0 : s.k1] = 0.0 if s.bias is None else s.bias.to(q.dtype)
    queries, keys, values = (t.transpose(0, 1)[None] for t in (q, k, v))
    return F.scaled_dot_product_attention(queries, keys, values, bias)[0].transpose(0, 1).flatten(1)
