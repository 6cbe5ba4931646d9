"""A batch of the real decoder: the numbers of single requests, whatever shares the forward with them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from gravbench.backends.glm.batch import Outputs
from gravbench.backends.glm.cache import KvPool
from gravbench.backends.glm.decoder import GlmDecoder
from gravbench.backends.glm.graphs import GraphedForwards, Recorder, Work, rounded_keys
from gravbench.backends.glm.step_model import GlmState, GlmStepModel
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.masks import Mask, block, causal, window
from gravbench.decoding.rows import Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step, Window, causal_window
from gravbench.errors import EngineError, UsageError
from gravbench.records import DecodeConfig, Request

ATOL = 1e-4
Maker = Callable[..., Request]


@pytest.fixture(scope="module", params=["checkpoint", "grouped_checkpoint"])
def batcher(request: pytest.FixtureRequest) -> TransformersLocal:
    folder: Path = request.getfixturevalue(request.param)
    return TransformersLocal(folder)


def begin(step: GlmStepModel, request: Request) -> GlmState:
    step.expect(4, Needs(rows_max=34))
    return step.prefill(request, budget=64, trace=TraceRecorder(lambda: 0))[0]


def logits_of(step: GlmStepModel, state: GlmState, window: Window) -> torch.Tensor:
    return step.forward([state], [Step("verify", window)]).logits


def ids(step: GlmStepModel, count: int, start: int) -> list[int]:
    return [(7 * i + start) % step.info.vocab_size for i in range(count)]


@pytest.mark.parametrize(
    "asked",
    [
        [causal(1)] * 4,
        [window(1, 9)] * 3,
        [window(1, 9), causal(9), window(1, 9)],
        [causal(2), window(1, 9), causal(1), causal(5)],
    ],
)
@torch.inference_mode()
def test_batched_logits_equal_single_ones(
    batcher: TransformersLocal, make_request: Maker, asked: list[Mask]
) -> None:
    step = batcher.step_model
    windows = [Window(ids(step, len(mask.vis), 3 + i), mask) for i, mask in enumerate(asked)]
    states = [begin(step, make_request(variant=i)) for i in range(len(windows))]
    for state in states[1:]:  # different lengths, whatever the images give
        logits_of(step, state, causal_window(ids(step, 4 + state.cache.slot, 1)))
        step.keep(state, 2 + state.cache.slot)
    alone = [logits_of(step, state, window).clone() for state, window in zip(states, windows, strict=True)]
    for order in (range(len(states)), reversed(range(len(states)))):
        listed = list(order)
        reply = step.forward([states[i] for i in listed], [Step("verify", windows[i]) for i in listed])
        for at, i in enumerate(listed):
            torch.testing.assert_close(Rows(reply, at).logits(), alone[i], atol=ATOL, rtol=0)
    for state in states:
        step.release(state)


@torch.inference_mode()
def test_a_slot_that_moves_keeps_its_request(batcher: TransformersLocal, make_request: Maker) -> None:
    step = batcher.step_model
    states = [begin(step, make_request(variant=i)) for i in range(3)]
    before = states[2].cache.snapshot()
    step.release(states[0])
    assert states[2].cache.slot == 0
    torch.testing.assert_close(states[2].cache.snapshot(), before)
    step.release(states[0])  # twice is harmless
    step.release(states[1])
    step.release(states[2])
    assert step.pool.in_use == []


@torch.inference_mode()
def test_a_batch_that_leaves_out_a_request_is_refused(
    batcher: TransformersLocal, make_request: Maker
) -> None:
    step = batcher.step_model
    states = [begin(step, make_request(variant=i)) for i in range(3)]
    with pytest.raises(ValueError, match="every request under way"):
        step.forward(states[1:], [Step("verify", causal_window([1]))] * 2)
    for state in states:
        step.release(state)


def test_a_growing_pool_keeps_what_is_cached() -> None:
    pool = KvPool(layers=2, kv_heads=3, head_dim=4, device=torch.device("cpu"), dtype=torch.float32)
    first = pool.claim(100)
    first.reach(5)
    written, _ = first.window(5)
    for i, layer in enumerate(written):
        layer.fill_(float(i + 1))
    first.keep(5)
    before = first.snapshot()
    pool.claim(1000)
    torch.testing.assert_close(first.snapshot(), before)
    assert pool.capacity >= 1000 and [cache.slot for cache in pool.in_use] == [0, 1]


@pytest.mark.parametrize("strategy", ["ar", "selfspec:block=4", "selfspec:block=8,legacy=1"])
@pytest.mark.parametrize("batch", [2, 3, 8])
def test_a_batch_gives_the_ids_and_counters_of_single_requests(
    batcher: TransformersLocal, make_request: Maker, strategy: str, batch: int
) -> None:
    tasks = ("text", "table", "formula")
    requests = [make_request(variant=i, task=tasks[i % 3], budget=12 + 11 * i) for i in range(5)]
    expected = [batcher.generate(r, DecodeConfig(strategy=strategy, max_new_tokens=64)) for r in requests]
    joint = f"{strategy}{',' if ':' in strategy else ':'}batch={batch}"
    got = batcher.generate_batch(requests, DecodeConfig(strategy=joint, max_new_tokens=64))
    for one, other in zip(expected, got, strict=True):
        assert one.trace is not None and other.trace is not None
        assert (one.token_ids, one.text, one.stop_reason) == (other.token_ids, other.text, other.stop_reason)
        assert one.trace.counters == other.trace.counters
        assert one.trace.rounds == other.trace.rounds


@pytest.mark.parametrize(
    ("strategy", "plain"),
    [("ar:batch=2", {2}), ("selfspec:block=1,batch=2", {4}), ("selfspec:block=1", set())],
)
def test_two_rows_padded_to_four_give_the_tokens_and_counters_of_two(
    batcher: TransformersLocal,
    make_request: Maker,
    strategy: str,
    plain: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step, batched, widths = batcher.step_model, GlmDecoder.forward_batch, set[int]()

    def forward_batch(decoder: GlmDecoder, rows: torch.Tensor, *args: Any, **options: Any) -> torch.Tensor:
        widths.add(rows.shape[0])
        return batched(decoder, rows, *args, **options)

    monkeypatch.setattr(GlmDecoder, "forward_batch", forward_batch)
    requests = [make_request(variant=i, budget=9 + 4 * i) for i in range(3)]
    asked = DecodeConfig(strategy=strategy, max_new_tokens=32)
    expected = batcher.generate_batch(requests, asked)
    assert widths == plain
    widths.clear()
    monkeypatch.setattr(step, "fewest_rows", 4)
    got = batcher.generate_batch(requests, asked)
    assert widths == {4}
    for one, other in zip(expected, got, strict=True):
        assert one.trace is not None and other.trace is not None
        assert (one.token_ids, one.trace.counters) == (other.token_ids, other.trace.counters)


@pytest.mark.parametrize("asked", [[causal(1)] * 2, [causal(2)], [block(2)]])
@torch.inference_mode()
def test_padding_changes_no_logit_and_no_cached_row(
    batcher: TransformersLocal, make_request: Maker, asked: list[Mask], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = batcher.step_model
    windows = [Window(ids(step, len(mask.vis), 3 + i), mask) for i, mask in enumerate(asked)]
    outcomes = []
    for fewest in (1, 4):
        monkeypatch.setattr(step, "fewest_rows", fewest)
        states = [begin(step, make_request(variant=i)) for i in range(len(windows))]
        reply = step.forward(states, [Step("verify", own) for own in windows])
        found = [Rows(reply, i).logits().clone() for i in range(len(windows))]
        for state, mask in zip(states, asked, strict=True):
            step.keep(state, len(mask.vis))
        outcomes.append(found + [state.cache.snapshot() for state in states])
        for state in states:
            step.release(state)
    for plain, padded in zip(*outcomes, strict=True):
        torch.testing.assert_close(padded, plain, atol=ATOL, rtol=0)


def recording(batcher: TransformersLocal, record: Recorder) -> GlmStepModel:
    """The model on a cache of its own, with recorded forwards."""
    model = copy.copy(batcher.step_model)
    model.pool = model.decoder.new_pool()
    model.graphs = GraphedForwards(model.decoder, model.pool, record=record)
    return model


class OneOutput:
    """A recorder that repeats its work into tensors that it reuses, as recordings on one memory pool may."""

    def __init__(self) -> None:
        self.replays = 0
        self._outputs: dict[torch.Size, torch.Tensor] = {}

    def __call__(self, work: Work) -> Work:
        def replay() -> Outputs:
            self.replays += 1
            out = work()
            return Outputs(self._kept(out.logits), self._kept(out.hidden), tuple(map(self._kept, out.taps)))

        return replay

    def _kept(self, found: torch.Tensor) -> torch.Tensor:
        return self._outputs.setdefault(found.shape, torch.empty_like(found)).copy_(found)


@pytest.mark.parametrize("strategy", ["ar", "selfspec:block=4", "ar:batch=3", "selfspec:block=8,batch=2"])
def test_recorded_forwards_give_the_ids_and_counters_of_plain_ones(
    batcher: TransformersLocal, make_request: Maker, strategy: str
) -> None:
    """The recorder here only repeats its work, so this shows all that is not CUDA's own."""
    recorded = OneOutput()
    plain = batcher.step_model
    model = recording(batcher, recorded)
    requests = [make_request(variant=i, budget=12 + 21 * i) for i in range(4)]
    decode = DecodeConfig(strategy=strategy, max_new_tokens=64)
    expected = batcher.generate_batch(requests, decode)
    batcher.step_model = model
    try:
        for again in range(2):
            got = batcher.generate_batch(requests, decode)
            for g, e in zip(got, expected, strict=True):
                assert g.trace is not None and e.trace is not None
                assert (g.token_ids, g.stop_reason) == (e.token_ids, e.stop_reason)
                assert (g.trace.counters, g.trace.rounds) == (e.trace.counters, e.trace.rounds)
            assert recorded.replays == 0 if again == 0 else recorded.replays > 10
            batcher.settle()
            recorded.replays = 0
            if again == 0:
                first = model.graphs.shapes
        assert model.graphs.shapes == first != ()  # the second pass replayed them all
    finally:
        batcher.step_model = plain


