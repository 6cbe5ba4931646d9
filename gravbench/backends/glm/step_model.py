"""`StepModel` over one checkpoint: vision by the stock modules, the text side by the lean decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gravbench.backends.glm.batch import Shape, forward_rows, numbers_of
from gravbench.backends.glm.cache import KvCache
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.backends.glm.graphs import GraphedForwards, Recorder, rounded_keys
from gravbench.backends.glm.loading import Loaded, encode_image, prefix_positions
from gravbench.backends.glm.request import Prompter, read_pixels
from gravbench.decoding.masks import CAUSAL
from gravbench.decoding.protocols import ModelInfo, RequestError, Window
from gravbench.decoding.tracing import TraceRecorder
from gravbench.records import Request


@dataclass(slots=True, kw_only=True)
class GlmState:
    """One request in the cache. `offset` turns a cache row into its position: row + offset."""

    cache: KvCache
    prefix_tokens: int
    offset: int
    window_rows: int = 0


class GlmStepModel:
    """Holds the requests under way, each in a slot of one cache pool.

    With `record`, decode forwards run in fixed shapes that are recorded and replayed.
    """

    def __init__(self, loaded: Loaded, info: ModelInfo, *, record: Recorder | None = None) -> None:
        self.info = info
        self._loaded = loaded
        self._prompter = Prompter(loaded.tokenizer, image_token_id=loaded.model.config.image_token_id)
        self.decoder = GlmDecoder(loaded.model)
        self.pool = self.decoder.new_pool()
        self.graphs = GraphedForwards(self.decoder, self.pool, record=record) if record else None
        loaded.model.model.language_model.layers = torch.nn.ModuleList()  # the decoder holds them now

    def prefill(
        self, request: Request, *, budget: int, window: int, trace: TraceRecorder
    ) -> tuple[GlmState, Tensor]:
        decoder, model = self.decoder, self._loaded.model
        with trace.stage("image"):
            pixels = read_pixels(request, self._loaded.image_processor)
            ids = self._prompter.prefix(request.task, image_tokens=pixels.image_tokens)
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
            room = min(budget, self.info.max_positions - len(ids)) + window
            first = int(positions.max()) + 1
            decoder.rope.reserve(first + room)
            cache = self.pool.claim(len(ids) + room)
            hidden = decoder.forward(embedded, decoder.rope.prefix(positions), cache, CAUSAL)
            cache.length = len(ids)
            logits = decoder.logits(hidden[-1:])[0]
            synchronize(decoder.device)
        trace.prefilled(
            prompt_tokens=len(ids) - pixels.image_tokens, vision_tokens=pixels.image_tokens, vision_forwards=1
        )
        state = GlmState(cache=cache, prefix_tokens=len(ids), offset=first - len(ids))
        return state, logits

    def room(self, state: GlmState) -> int:
        return self.info.max_positions - state.prefix_tokens

    def forward(self, state: GlmState, window: Window) -> Tensor:
        decoder, rows = self.decoder, len(window.tokens)
        if self.graphs is not None:
            return self.forward_batch([state], [window])[0]
        turn = decoder.rope.response(state.cache.length + state.offset, rows)
        embedded = decoder.embed(torch.tensor(window.tokens, device=decoder.device))
        state.window_rows = rows
        return decoder.logits(decoder.forward(embedded, turn, state.cache, window.mask))

    def forward_batch(self, states: Sequence[GlmState], windows: Sequence[Window]) -> Tensor:
        rows = max(len(window.tokens) for window in windows)
        order = sorted(range(len(states)), key=lambda i: states[i].cache.slot)
        if [states[i].cache.slot for i in order] != list(range(len(states))):
            raise ValueError("a batch takes every request under way")
        keys = max(state.cache.length for state in states) + rows
        if self.graphs is not None:
            keys = rounded_keys(keys, capacity=self.pool.capacity)
        shape = Shape(len(states), rows, keys)
        numbers = self._on_device(
            numbers_of(
                [states[i].cache for i in order],
                [states[i].offset for i in order],
                [windows[i] for i in order],
                shape,
            )
        )
        if self.graphs is None:
            logits = forward_rows(self.decoder, self.pool, numbers, shape)
        else:
            logits = self.graphs(shape, numbers)
        for state, window in zip(states, windows, strict=True):
            state.window_rows = len(window.tokens)
        logits = logits.view(len(states), rows, -1)
        in_order = order == list(range(len(states)))
        return logits if in_order else logits[sorted(range(len(order)), key=order.__getitem__)]

    def _on_device(self, numbers: Tensor) -> Tensor:
        """One copy, from pinned memory where there is a device to copy to."""
        device = self.decoder.device
        return numbers if device.type == "cpu" else numbers.pin_memory().to(device, non_blocking=True)

    def keep(self, state: GlmState, rows: int) -> None:
        if not 0 <= rows <= state.window_rows:
            raise ValueError(f"cannot keep {rows} of {state.window_rows} rows")
        state.cache.length += rows
        state.window_rows = 0

    def expect(self, requests: int) -> None:
        self.pool.expect(requests)

    def release(self, state: GlmState) -> None:
        self.pool.release(state.cache)

    def abandon(self) -> None:
        self.pool.clear()

    def settle(self) -> None:
        """Record the forwards met since the last call, if forwards are recorded. Between requests only."""
        if self.graphs is not None:
            self.graphs.settle()


def synchronize(device: torch.device) -> None:
    """Wait for the device, so that a clock read after it covers the work before it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
