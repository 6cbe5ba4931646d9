"""Forward passes over the parameters of a stock GLM-OCR model, shaped for training.

The stock class loops over images in the vision attention and over nothing we need in the decoder; here
images are padded into one batch, the mask is an argument, and one chosen attention head is exposed for
the pointer loss. Same parameters, same numbers (tests hold both paths to the stock class).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, norm: Any, dtype: torch.dtype) -> Tensor:
    """`GlmOcrRMSNorm` in float32, result in `dtype`."""
    return F.rms_norm(x.float(), (x.shape[-1],), norm.weight.float(), norm.variance_epsilon).to(dtype)


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Vision rotary embedding: first half of the channels pairs with the second half."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def rotate_pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Decoder rotary embedding: channel 2i pairs with channel 2i+1."""
    turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * cos + turned * sin


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """softmax(q k^T / sqrt(hd) + bias) v for [B, H, T, hd]; bias [B, 1, 1 or T, T] in the compute dtype.

    Spelled out because the fused CPU kernel's backward pass is several times slower at these lengths.
    Key/value heads are repeated to the query heads (grouped-query attention).
    """
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    return torch.softmax(scores + bias, dim=-1) @ v


def attention_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where `mask` is true, the most negative finite value elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(dtype).min
    )


def vision_angles(visual: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos, sin [B, 1, N, head_dim] for patch positions [B, N, 2] = (row, column)."""
    freqs = positions[..., None].float() * visual.rotary_pos_emb.inv_freq.float()  # [B, N, 2, hd/4]
    flat = freqs.flatten(-2)  # [B, N, hd/2]: rows, then columns
    angles = torch.cat((flat, flat), dim=-1)[:, None]
    return angles.cos(), angles.sin()


def vision_forward(visual: Any, patches: Tensor, positions: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Encode a padded batch of images.

    patches [B, N, C*T*p*p] or, for grey images, [B, N, p*p] (the kernel is then summed over channel and
    time: equal by linearity); positions [B, N, 2]; valid [B, N] bool. N is a multiple of merge**2 and
    patches come in merge-block order. Returns patch features [B, N, width] and tokens [B, N/4, d].
    """
    weight = visual.patch_embed.proj.weight
    dtype = weight.dtype
    width, heads = visual.config.hidden_size, visual.config.num_heads
    if patches.shape[-1] == visual.patch_size**2:
        kernel = weight.float().sum(dim=(1, 2)).reshape(width, -1).to(dtype)
    else:
        kernel = weight.reshape(width, -1)
    x = F.linear(patches.to(dtype), kernel, visual.patch_embed.proj.bias).float()
    cos, sin = (t.to(dtype) for t in vision_angles(visual, positions))
    bias = attention_bias(valid[:, None, None, :], dtype)
    batch, n = x.shape[:2]
    for block in visual.blocks:
        attn = block.attn
        qkv = attn.qkv(rms_norm(x, block.norm1, dtype)).view(batch, n, 3, heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # [B, H, N, hd]
        q = rotate_halves(rms_norm(q, attn.q_norm, dtype), cos, sin)
        k = rotate_halves(rms_norm(k, attn.k_norm, dtype), cos, sin)
        mixed = attend(q, k, v, bias)
        x = x + attn.proj(mixed.transpose(1, 2).reshape(batch, n, -1))
        x = x + block.mlp(rms_norm(x, block.norm2, dtype))
    features = rms_norm(x, visual.post_layernorm, dtype)
    merge = visual.spatial_merge_size
    down = visual.downsample
    kernel = down.weight.permute(0, 2, 3, 1).reshape(down.out_channels, -1)  # [d, m*m*C]
    tokens = F.linear(features.reshape(batch, n // merge**2, -1), kernel, down.bias)
    return features, visual.merger(tokens)


def text_angles(language: Any, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos, sin [B, 1, T, rotary_dim] for M-RoPE positions [3, B, T]."""
    rotary = language.rotary_emb
    freqs = positions[..., None].float() * rotary.inv_freq.float()  # [3, B, T, rd/2]
    parts = [m[i % 3] for i, m in enumerate(freqs.split(list(rotary.mrope_section), dim=-1))]
    angles = torch.cat(parts, dim=-1).repeat_interleave(2, dim=-1)[:, None]
    return angles.cos(), angles.sin()


@dataclass(frozen=True, slots=True)
class Pointer:
    """Query and key of the head that is taught to look at the character being predicted.

    query [B, T, hd] and key [B, T, hd], both after the rotary embedding, softmax scale not applied.
    """

    query: Tensor
    key: Tensor


def text_forward(
    language: Any, embeds: Tensor, positions: Tensor, mask: Tensor, *, pointer_layer: int | None = None
) -> tuple[Tensor, Pointer | None]:
    """Hidden states [B, T, d] after the final norm, and the pointer head of `pointer_layer`.

    embeds [B, T, d]; positions [3, B, T]; mask [B, 1, T, T] bool, True = may attend.
    """
    dtype = language.layers[0].self_attn.q_proj.weight.dtype
    cos, sin = (t.to(dtype) for t in text_angles(language, positions))
    rotary = cos.shape[-1]
    bias = attention_bias(mask, dtype)
    x = embeds.float()
    pointer = None
    for index, layer in enumerate(language.layers):
        attn = layer.self_attn
        h = rms_norm(x, layer.input_layernorm, dtype)
        shape = (*h.shape[:2], -1, attn.head_dim)
        q, k, v = (p(h).view(shape).transpose(1, 2) for p in (attn.q_proj, attn.k_proj, attn.v_proj))
        q = torch.cat((rotate_pairs(q[..., :rotary], cos, sin), q[..., rotary:]), dim=-1)
        k = torch.cat((rotate_pairs(k[..., :rotary], cos, sin), k[..., rotary:]), dim=-1)
        if index == pointer_layer:
            pointer = Pointer(q[:, 0], k[:, 0])
        mixed = attend(q, k, v, bias)
        out = attn.o_proj(mixed.transpose(1, 2).reshape(*h.shape[:2], -1))
        x = x + rms_norm(out, layer.post_self_attn_layernorm, torch.float32)
        h = rms_norm(x, layer.post_attention_layernorm, dtype)
        x = x + rms_norm(layer.mlp(h), layer.post_mlp_layernorm, torch.float32)
    return rms_norm(x, language.norm, dtype), pointer
