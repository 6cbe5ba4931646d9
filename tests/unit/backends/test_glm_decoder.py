"""The lean decoder gives the stock model's numbers, for every mask, and its cache is a fresh prefill's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gravbench.backends.glm.request import read_pixels
from gravbench.backends.glm.step_model import GlmState, GlmStepModel
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.masks import BLOCK, CAUSAL, WINDOW_1, Mask, visible, window
from gravbench.decoding.output import Output
from gravbench.decoding.protocols import Window
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.records import Request

ATOL = 1e-4


def stock_model(folder: Path) -> Any:
    from transformers import GlmOcrForConditionalGeneration

    return GlmOcrForConditionalGeneration.from_pretrained(
        str(folder), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


def cache_of(outputs: Any) -> Any:
    """Transformers names the field `cache` from 5.24 on."""
    return outputs.cache if "cache" in outputs else outputs.past_key_values


def cache_keyword() -> str:
    """The same name as an argument; the signature hides it behind decorators."""
    from transformers import GlmOcrForConditionalGeneration

    forward = inspect.unwrap(GlmOcrForConditionalGeneration.forward)
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


@pytest.fixture(scope="module", params=["checkpoint", "grouped_checkpoint"])
def pair(request: pytest.FixtureRequest, make_request: Callable[..., Request]) -> SimpleNamespace:
    """The backend and the stock model on the same prefix."""
    folder: Path = request.getfixturevalue(request.param)
    step: GlmStepModel = TransformersLocal(folder).step_model
    ask = make_request(variant=3)
    pixels = read_pixels(ask, step._loaded.image_processor)
    ids = torch.tensor([step._prompter.prefix("text", image_tokens=pixels.image_tokens)])
    stock = stock_model(folder)
    inputs = {
        "input_ids": ids,
        "pixel_values": pixels.patches,
        "image_grid_thw": pixels.grid,
        "mm_token_type_ids": (ids == stock.config.image_token_id).int(),
    }
    return SimpleNamespace(step=step, stock=stock, ask=ask, ids=ids, inputs=inputs)


def prefill(step: GlmStepModel, ask: Request) -> tuple[GlmState, torch.Tensor]:
    for cache in list(step.pool.in_use):
        step.pool.release(cache)
    return step.prefill(ask, budget=64, window=34, trace=TraceRecorder(lambda: 0))


@torch.inference_mode()
def test_prefill_logits_and_cache_equal_the_stock_model(pair: SimpleNamespace) -> None:
    expected = pair.stock(**pair.inputs, use_cache=True)
    state, logits = prefill(pair.step, pair.ask)
    torch.testing.assert_close(logits, expected.logits[0, -1], atol=ATOL, rtol=0)
    cached = state.cache.snapshot()
    for i, layer in enumerate(cache_of(expected).layers):
        torch.testing.assert_close(cached[i, 0], layer.keys[0], atol=ATOL, rtol=0)
        torch.testing.assert_close(cached[i, 1], layer.values[0], atol=ATOL, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 5, 9, 17, 33])
@pytest.mark.parametrize("mask", [CAUSAL, WINDOW_1, BLOCK, window(3)], ids=lambda m: m.name)
@torch.inference_mode()
def test_window_logits_equal_the_stock_model_with_a_4d_mask(
    pair: SimpleNamespace, mask: Mask, rows: int
) -> None:
    step, stock = pair.step, pair.stock
    tokens = [(7 * i + 3) % step.info.vocab_size for i in range(rows)]
    state, _ = prefill(step, pair.ask)
    got = step.forward(state, Window(tokens, mask))

    past = cache_of(stock(**pair.inputs, use_cache=True))
    length = pair.ids.shape[1]
    seen = torch.ones(1, 1, rows, length + rows, dtype=torch.bool)
    seen[0, 0, :, length:] = torch.tensor(visible(mask, rows))
    positions = torch.arange(rows)[None] + length + stock.model.rope_deltas
    expected = stock(
        input_ids=torch.tensor([tokens]),
        attention_mask=seen,
        position_ids=positions.expand(3, 1, -1),
        **{cache_keyword(): past},
    )
    torch.testing.assert_close(got, expected.logits[0], atol=ATOL, rtol=0)


@torch.inference_mode()
def test_the_first_row_of_a_draft_window_is_the_ar_row(pair: SimpleNamespace) -> None:
    step = pair.step
    state, _ = prefill(step, pair.ask)
    alone = step.forward(state, Window([11], CAUSAL)).clone()
    drafted = step.forward(state, Window([11, *[step.info.mask_token_id] * 8], WINDOW_1))
    torch.testing.assert_close(drafted[0], alone[0], atol=ATOL, rtol=0)


@pytest.mark.parametrize(
    "strategy", ["ar", "selfspec:block=1", "selfspec:block=8", "selfspec:block=5,legacy=1"]
)
@torch.inference_mode()
def test_the_cache_after_each_round_is_that_of_a_fresh_prefill(pair: SimpleNamespace, strategy: str) -> None:
    step = pair.step
    state, logits = prefill(step, pair.ask)
    output = Output(step.info.eos_token_ids, budget=40)
    output.extend([int(logits.argmax())])
    rounds = parse_strategy(strategy)
    snapshots = []
    while output.stop_reason is None:
        under_way = rounds.round(step, state, output, TraceRecorder(lambda: 0))
        asked = next(under_way)
        with suppress(StopIteration):
            while True:
                asked = under_way.send(step.forward(state, asked.window).argmax(-1).tolist())
        snapshots.append((len(output.tokens), state.cache.snapshot()))
    assert len(snapshots) > 3
    for committed, snapshot in snapshots:
        fresh, _ = prefill(step, pair.ask)
        step.forward(fresh, Window(output.tokens[: committed - 1], CAUSAL))
        step.keep(fresh, committed - 1)
        torch.testing.assert_close(snapshot, fresh.cache.snapshot(), atol=ATOL, rtol=0)


@torch.inference_mode()
def test_keeping_more_rows_than_the_window_had_is_refused(pair: SimpleNamespace) -> None:
    state, _ = prefill(pair.step, pair.ask)
    pair.step.forward(state, Window([1, 2], CAUSAL))
    with pytest.raises(ValueError, match="cannot keep 3 of 2"):
        pair.step.keep(state, 3)


@torch.inference_mode()
def test_a_window_beyond_the_reserved_cache_is_refused(pair: SimpleNamespace) -> None:
    state, _ = prefill(pair.step, pair.ask)
    with pytest.raises(ValueError, match="cache rows needed"):
        pair.step.forward(state, Window([1] * (state.cache.capacity + 1), CAUSAL))


def test_the_patch_embedding_is_the_convolution(checkpoint: Path) -> None:
    from gravbench.backends.glm.loading import PatchProjection

    convolution = stock_model(checkpoint).model.visual.patch_embed
    patches = torch.randn(6, convolution.proj.weight[0].numel())
    with torch.no_grad():
        torch.testing.assert_close(PatchProjection(convolution.proj)(patches), convolution(patches))