@torch.inference_mode()
def test_a_recording_that_gives_other_numbers_is_refused(
    batcher: TransformersLocal, make_request: Maker
) -> None:
    for record in (off_by_one, frozen):
        model = recording(batcher, record)
        state = begin(model, make_request(variant=0))
        logits_of(model, state, causal_window([1, 2]))
        model.release(state)
        with pytest.raises(EngineError, match="off by"):
            model.settle()


@torch.inference_mode()
def test_a_recording_that_writes_no_keys_and_values_is_refused(
    batcher: TransformersLocal, make_request: Maker
) -> None:
    def forgets(work: Work) -> Work:
        def replay() -> Outputs:
            out = work()
            model.pool.rows.zero_()
            return out

        return replay

    model = recording(batcher, forgets)
    state = begin(model, make_request(variant=0))
    logits_of(model, state, causal_window([1, 2]))
    model.release(state)
    with pytest.raises(EngineError, match="off by"):
        model.settle()


def off_by_one(work: Work) -> Work:
    """A recording whose logits are others."""
    return lambda: (out := work())._replace(logits=out.logits + 1)


def frozen(work: Work) -> Work:
    """A recording that ignores what it is filled with."""
    once = Outputs(*(part.clone() if isinstance(part, torch.Tensor) else part for part in work()))
    return lambda: once


