"""The GLM-OCR text decoder with its weights laid out for decoding: one forward primitive, all rows' logits.

Same numbers as the stock class to 1e-4, with about a third of its operations:

- Q, K and V are one product, as gate and up already are.
- RMS norm has no fused CPU kernel, layer norm has. The residual stream is therefore kept twice, as
  [x, -x]: its mean is 0 and its variance is mean(x^2), so layer norm over both halves *is* RMS norm,
  [norm(x), -norm(x)] at once.
- Rotation is a complex product in place, on queries and keys together.
- Keys and values go to a static cache, masks are kept from window to window, one row has its buffers.
- The half of a norm that is read is made contiguous first: oneDNN takes a third longer for a row with a gap.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as attend
from torch.nn.functional import silu

from gravbench.backends.glm.cache import KvCache, KvPool
from gravbench.backends.glm.layers import Batch, Linear, OneRequest, Place, Rope, rotate, turning
from gravbench.decoding.masks import WORD, Mask, packed
from gravbench.decoding.window import Window

KEPT_MASKS = 64
"""Masks of single requests that are kept as tensors; trees differ from round to round."""

Tap = tuple[tuple[int, ...], list[Tensor]]
"""Layers (from 0) after which the residual stream is read, and the list its copies [R, width] go to."""
NO_TAP: Tap = ((), [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Weights of one decoder layer; norms are doubled to fit the [x, -x] stream."""

    norm_in: Tensor
    qkv: Linear
    out: Linear
    norm_attended: Tensor
    norm_mlp: Tensor
    gate_up: Linear
    down: Linear
    norm_out: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of the decoder."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp: int
    vocab: int
    eps: float


class SingleRow:
    """Buffers and views of a one-row forward; nothing is allocated per layer but norms and attention."""

    def __init__(self, g: Geometry, *, rotary_dim: int, like: Tensor) -> None:
        heads = g.heads + 2 * g.kv_heads
        self.qkv = like.new_empty(heads * g.head_dim)
        split = self.qkv.view(1, heads, g.head_dim)
        self.query = split[:, : g.heads].transpose(0, 1).unsqueeze(0)  # [1, H, 1, hd]
        self.key_value = split[:, g.heads :].view(1, 2, g.kv_heads, g.head_dim).permute(1, 2, 0, 3)
        turned = split[:, : g.heads + g.kv_heads, :rotary_dim].view(1, g.heads + g.kv_heads, -1, 2)
        self.turned = turning(turned)
        self.stream = like.new_empty(2 * g.width)
        self.branch = like.new_empty(2 * g.width)
        self.plus, self.minus = self.branch[: g.width], self.branch[g.width :]
        self.gate_up = like.new_empty(2 * g.mlp)
        self.gate, self.up = self.gate_up[: g.mlp], self.gate_up[g.mlp :]
        self.logits = like.new_empty(g.vocab)
        self.logits_row = self.logits.unsqueeze(0)


