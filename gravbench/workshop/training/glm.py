"""Forward passes over the parameters of a stock GLM-OCR model, shaped for training.

The stock class loops over images and pads text; here the rows of all samples are packed, who sees whom is an
argument, and one chosen attention head is exposed for the pointer loss. Same parameters, same numbers (tests
hold both paths to the stock class).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gravbench.workshop.training.kernels import Span, attend, rms_norm, rotate


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
