"""The lean decoder gives the stock model's numbers, for every mask, and its cache is a fresh prefill's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from stock_model import cache_keyword, cache_of, stock_inputs, stock_model
from strategy_support import check_cache

from gravbench.backends.glm.step_model import GlmState, GlmStepModel
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.masks import Mask, block, causal, visible, window
from gravbench.decoding.rows import Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, Window, causal_window
from gravbench.records import Request

ATOL = 1e-4


@pytest.fixture(scope="module", params=["checkpoint", "grouped_checkpoint"])
def pair(request: pytest.FixtureRequest, make_request: Callable[..., Request]) -> SimpleNamespace:
    """The backend and the stock model on the same prefix."""
    folder: Path = request.getfixturevalue(request.param)
    step: GlmStepModel = TransformersLocal(folder).step_model
    ask, stock = make_request(variant=3), stock_model(folder)
    inputs = stock_inputs(step, stock, ask)
    return SimpleNamespace(step=step, stock=stock, ask=ask, ids=inputs["input_ids"], inputs=inputs)


def prefill(step: GlmStepModel, ask: Request) -> tuple[GlmState, Rows]:
    for cache in list(step.pool.in_use):
        step.pool.release(cache)
    step.expect(1, Needs(rows_max=34))
    return step.prefill(ask, budget=64, trace=TraceRecorder(lambda: 0))


def logits_of(step: GlmStepModel, state: GlmState, window: Window) -> torch.Tensor:
    return step.forward([state], [Step("verify", window)]).logits


@torch.inference_mode()
def test_prefill_logits_and_cache_equal_the_stock_model(pair: SimpleNamespace) -> None:
    expected = pair.stock(**pair.inputs, use_cache=True)
    state, rows = prefill(pair.step, pair.ask)
    torch.testing.assert_close(rows.logits()[0], expected.logits[0, -1], atol=ATOL, rtol=0)
    cached = state.cache.snapshot()
    for i, layer in enumerate(cache_of(expected).layers):
        torch.testing.assert_close(cached[i, 0], layer.keys[0], atol=ATOL, rtol=0)
        torch.testing.assert_close(cached[i, 1], layer.values[0], atol=ATOL, rtol=0)


@pytest.mark.parametrize("rows", [1, 2, 5, 9, 17, 33])
@pytest.mark.parametrize("shape", [causal, partial(window, 1), block, partial(window, 3)])
@torch.inference_mode()
def test_window_logits_equal_the_stock_model_with_a_4d_mask(
    pair: SimpleNamespace, shape: Callable[[int], Mask], rows: int
) -> None:
    step, stock, mask = pair.step, pair.stock, shape(rows)
    tokens = [(7 * i + 3) % step.info.vocab_size for i in range(rows)]
    state, _ = prefill(step, pair.ask)
    got = logits_of(step, state, Window(tokens, mask))

    past = cache_of(stock(**pair.inputs, use_cache=True))
    length = pair.ids.shape[1]
    seen = torch.ones(1, 1, rows, length + rows, dtype=torch.bool)
    seen[0, 0, :, length:] = torch.tensor(visible(mask))
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
    alone = logits_of(step, state, causal_window([11])).clone()
    drafted = logits_of(step, state, Window([11, *[step.info.mask_token_id] * 8], window(1, 9)))
    torch.testing.assert_close(drafted[0], alone[0], atol=ATOL, rtol=0)


@pytest.mark.parametrize(
    "strategy", ["ar", "selfspec:block=1", "selfspec:block=8", "selfspec:block=5,legacy=1"]
)
def test_the_cache_after_each_round_is_that_of_a_fresh_prefill(pair: SimpleNamespace, strategy: str) -> None:
    check_cache(pair.step, pair.ask, strategy)


@torch.inference_mode()
def test_keeping_more_rows_than_the_window_had_is_refused(pair: SimpleNamespace) -> None:
    state, _ = prefill(pair.step, pair.ask)
    logits_of(pair.step, state, causal_window([1, 2]))
    with pytest.raises(ValueError, match="cannot keep 3 of 2"):
        pair.step.keep(state, 3)


@torch.inference_mode()
def test_a_window_beyond_the_reserved_cache_is_refused(pair: SimpleNamespace) -> None:
    state, _ = prefill(pair.step, pair.ask)
    with pytest.raises(ValueError, match="cache rows needed"):
        logits_of(pair.step, state, causal_window([1] * (state.cache.capacity + 1)))


def test_the_patch_embedding_is_the_convolution(checkpoint: Path) -> None:
    from gravbench.backends.glm.loading import PatchProjection

    convolution = stock_model(checkpoint).model.visual.patch_embed
    patches = torch.randn(6, convolution.proj.weight[0].numel())
    with torch.no_grad():
        torch.testing.assert_close(PatchProjection(convolution.proj)(patches), convolution(patches))