class GlmDecoder:
    """Decoder of one loaded `GlmOcrForConditionalGeneration`. Call under `torch.inference_mode`."""

    def __init__(self, model: Any) -> None:
        language, config = model.model.language_model, model.config.text_config
        weight = language.embed_tokens.weight.detach()
        self.geometry = g = Geometry(
            width=config.hidden_size,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_dim=language.layers[0].self_attn.head_dim,
            mlp=config.intermediate_size,
            vocab=model.lm_head.weight.shape[0],
            eps=config.rms_norm_eps,
        )
        self.device, self.dtype = weight.device, weight.dtype
        self.rope = Rope(language.rotary_emb, device=self.device)
        self._embedding: Tensor = weight
        self._layers = [layer_of(layer.state_dict()) for layer in language.layers]
        self._norm = _doubled(language.norm.weight)
        self._head = Linear(model.lm_head.weight)
        self._single = SingleRow(g, rotary_dim=self.rope.rotary_dim, like=weight)
        self._grouped = g.heads != g.kv_heads
        self._masks: dict[tuple[Mask, int], Tensor] = {}

    def beside(self, layers: Sequence[Layer], norm: Tensor) -> GlmDecoder:
        """A decoder of other layers and another final norm [width]: embedding, output head and angles are
        those of this one, buffers are its own."""
        other = copy.copy(self)
        other._layers, other._norm, other._masks = list(layers), _doubled(norm), {}
        other._single = SingleRow(self.geometry, rotary_dim=self.rope.rotary_dim, like=self._embedding)
        return other

    @property
    def depth(self) -> int:
        """How many layers there are."""
        return len(self._layers)

    def new_pool(self) -> KvPool:
        """An empty pool of caches for this decoder."""
        g = self.geometry
        return KvPool(
            layers=len(self._layers),
            kv_heads=g.kv_heads,
            head_dim=g.head_dim,
            device=self.device,
            dtype=self.dtype,
        )

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings [Q, width] of token ids [Q]."""
        return self._embedding.index_select(0, tokens)

    def embed_one(self, token: int) -> Tensor:
        """The embedding [1, width] of one token id, a view of the table."""
        return self._embedding.narrow(0, token, 1)

    def forward(
        self, embedded: Tensor, turn: Tensor, cache: KvCache, window: Window | None, *, tap: Tap = NO_TAP
    ) -> Tensor:
        """Hidden states of Q rows that follow the cache; writes their keys and values behind it.

        embedded [Q, width]; turn [Q, 1, rotary_dim / 2]. Without a window they are the first rows of an empty
        cache, causal. Returns the normed stream [Q, width].
        """
        span = embedded.shape[0] if window is None else window.span
        cache.reach(span)
        written, seen = cache.window(span)
        if span == 1 and window is not None:
            return self._one_row(embedded, turn, written, seen, tap)
        slots = bias = None
        if window is not None:
            bias = self._bias(window.mask, span, cache)
            if window.slots is not None:
                slots = torch.tensor(list(window.slots), device=self.device)
        place = OneRequest(written, seen, bias=bias, grouped=self._grouped, slots=slots)
        return self._rows(embedded, turn, place, tap)

    def forward_batch(
        self,
        embedded: Tensor,
        turn: Tensor,
        pool: KvPool,
        *,
        written: Tensor,
        bias: Tensor,
        tap: Tap = NO_TAP,
    ) -> Tensor:
        """As `forward` for N requests of Q rows each.

        embedded [N * Q, width]; turn [N * Q, 1, rotary_dim / 2]; `written` and `bias` are those of
        `attention.Batch`.
        """
        place = Batch(pool, written=written, bias=bias, grouped=self._grouped)
        return self._rows(embedded, turn, place, tap)

    def logits(self, hidden: Tensor) -> Tensor:
        """[Q, width] -> [Q, V]. One row lands in a buffer that the next one-row call overwrites."""
        if hidden.shape[0] != 1:
            return self._head.many(hidden)
        self._head.one(hidden.view(-1), self._single.logits)
        return self._single.logits_row

    def _one_row(
        self, embedded: Tensor, turn: Tensor, written: Sequence[Tensor], seen: Sequence[Tensor], tap: Tap
    ) -> Tensor:
        g, row, grouped = self.geometry, self._single, self._grouped
        width, doubled, eps, norm = g.width, (2 * g.width,), g.eps, torch.layer_norm
        embedded = embedded.view(-1)
        stream = torch.cat((embedded, torch.neg(embedded)), out=row.stream)  # [2 * width]
        tapped, taps = tap
        for i, layer in enumerate(self._layers):
            layer.qkv.one(norm(stream, doubled, layer.norm_in, None, eps).narrow(0, 0, width), row.qkv)
            rotate(row.turned, turn)
            written[i].copy_(row.key_value)
            mixed = attend(row.query, seen[2 * i], seen[2 * i + 1], enable_gqa=grouped)
            layer.out.one(mixed.view(-1), row.plus)
            torch.neg(row.plus, out=row.minus)
            stream.add_(norm(row.branch, doubled, layer.norm_attended, None, eps))
            layer.gate_up.one(
                norm(stream, doubled, layer.norm_mlp, None, eps).narrow(0, 0, width), row.gate_up
            )
            layer.down.one(silu(row.gate).mul_(row.up), row.plus)
            torch.neg(row.plus, out=row.minus)
            stream.add_(norm(row.branch, doubled, layer.norm_out, None, eps))
            if i in tapped:
                taps.append(stream[:width].clone().unsqueeze(0))
        return norm(stream, doubled, self._norm, None, eps).narrow(0, 0, width).unsqueeze(0)

    def _rows(self, embedded: Tensor, turn: Tensor, place: Place, tap: Tap) -> Tensor:
        g, rows = self.geometry, embedded.shape[0]
        width, doubled, eps, norm = g.width, (2 * g.width,), g.eps, torch.layer_norm
        heads, turning_heads, rotary = g.heads, g.heads + g.kv_heads, self.rope.rotary_dim
        stream = torch.cat((embedded, torch.neg(embedded)), dim=-1)  # [Q, 2 * width]
        tapped, taps = tap
        for i, layer in enumerate(self._layers):
            normed = norm(stream, doubled, layer.norm_in, None, eps).narrow(1, 0, width).contiguous()
            split = layer.qkv.many(normed).view(rows, -1, g.head_dim)
            rotate(turning(split[:, :turning_heads, :rotary].view(rows, turning_heads, -1, 2)), turn)
            place.write(i, split[:, heads:].view(rows, 2, g.kv_heads, g.head_dim).permute(1, 2, 0, 3))
            branch = layer.out.many(place.mix(i, split[:, :heads]))
            branch = torch.cat((branch, torch.neg(branch)), dim=-1)
            stream.add_(norm(branch, doubled, layer.norm_attended, None, eps))
            normed = norm(stream, doubled, layer.norm_mlp, None, eps).narrow(1, 0, width).contiguous()
            gate, up = layer.gate_up.many(normed).chunk(2, dim=-1)
            branch = layer.down.many(silu(gate).mul_(up))
            branch = torch.cat((branch, torch.neg(branch)), dim=-1)
            stream.add_(norm(branch, doubled, layer.norm_out, None, eps))
            if i in tapped:
                taps.append(stream[:, :width].clone())
        return norm(stream, doubled, self._norm, None, eps).narrow(1, 0, width).contiguous()

    def _bias(self, mask: Mask, span: int, cache: KvCache) -> Tensor:
        """Additive mask [Q, length + span], 0 or the lowest finite number, a view of one kept per mask.

        The kept one spans the whole cache with the scratch slots in its last columns, so a longer cache only
        moves where the view begins.
        """
        kept = self._masks.get((mask, span))
        if kept is None or kept.shape[1] != cache.capacity:
            slots = torch.arange(span)
            words = torch.tensor(packed(mask, -(-span // WORD)))  # [W, Q]
            sees = (words[slots // WORD] >> (slots % WORD)[:, None]) & 1  # [span, Q]
            kept = torch.zeros(len(mask.vis), cache.capacity, dtype=self.dtype)
            kept[:, cache.capacity - span :].masked_fill_(sees.t() == 0, torch.finfo(self.dtype).min)
            if len(self._masks) == KEPT_MASKS:
                del self._masks[next(iter(self._masks))]
            kept = self._masks[mask, span] = kept.to(self.device)
        seen = cache.length + span
        return kept.narrow(1, cache.capacity - seen, seen)


def layer_of(weights: Mapping[str, Tensor]) -> Layer:
    """A layer of the stock class, of its tensors by name."""
    attention = [weights[f"self_attn.{name}_proj.weight"] for name in "qkv"]
    return Layer(
        norm_in=_doubled(weights["input_layernorm.weight"]),
        qkv=Linear(torch.cat(attention)),
        out=Linear(weights["self_attn.o_proj.weight"]),
        norm_attended=_doubled(weights["post_self_attn_layernorm.weight"]),
        norm_mlp=_doubled(weights["post_attention_layernorm.weight"]),
        gate_up=Linear(weights["mlp.gate_up_proj.weight"]),
        down=Linear(weights["mlp.down_proj.weight"]),
        norm_out=_doubled(weights["post_mlp_layernorm.weight"]),
    )


def _doubled(norm: Tensor) -> Tensor:
    weight = norm.detach()
    return torch.cat((weight, weight))
