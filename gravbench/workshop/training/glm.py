"""Forward passes over the parameters of a stock GLM-OCR model, shaped for training.

The stock class loops over images and pads text; here the rows of all samples lie one after another, who sees
whom is an argument, and one attention head is exposed for the pointer loss. Gradients of norms and attention
are written out so that memory is read seldom. Same parameters, same numbers: tests hold both paths to the
stock class and to a plain spelling.
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


def _pairs_from_halves(width: int) -> Tensor:
    """Channel order that turns a rotation of halves (i, i + width/2) into one of pairs (2i, 2i + 1)."""
    return torch.arange(width).view(2, -1).T.reshape(-1)


def vision_turns(visual: Any, positions: Tensor) -> Tensor:
    """e^(i angle) [N, head_dim / 2] for patch positions [N, 2] = (row, column): rows first, then columns."""
    angles = (positions[..., None].float() * visual.rotary_pos_emb.inv_freq.float()).flatten(-2)
    return torch.polar(torch.ones_like(angles), angles)


def vision_forward(
    visual: Any, patches: Tensor, positions: Tensor, images: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Encode packed images.

    patches [N, C*T*p*p] or, for grey images, [N, p*p] (the kernel is then summed over channel and time: equal
    by linearity); positions [N, 2]; `images`: patches of each image, in merge-block order, each a multiple of
    merge**2. Returns patch features [N, width] and tokens [N/4, d].
    """
    weight = visual.patch_embed.proj.weight
    dtype = weight.dtype
    width, heads = visual.config.hidden_size, visual.config.num_heads
    if patches.shape[-1] == visual.patch_size**2:
        kernel = weight.float().sum(dim=(1, 2)).reshape(width, -1).to(dtype)
    else:
        kernel = weight.reshape(width, -1)
    x = F.linear(patches.to(dtype), kernel, visual.patch_embed.proj.bias).float()
    turns = vision_turns(visual, positions)
    ends = torch.tensor(images).cumsum(0).tolist()
    spans = [Span(e - n, e, e - n, e) for n, e in zip(images, ends, strict=True)]
    order = _pairs_from_halves(width // heads).to(x.device)
    rows = (torch.arange(heads, device=x.device)[:, None] * (width // heads) + order).view(-1)
    rows = torch.cat((rows, rows + width, torch.arange(2 * width, 3 * width, device=x.device)))
    for block in visual.blocks:
        attn = block.attn
        qkv = F.linear(rms_norm(x, block.norm1), attn.qkv.weight[rows], attn.qkv.bias[rows])
        q, k, v = qkv.view(len(x), 3, heads, -1).unbind(1)
        q = rotate(_permuted_norm(q, attn.q_norm, order), turns)
        k = rotate(_permuted_norm(k, attn.k_norm, order), turns)
        x = x + attn.proj(attend(q, k, v, spans))
        x = x + block.mlp(rms_norm(x, block.norm2))
    features = rms_norm(x, visual.post_layernorm)
    down = visual.downsample
    kernel = down.weight.permute(0, 2, 3, 1).reshape(down.out_channels, -1)  # [d, m*m*C]
    tokens = F.linear(features.reshape(-1, kernel.shape[1]), kernel, down.bias)
    return features, visual.merger(tokens)


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Tensor
    variance_epsilon: float


def _permuted_norm(x: Tensor, norm: Any, order: Tensor) -> Tensor:
    return rms_norm(x, _Norm(norm.weight[order], norm.variance_epsilon))


def text_turns(language: Any, positions: Tensor) -> Tensor:
    """e^(i angle) [R, rotary_dim / 2] for M-RoPE positions [3, R]."""
    rotary = language.rotary_emb
    freqs = positions[..., None].float() * rotary.inv_freq.float()  # [3, R, rd/2]
    angles = torch.cat([m[i % 3] for i, m in enumerate(freqs.split(list(rotary.mrope_section), dim=-1))], -1)
    return torch.polar(torch.ones_like(angles), angles)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Query and key of the head that is taught to look at the character being predicted.

    query [R, hd] and key [R, hd], both after the rotary embedding, softmax scale not applied.
    """

    query: Tensor
    key: Tensor


def text_forward(
    language: Any,
    embeds: Tensor,
    positions: Tensor,
    spans: Sequence[Span],
    *,
    pointer_layer: int | None = None,
) -> tuple[Tensor, Pointer | None]:
    """Hidden states [R, d] after the final norm, and the pointer head of `pointer_layer`.

    embeds [R, d], samples one after another; positions [3, R]; `spans`: who attends to whom.
    """
    turns = text_turns(language, positions)
    rotary = 2 * turns.shape[-1]
    x = embeds.float()
    pointer = None
    for index, layer in enumerate(language.layers):
        attn = layer.self_attn
        projections = (attn.q_proj, attn.k_proj, attn.v_proj)
        qkv = _side_by_side(rms_norm(x, layer.input_layernorm), projections)
        q, k, v = (
            t.view(len(x), -1, attn.head_dim)
            for t in torch.split(qkv, [p.out_features for p in projections], dim=-1)
        )
        q, k = (_rotate_first(t, turns, rotary) for t in (q, k))
        if index == pointer_layer:
            pointer = Pointer(q[:, 0], k[:, 0])
        x = x + rms_norm(attn.o_proj(attend(q, k, v, spans)), layer.post_self_attn_layernorm)
        x = x + rms_norm(layer.mlp(rms_norm(x, layer.post_attention_layernorm)), layer.post_mlp_layernorm)
    return rms_norm(x, language.norm), pointer


def _side_by_side(x: Tensor, projections: Sequence[Any]) -> Tensor:
    """Outputs of several linear layers of one input, joined: one large product instead of small ones."""
    weight = torch.cat([p.weight for p in projections])
    bias = None if projections[0].bias is None else torch.cat([p.bias for p in projections])
    return F.linear(x, weight, bias)


def _rotate_first(x: Tensor, turns: Tensor, rotary: int) -> Tensor:
    if rotary == x.shape[-1]:
        return rotate(x, turns)
    return torch.cat((rotate(x[..., :rotary], turns), x[..., rotary:]), dim=-1)