@torch.inference_mode()
def test_a_shape_that_cannot_be_recorded_is_an_engine_error(
    batcher: TransformersLocal, make_request: Maker
) -> None:
    def fails(_: Work) -> Work:
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    model = recording(batcher, fails)
    logits_of(model, begin(model, make_request(variant=0)), causal_window([1]))
    with pytest.raises(
        EngineError, match=r"1 x 1 rows and 256 keys cannot be recorded: operation not permitted when"
    ):
        model.settle()


@torch.inference_mode()
def test_recordings_are_forgotten_when_the_cache_moves(
    batcher: TransformersLocal, make_request: Maker
) -> None:
    model = recording(batcher, lambda work: work)
    state = begin(model, make_request(variant=0))
    before = logits_of(model, state, causal_window([1])).clone()
    length = state.cache.length
    kept = state.cache.snapshot()
    model.settle()  # writes into the slots, which is why it is called between requests
    model.pool.rows[:, :, :, state.cache.slot, :length] = kept
    assert len(model.graphs.shapes) == 1
    model.pool.claim(5000)
    model.pool.release(model.pool.in_use[-1])
    after = logits_of(model, state, causal_window([1]))
    assert model.graphs.shapes == ()
    torch.testing.assert_close(after, before, atol=ATOL, rtol=0)


@pytest.mark.parametrize(
    ("needed", "capacity", "keys"), [(1, 4096, 512), (513, 4096, 1024), (700, 768, 768), (300, 256, 300)]
)
def test_key_counts_are_few(needed: int, capacity: int, keys: int) -> None:
    assert rounded_keys(needed, capacity=capacity) == keys


def test_cuda_graphs_need_a_cuda_device(checkpoint: Path) -> None:
    with pytest.raises(UsageError, match="cuda_graphs on device 'cpu'"):
        TransformersLocal(checkpoint, cuda_graphs=True)


def test_a_broken_image_costs_no_other_request_of_its_batch(
    batcher: TransformersLocal, make_request: Maker, tmp_path: Path
) -> None:
    good = [make_request(variant=i, budget=10) for i in range(3)]
    bad = good[0].model_copy(update={"request_id": "bad", "image_path": str(tmp_path / "none.png")})
    got = batcher.generate_batch(
        [good[0], bad, good[1], good[2]], DecodeConfig(strategy="ar:batch=3", max_new_tokens=10)
    )
    assert [g.stop_reason == "error" for g in got] == [False, True, False, False]
    assert batcher.step_model.pool.in_use == []
