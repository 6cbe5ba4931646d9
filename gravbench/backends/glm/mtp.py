"""The `mtp` head on the lean decoder: one more layer with its own cache, as GLM-OCR keeps it.

    x = eh_proj [enorm(embedding of the token) ; hnorm(state of the slot before it)]
    state = shared_head.norm(layer(x)),  logits = the model's output head (state)

The row that joins the state of slot i with the token of slot i + 1 is row i of the head's cache and stands at
the position of slot i. After a row the state carried to the next drafted row is the normed one, or with
`raw_carry` the one before the norm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import rms_norm

from gravbench.backends.glm.batch import Shape, bias_of, inputs_of
from gravbench.backends.glm.cache import KvCache
from gravbench.backends.glm.decoder import Geometry, GlmDecoder, layer_of
from gravbench.backends.glm.layers import Linear
from gravbench.backends.glm.step_model import GlmState
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.window import PAD, Step, causal_window


def mtp_shapes(g: Geometry) -> dict[str, tuple[int, ...]]:
    """Tensors of the head of a decoder of this size, by name."""
    query, key = g.heads * g.head_dim, g.kv_heads * g.head_dim
    norms = ("input", "post_self_attn", "post_attention", "post_mlp")
    return {
        "enorm.weight": (g.width,),
        "hnorm.weight": (g.width,),
        "eh_proj.weight": (g.width, 2 * g.width),
        **{f"{name}_layernorm.weight": (g.width,) for name in norms},
        "self_attn.q_proj.weight": (query, g.width),
        "self_attn.k_proj.weight": (key, g.width),
        "self_attn.v_proj.weight": (key, g.width),
        "self_attn.o_proj.weight": (g.width, query),
        "mlp.gate_up_proj.weight": (2 * g.mlp, g.width),
        "mlp.down_proj.weight": (g.width, g.mlp),
        "shared_head.norm.weight": (g.width,),
    }


@dataclass(slots=True)
class _Held:
    """One request: its rows, the state [1, width] that its next drafted row starts from, its offset."""

    cache: KvCache
    carry: Tensor
    offset: int


class MtpHead:
    """A `Head` over the states after the final norm. Requests are known by their state."""

    def __init__(
        self,
        decoder: GlmDecoder,
        weights: Mapping[str, Tensor],
        *,
        raw_carry: bool = False,
        zero_first: bool = False,
    ) -> None:
        self._decoder = decoder.beside([layer_of(weights)], weights["shared_head.norm.weight"])
        self._norms = weights["enorm.weight"], weights["hnorm.weight"]
        self._joined = Linear(weights["eh_proj.weight"])
        self._raw_carry, self._zero_first = raw_carry, zero_first
        self._pool = self._decoder.new_pool()
        self._held: dict[int, _Held] = {}

    def prefill(self, state: GlmState, prefix: Rows) -> None:
        given, last = state.prefix, len(prefix) - 1
        assert given is not None
        state.prefix = None
        hidden = prefix.hidden(range(len(prefix)))
        cache = self._pool.claim(given.rows)
        if last:
            following = given.embedded[1:]
            if self._zero_first:
                following = torch.cat((torch.zeros_like(following[:1]), following[1:]))
            joined = self._join(following, hidden[:last])
            self._decoder.forward(joined, given.turn[:last], cache, None)
            cache.keep(last)
        self._held[id(state)] = _Held(cache, hidden[last:], state.offset)

    def extend(self, states: Sequence[GlmState], steps: Sequence[Step]) -> Reply:
        return self._forward(states, steps, [step.features for step in steps if step.features is not None])

    def step(self, states: Sequence[GlmState], steps: Sequence[Step]) -> Reply:
        if any(len(step.window.tokens) > 1 for step in steps):
            raise ValueError("a drafted row needs the state of the one before it: one a step")
        return self._forward(states, steps, [self._held[id(state)].carry for state in states])

    def truncate(self, state: GlmState, rows: int) -> None:
        cache = self._held[id(state)].cache
        if not 0 <= rows <= cache.length:
            raise ValueError(f"cannot hold {rows} of {cache.length} rows")
        cache.length = rows

    def length(self, state: GlmState) -> int:
        return self._held[id(state)].cache.length

    def release(self, state: GlmState) -> None:
        self._pool.release(self._held.pop(id(state)).cache)

    def abandon(self) -> None:
        self._pool.clear()
        self._held.clear()

    def _join(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Inputs [R, width] of rows, of embeddings and states [R, width]."""
        width, eps = (self._decoder.geometry.width,), self._decoder.geometry.eps
        by_token, by_state = self._norms
        both = rms_norm(embedded, width, by_token, eps), rms_norm(hidden, width, by_state, eps)
        return self._joined.many(torch.cat(both, dim=-1))

    def _forward(self, states: Sequence[GlmState], steps: Sequence[Step], hidden: Sequence[Tensor]) -> Reply:
        held = [self._held[id(state)] for state in states]
        widths = [len(step.window.tokens) for step in steps]
        if [len(own) for own in hidden] != widths:
            raise ValueError(f"states {[len(own) for own in hidden]} for rows {widths}")
        tokens = [token for step in steps for token in step.window.tokens]
        joined = self._join(
            self._decoder.embed(torch.tensor(tokens, device=self._decoder.device)), torch.cat(list(hidden))
        )
        firsts = [0, *accumulate(widths)]
        normed, stream = self._rows(held, steps, joined)
        for one, width, end in zip(held, widths, firsts[1:], strict=True):
            one.cache.keep(width)
            one.carry = (stream if self._raw_carry else normed)[end - 1 : end]
        read = [
            range(w) if s.wants.rows is None else s.wants.rows for s, w in zip(steps, widths, strict=True)
        ]
        at = [first + row for first, own in zip(firsts, read, strict=False) for row in own]
        return Reply(
            logits=self._decoder.logits(normed[at]),
            widths=widths,
            starts=[0, *accumulate(map(len, read))][:-1],
            wanted=[step.wants.rows for step in steps],
            firsts=firsts[:-1],
        )

    def _rows(self, held: Sequence[_Held], steps: Sequence[Step], joined: Tensor) -> tuple[Tensor, Tensor]:
        """States [R, width] after and before the norm, of the rows of all steps one after another."""
        decoder, taps = self._decoder, list[Tensor]()
        if len(self._held) == 1:
            cache, window = held[0].cache, steps[0].window
            turn = decoder.rope.response(cache.length + held[0].offset, len(joined))
            normed = decoder.forward(joined, turn, cache, window, tap=((0,), taps))
            return normed, taps[0]
        lanes = sorted(self._held.values(), key=lambda one: one.cache.slot)
        windows = [causal_window((PAD,))] * len(lanes)
        for one, step in zip(held, steps, strict=True):
            windows[one.cache.slot] = step.window
        rows = max(len(window.tokens) for window in windows)
        keys = max(one.cache.length for one in lanes) + rows
        shape = Shape(len(lanes), rows, keys, 0)
        caches, offsets = [one.cache for one in lanes], [one.offset for one in lanes]
        table = inputs_of(caches, offsets, windows, shape).to(decoder.device).numbers
        _, positions, written, seen = table.unbind(0)
        places = [
            one.cache.slot * rows + row
            for one, step in zip(held, steps, strict=True)
            for row in range(len(step.window.tokens))
        ]
        own = torch.tensor(places, device=decoder.device)
        normed = decoder.forward_batch(
            joined.new_zeros(len(lanes) * rows, joined.shape[1]).index_copy_(0, own, joined),
            decoder.rope.at(positions),
            self._pool,
            written=written,
            bias=bias_of(decoder, self._pool, seen, (), shape),
            tap=((0,), taps),
        )
        return normed[own], taps[0][own]
