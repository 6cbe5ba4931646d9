"""`StepModel` over one checkpoint: vision by the stock modules, the text side by the lean decoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from gravbench.backends.checkpoint_contents import refuse_non_finite_logits
from gravbench.backends.glm.batch import Embedder, Shape, embedded_rows, forward_rows, inputs_of, noise_of
from gravbench.backends.glm.cache import KvCache
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.backends.glm.graphs import GraphedForwards, Recorder, rounded_keys
from gravbench.backends.glm.loading import Loaded, encode_image, prefix_positions
from gravbench.backends.glm.request import Prompter, prompt_of, read_pixels
from gravbench.decoding.protocols import Head, ModelInfo, RequestError
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step
from gravbench.errors import UsageError
from gravbench.records import Request

FEWEST_ROWS = {"cuda": 4}
"""Rows that a forward of two is padded to, by type of device: where libraries choose a kernel for two rows
that is slower than the one for four. Those of a CPU need none: at GLM-OCR's size two rows take 0.9 times
as long as four in float32, half as long in bfloat16."""


class Prefix(NamedTuple):
    """What a head reads of a prefix beside its rows: embeddings [P, width], image tokens in place, angles
    [P, 1, rotary_dim / 2], and the cache rows that were reserved for the request."""

    embedded: Tensor
    turn: Tensor
    rows: int


@dataclass(slots=True, kw_only=True)
class GlmState:
    """One request in the cache. `offset` turns a cache row into its position: row + offset."""

    cache: KvCache
    prefix_tokens: int
    offset: int
    prefix: Prefix | None = None
    """Until a head has taken it in; `None` without one."""


OpenHead = Callable[[GlmDecoder], Head[GlmState]]
"""Reads a head from its file and checks that it fits the decoder; `EngineError` where it does not."""


class GlmStepModel:
    """Holds the requests under way, each in a slot of one cache pool.

    With `record`, decode forwards run in fixed shapes that are recorded and replayed. `heads` open the
    small networks beside the checkpoint, by name, when they are first needed; `embedder` embeds noise rows.
    """

    def __init__(
        self,
        loaded: Loaded,
        info: ModelInfo,
        *,
        record: Recorder | None = None,
        heads: Mapping[str, OpenHead] | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.info = info
        self.head: Head[GlmState] | None = None
        self.decoder = GlmDecoder(loaded.model)
        self.pool = self.decoder.new_pool()
        self._loaded, self._openers, self._embedder = loaded, heads or {}, embedder
        self._heads: dict[str, Head[GlmState]] = {}
        self._needs = Needs(rows_max=1)
        self.fewest_rows = FEWEST_ROWS.get(self.decoder.device.type, 1)
        self._prompter = Prompter(loaded.tokenizer, image_token_id=loaded.model.config.image_token_id)
        self.graphs = (
            GraphedForwards(self.decoder, self.pool, record=record, embedder=embedder) if record else None
        )
        loaded.model.model.language_model.layers = torch.nn.ModuleList()  # the decoder holds them now

    def expect(self, requests: int, needs: Needs) -> None:
        if needs.noise and self._embedder is None:
            raise UsageError(
                "this checkpoint has no noise embedder", hint="Train one, or use another strategy."
            )
        if needs.taps and not 0 <= min(needs.taps) <= max(needs.taps) < self.decoder.depth:
            raise UsageError(f"taps {needs.taps} of a model of {self.decoder.depth} layers")
        self._needs = needs
        self.head = None if needs.head is None else self.open_head(needs.head)
        self.pool.expect(requests)

    def open_head(self, name: str) -> Head[GlmState]:
        """The head of that name, read once; `UsageError` for an unknown one, `EngineError` for a misfit."""
        if name not in self._openers:
            raise UsageError(f"this checkpoint has no head '{name}'", hint=_known(self._openers))
        if name not in self._heads:
            self._heads[name] = self._openers[name](self.decoder)
        return self._heads[name]

    def prefill(self, request: Request, *, budget: int, trace: TraceRecorder) -> tuple[GlmState, Rows]:
        decoder, model = self.decoder, self._loaded.model
        with trace.stage("image"):
            pixels = read_pixels(request, self._loaded.image_processor)
            ids = self._prompter.prefix(prompt_of(request), image_tokens=pixels.image_tokens)
            if len(ids) >= self.info.max_positions:
                raise RequestError(
                    f"{request.image_path}: the prompt takes {len(ids)} tokens of which "
                    f"{pixels.image_tokens} are the image; the model has {self.info.max_positions} positions"
                )
        with trace.stage("vision"):
            grid = pixels.grid.to(decoder.device)
            image = encode_image(model, pixels.patches.to(decoder.device), grid)
            synchronize(decoder.device)
        with trace.stage("prefill"):
            tokens = torch.tensor(ids, device=decoder.device)
            on_image = tokens == model.config.image_token_id
            positions = prefix_positions(model, tokens, on_image, grid)
            embedded = decoder.embed(tokens)
            embedded[on_image] = image.to(embedded.dtype)
            widest = max(self._needs.rows_max, self.fewest_rows)
            room = min(budget, self.info.max_positions - len(ids)) + widest
            first = int(positions.max()) + 1
            decoder.rope.reserve(first + room)
            cache = self.pool.claim(len(ids) + room)
            taps: list[Tensor] = []
            turn = decoder.rope.prefix(positions)
            hidden = decoder.forward(embedded, turn, cache, None, tap=(self._needs.taps, taps))
            cache.keep(len(ids))
            prefix = None if self.head is None else Prefix(embedded, turn, len(ids) + room)
            logits = decoder.logits(hidden[-1:])
            refuse_non_finite_logits(logits, sample_id=request.sample_id, dtype=embedded.dtype)
            synchronize(decoder.device)
        trace.prefilled(
            prompt_tokens=len(ids) - pixels.image_tokens, vision_tokens=pixels.image_tokens, vision_forwards=1
        )
        state = GlmState(cache=cache, prefix_tokens=len(ids), offset=first - len(ids), prefix=prefix)
        reply = Reply(
            logits=logits,
            widths=(len(ids),),
            starts=(0,),
            wanted=((len(ids) - 1,),),
            firsts=(0,),
            hidden=hidden if self._needs.hidden else None,
            taps=taps,
        )
        return state, Rows(reply)

    def room(self, state: GlmState) -> int:
        return self.info.max_positions - state.prefix_tokens

    def forward(self, states: Sequence[GlmState], steps: Sequence[Step]) -> Reply:
        windows = [step.window for step in steps]
        widths = [len(window.tokens) for window in windows]
        rows = self._padded(len(states), max(widths))
        if len(states) == 1 and self.graphs is None and rows == widths[0]:
            return self._forward_one(states[0], steps[0])
        slots = [state.cache.slot for state in states]
        order = sorted(range(len(states)), key=slots.__getitem__)
        if [slots[i] for i in order] != list(range(len(states))):
            raise ValueError("a batch takes every request under way")
        span = max(rows, *[window.span for window in windows])
        keys = max([state.cache.length for state in states]) + span
        if self.graphs is not None:  # one recording serves every mask
            keys = rounded_keys(keys, capacity=self.pool.capacity)
        elif not [one for one in windows if one.slots is not None or one.mask.reach is None]:
            span = 0
        shape = Shape(len(states), rows, keys, span, self._needs.taps, self._needs.noise)
        inputs = inputs_of(
            [states[i].cache for i in order],
            [states[i].offset for i in order],
            [windows[i] for i in order],
            shape,
        ).to(self.decoder.device)
        starts = firsts = [slot * rows for slot in slots]
        wanted: Tensor | None = None
        asked = [step.wants.rows for step in steps]
        if min(widths) < rows or asked.count(None) < len(asked):
            read = [_read_rows(step) for step in steps]
            starts = [0, *accumulate(map(len, read))][:-1]
            wanted = self._tensor(
                [first + row for first, own in zip(firsts, read, strict=True) for row in own]
            )
        if self.graphs is None:
            out = forward_rows(self.decoder, self.pool, inputs, shape, embedder=self._embedder, wanted=wanted)
            logits = out.logits
        else:
            out = self.graphs(shape, inputs)
            logits = out.logits if wanted is None else out.logits.index_select(0, wanted)
        return Reply(
            logits=logits,
            widths=widths,
            starts=starts,
            wanted=asked,
            firsts=firsts,
            hidden=out.hidden if self._needs.hidden else None,
            taps=out.taps,
        )

    def _padded(self, requests: int, rows: int) -> int:
        """Rows of each request when a forward of two rows is padded to `fewest_rows`."""
        return -(-self.fewest_rows // requests) if requests * rows == 2 < self.fewest_rows else rows

    def _forward_one(self, state: GlmState, step: Step) -> Reply:
        """Without padding and tables: the window lies where its request's cache ends."""
        decoder, cache, window, wants = self.decoder, state.cache, step.window, step.wants
        tokens, first = window.tokens, cache.length + state.offset
        rows = len(tokens)
        if window.positions is None:
            turn = decoder.rope.response(first, rows)
        else:
            cache.reach(window.span, last_position=max(window.positions))
            turn = decoder.rope.at(self._tensor([first + at for at in window.positions]))
        if window.noise is None:
            embedded = decoder.embed_one(tokens[0]) if rows == 1 else decoder.embed(self._tensor(tokens))
        else:
            noise = noise_of([window], rows).to(decoder.device)
            embedded = embedded_rows(decoder, self._tensor(tokens), noise, self._embedder)
        taps: list[Tensor] = []
        hidden = decoder.forward(embedded, turn, cache, window, tap=(self._needs.taps, taps))
        read = hidden if wants.rows is None else hidden[list(wants.rows)]
        return Reply(
            logits=decoder.logits(read),
            widths=(rows,),
            starts=(0,),
            wanted=(wants.rows,),
            firsts=(0,),
            hidden=hidden if self._needs.hidden else None,
            taps=taps,
        )

    def _tensor(self, numbers: Sequence[int]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.long, device=self.decoder.device)

    def keep(self, state: GlmState, rows: int | Sequence[int]) -> None:
        state.cache.keep(rows)

    def release(self, state: GlmState) -> None:
        self.pool.release(state.cache)

    def abandon(self) -> None:
        self.pool.clear()
        for head in self._heads.values():
            head.abandon()

    def settle(self) -> None:
        """Record the forwards met since the last call, if forwards are recorded. Between requests only."""
        if self.graphs is not None:
            self.graphs.settle()


def _read_rows(step: Step) -> Sequence[int]:
    """Window rows whose logits the step reads."""
    return range(len(step.window.tokens)) if step.wants.rows is None else step.wants.rows


def _known(names: Mapping[str, object]) -> str:
    return f"known: {', '.join(sorted(names))}" if names else "It has none."


def synchronize(device: torch.device) -> None:
    """Wait for the device, so that a clock read after it covers the work before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
