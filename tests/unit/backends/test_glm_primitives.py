"""Every primitive a strategy may use, on the real decoder: masks, positions, keep, taps, noise, lanes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stock_model import cache_keyword, cache_of, stock_inputs, stock_model

from gravbench.backends.glm.batch import Outputs
from gravbench.backends.glm.graphs import GraphedForwards
from gravbench.backends.glm.step_model import GlmState, GlmStepModel
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.masks import Mask, block, causal, groups, tree, visible, window
from gravbench.decoding.rows import Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import PAD, Needs, Noise, Step, Wants, Window, causal_window
from gravbench.errors import UsageError
from gravbench.records import Request

ATOL = 5e-4
Maker = Callable[..., Request]
few = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module", params=["checkpoint", "grouped_checkpoint"])
def pair(request: pytest.FixtureRequest, make_request: Maker) -> SimpleNamespace:
    """The step model, and the stock model with its inputs for one request."""
    folder: Path = request.getfixturevalue(request.param)
    step, ask = TransformersLocal(folder).step_model, make_request(variant=3)
    stock = stock_model(folder)
    return SimpleNamespace(step=step, stock=stock, ask=ask, inputs=stock_inputs(step, stock, ask))


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


def begin(step: GlmStepModel, asks: Sequence[Request], needs: Needs | None = None) -> list[GlmState]:
    step.abandon()
    step.expect(len(asks), needs or Needs(rows_max=80))
    return [step.prefill(ask, budget=64, trace=TraceRecorder(lambda: 0))[0] for ask in asks]


def ids(step: GlmStepModel, count: int, start: int) -> list[int]:
    return [(7 * i + start) % step.info.vocab_size for i in range(count)]


def logits_of(step: GlmStepModel, state: GlmState, asked: Window) -> torch.Tensor:
    return step.forward([state], [Step("verify", asked)]).logits.clone()


def dense(pair: SimpleNamespace, asked: Window) -> torch.Tensor:
    """The stock model over the prefix and `asked`, with a dense 4-D mask: slow and obvious."""
    past = cache_of(pair.stock(**pair.inputs, use_cache=True))
    length, rows = pair.inputs["input_ids"].shape[1], len(asked.tokens)
    seen = torch.ones(1, 1, rows, length + rows, dtype=torch.bool)
    seen[0, 0, :, length:] = torch.tensor(visible(asked.mask))
    places = torch.tensor(list(asked.positions or range(rows)))
    found = pair.stock(
        input_ids=torch.tensor([list(asked.tokens)]),
        attention_mask=seen,
        position_ids=(places[None] + length + pair.stock.model.rope_deltas).expand(3, 1, -1),
        **{cache_keyword(): past},
    )
    logits: torch.Tensor = found.logits[0]
    return logits


@st.composite
def masks(draw: st.DrawFn, rows: int) -> Mask:
    """Any visibility in which a row sees itself."""
    return Mask(tuple(draw(st.integers(0, (1 << rows) - 1)) | 1 << row for row in range(rows)))


@st.composite
def windows(draw: st.DrawFn, most: int = 12) -> Window:
    rows = draw(st.integers(1, most))
    places = draw(st.one_of(st.none(), st.lists(st.integers(0, most), min_size=rows, max_size=rows)))
    tokens = draw(st.lists(st.integers(0, 300), min_size=rows, max_size=rows))
    return Window(tokens, draw(masks(rows)), positions=places)


@few
@given(asked=windows())
def test_any_mask_and_any_positions_give_the_logits_of_a_dense_masked_forward(
    pair: SimpleNamespace, asked: Window
) -> None:
    (state,) = begin(pair.step, [pair.ask])
    torch.testing.assert_close(logits_of(pair.step, state, asked), dense(pair, asked), atol=ATOL, rtol=0)


@pytest.mark.parametrize("rows", [63, 64, 65, 70])
def test_masks_of_more_than_one_word_are_whole(pair: SimpleNamespace, make_request: Maker, rows: int) -> None:
    asked = Window(ids(pair.step, rows, 3), tree([None, *(i // 2 for i in range(rows - 1))]))
    (state,) = begin(pair.step, [pair.ask])
    alone = logits_of(pair.step, state, asked)
    torch.testing.assert_close(alone, dense(pair, asked), atol=ATOL, rtol=0)
    states = begin(pair.step, [make_request(variant=1), pair.ask])
    reply = pair.step.forward(states, [Step("verify", causal_window([1, 2])), Step("verify", asked)])
    torch.testing.assert_close(Rows(reply, 1).logits(), alone, atol=ATOL, rtol=0)


@few
@given(asked=windows(), order=st.randoms(use_true_random=False))
def test_rows_may_stand_in_any_order_with_their_positions(
    pair: SimpleNamespace, asked: Window, order: object
) -> None:
    rows = len(asked.tokens)
    moved = list(range(rows))
    order.shuffle(moved)  # type: ignore[attr-defined]
    places = list(asked.positions or range(rows))
    vis = [sum((asked.mask.vis[i] >> k & 1) << at for at, k in enumerate(moved)) for i in moved]
    permuted = Window(
        [asked.tokens[i] for i in moved], Mask(tuple(vis)), positions=[places[i] for i in moved]
    )
    (state,) = begin(pair.step, [pair.ask])
    expected = logits_of(pair.step, state, asked)[moved]
    torch.testing.assert_close(logits_of(pair.step, state, permuted), expected, atol=ATOL, rtol=0)


@pytest.mark.parametrize("kept", range(6))
def test_keeping_the_first_slots_is_keeping_a_count(pair: SimpleNamespace, kept: int) -> None:
    snapshots = []
    for rows in (kept, list(range(kept))):
        (state,) = begin(pair.step, [pair.ask])
        logits_of(pair.step, state, causal_window(ids(pair.step, 5, 9)))
        pair.step.keep(state, rows)
        snapshots.append(state.cache.snapshot())
    torch.testing.assert_close(*snapshots, atol=0, rtol=0)


@few
@given(data=st.data(), rows=st.integers(2, 20))
def test_after_a_gather_the_next_row_is_that_of_a_fresh_prefill(
    pair: SimpleNamespace, data: st.DataObject, rows: int
) -> None:
    step = pair.step
    parents = [None, *(data.draw(st.integers(0, i)) for i in range(rows - 1))]
    depths = [0] * rows
    for i, parent in enumerate(parents):
        depths[i] = 0 if parent is None else depths[parent] + 1
    at: int | None = data.draw(st.integers(0, rows - 1))
    path: list[int] = []
    while at is not None:
        path.insert(0, at)
        at = parents[at]
    tokens = ids(step, rows, 11)
    (state,) = begin(step, [pair.ask])
    logits_of(step, state, Window(tokens, tree(parents), positions=depths))
    step.keep(state, path)
    snapshot = state.cache.snapshot()
    following = logits_of(step, state, causal_window([21]))
    (fresh,) = begin(step, [pair.ask])
    logits_of(step, fresh, causal_window([tokens[i] for i in path]))
    step.keep(fresh, len(path))
    torch.testing.assert_close(snapshot, fresh.cache.snapshot(), atol=ATOL, rtol=0)
    torch.testing.assert_close(following, logits_of(step, fresh, causal_window([21])), atol=ATOL, rtol=0)


def test_each_node_of_a_tree_says_what_a_causal_forward_of_its_path_says(pair: SimpleNamespace) -> None:
    step, parents = pair.step, [None, 0, 0, 1, 1, 2, 3, 6, 0, 7]
    paths: list[list[int]] = []
    for node, parent in enumerate(parents):
        paths.append([*(paths[parent] if parent is not None else ()), node])
    tokens = ids(step, len(parents), 13)
    (state,) = begin(step, [pair.ask])
    asked = Window(tokens, tree(parents), positions=[len(path) - 1 for path in paths])
    found = logits_of(step, state, asked)
    for node, path in enumerate(paths):
        (fresh,) = begin(step, [pair.ask])
        alone = logits_of(step, fresh, causal_window([tokens[at] for at in path]))
        torch.testing.assert_close(found[node], alone[-1], atol=ATOL, rtol=0)


@pytest.mark.parametrize("rows", [[1, 0], [0, 0], [3], [-1], 4, -1])
def test_rows_that_do_not_ascend_or_are_not_there_are_not_kept(pair: SimpleNamespace, rows: object) -> None:
    (state,) = begin(pair.step, [pair.ask])
    logits_of(pair.step, state, causal_window([1, 2, 3]))
    with pytest.raises(ValueError, match="cannot keep"):
        pair.step.keep(state, rows)


@few
@given(asked=st.lists(windows(), min_size=3, max_size=3), data=st.data())
def test_a_lane_depends_on_no_other_lanes_window_and_keep(
    pair: SimpleNamespace, make_request: Maker, asked: list[Window], data: st.DataObject
) -> None:
    step = pair.step
    asks = [make_request(variant=i) for i in range(3)]
    kept = [data.draw(st.lists(st.integers(0, len(w.tokens) - 1), unique=True).map(sorted)) for w in asked]
    alone = []
    for ask, one, rows in zip(asks, asked, kept, strict=True):
        (state,) = begin(step, [ask])
        first = logits_of(step, state, one)
        step.keep(state, rows)
        alone.append((first, logits_of(step, state, causal_window([4, 5]))))
    states = begin(step, asks)
    reply = step.forward(states, [Step("verify", one) for one in asked])
    for i, (first, _) in enumerate(alone):
        torch.testing.assert_close(Rows(reply, i).logits(), first, atol=ATOL, rtol=0)
    for state, rows in zip(states, kept, strict=True):
        step.keep(state, rows)
    reply = step.forward(states, [Step("verify", causal_window([4, 5]))] * 3)
    for i, (_, second) in enumerate(alone):
        torch.testing.assert_close(Rows(reply, i).logits(), second, atol=ATOL, rtol=0)


@few
@given(asked=st.lists(windows(), min_size=1, max_size=3), data=st.data())
def test_logits_of_wanted_rows_are_those_of_all_rows(
    pair: SimpleNamespace, make_request: Maker, asked: list[Window], data: st.DataObject
) -> None:
    step = pair.step
    states = begin(step, [make_request(variant=i) for i in range(len(asked))])
    wanted = [data.draw(st.lists(st.integers(0, len(w.tokens) - 1), unique=True).map(sorted)) for w in asked]
    reply = step.forward(states, [Step("verify", one) for one in asked])
    every = [Rows(reply, i).logits(rows).clone() for i, rows in enumerate(wanted)]
    reply = step.forward(
        states, [Step("verify", w, Wants(rows=rows)) for w, rows in zip(asked, wanted, strict=True)]
    )
    for i, rows in enumerate(wanted):
        lane = Rows(reply, i)
        torch.testing.assert_close(lane.logits(rows), every[i], atol=ATOL, rtol=0)
        assert lane.tokens == every[i].argmax(-1).tolist()


def test_taps_and_hidden_states_are_the_stock_models_and_change_no_logit(pair: SimpleNamespace) -> None:
    step = pair.step
    asked = Window(ids(step, 9, 3), window(1, 9))
    (state,) = begin(step, [pair.ask])
    plain, one = logits_of(step, state, asked), logits_of(step, state, causal_window([8]))
    needs = Needs(rows_max=9, taps=(0, 1), hidden=True)
    step.expect(1, needs)
    step.abandon()
    state, prefix = step.prefill(pair.ask, budget=64, trace=TraceRecorder(lambda: 0))
    expected = pair.stock(**pair.inputs, output_hidden_states=True).hidden_states
    every = range(len(prefix))
    torch.testing.assert_close(prefix.taps(every)[:, 0], expected[1][0], atol=ATOL, rtol=0)
    torch.testing.assert_close(prefix.hidden(every), expected[-1][0], atol=ATOL, rtol=0)
    for tapped, without in ((asked, plain), (causal_window([8]), one)):
        reply = step.forward([state], [Step("verify", tapped)])
        assert torch.equal(reply.logits, without)
        rows = Rows(reply)
        states_ = rows.hidden(range(len(rows)))
        torch.testing.assert_close(states_ @ pair.stock.lm_head.weight.T, without, atol=ATOL, rtol=0)
        assert rows.taps([0]).shape == (1, 2, step.decoder.geometry.width)
    with pytest.raises(ValueError, match="rows"):
        Rows(reply).hidden([1])


def test_a_batch_taps_what_single_requests_tap(pair: SimpleNamespace, make_request: Maker) -> None:
    step, needs = pair.step, Needs(rows_max=9, taps=(1,), hidden=True)
    asks = [make_request(variant=i) for i in range(3)]
    asked = [Window(ids(step, n, 3), block(n)) for n in (4, 9, 1)]
    alone = []
    for ask, one in zip(asks, asked, strict=True):
        (state,) = begin(step, [ask], needs)
        rows = Rows(step.forward([state], [Step("verify", one)]))
        alone.append((rows.taps(range(len(rows))), rows.hidden(range(len(rows)))))
    reply = step.forward(begin(step, asks, needs), [Step("verify", one) for one in asked])
    for i, (taps, hidden) in enumerate(alone):
        lane = Rows(reply, i)
        torch.testing.assert_close(lane.taps(range(len(lane))), taps, atol=ATOL, rtol=0)
        torch.testing.assert_close(lane.hidden(range(len(lane))), hidden, atol=ATOL, rtol=0)


def test_what_was_not_needed_is_not_given(pair: SimpleNamespace) -> None:
    (state,) = begin(pair.step, [pair.ask])
    rows = Rows(pair.step.forward([state], [Step("verify", causal_window([1]))]))
    with pytest.raises(ValueError, match="hidden"):
        rows.hidden([0])
    with pytest.raises(ValueError, match="tapped"):
        rows.taps([0])


@pytest.mark.parametrize(
    "needs", [Needs(rows_max=1, taps=(2,)), Needs(rows_max=1, head="none"), Needs(rows_max=1, noise=True)]
)
def test_a_need_that_the_checkpoint_cannot_meet_is_refused(pair: SimpleNamespace, needs: Needs) -> None:
    with pytest.raises(UsageError):
        pair.step.expect(1, needs)


def with_embedder(step: GlmStepModel) -> GlmStepModel:
    """The model with a noise embedder that puts token round(10 u) in place of the noise."""
    model = copy.copy(step)
    model.pool = model.decoder.new_pool()
    model._embedder = lambda noise: step.decoder.embed((10 * noise[:, 0]).round().long())
    return model


def test_a_noise_row_is_what_the_embedder_makes_of_it(pair: SimpleNamespace, make_request: Maker) -> None:
    model, needs = with_embedder(pair.step), Needs(rows_max=4, noise=True)
    noisy = Window((5, 6, PAD, PAD), causal(4), noise=(None, None, Noise(0.7, 1.0), Noise(0.3, 1.0)))
    (state,) = begin(model, [pair.ask], needs)
    expected = logits_of(model, state, causal_window((5, 6, 7, 3)))
    torch.testing.assert_close(logits_of(model, state, noisy), expected, atol=ATOL, rtol=0)
    states = begin(model, [make_request(variant=1), pair.ask], needs)
    reply = model.forward(states, [Step("denoise", causal_window([1])), Step("denoise", noisy)])
    torch.testing.assert_close(Rows(reply, 1).logits(), expected, atol=ATOL, rtol=0)


def test_scratch_rows_survive_until_a_keep_and_may_be_written_anew(
    pair: SimpleNamespace, make_request: Maker
) -> None:
    """A sub-block is forwarded alone: it sees the cache, itself, and what an earlier forward left."""
    step, tokens = pair.step, ids(pair.step, 8, 3)
    again = Window(tokens[4:6], Mask((0b0001_1111, 0b0011_1111)), positions=(4, 5), slots=(4, 5))
    (state,) = begin(step, [pair.ask])
    whole = logits_of(step, state, causal_window(tokens))
    torch.testing.assert_close(logits_of(step, state, again), whole[4:6], atol=ATOL, rtol=0)
    step.keep(state, 8)
    kept = state.cache.snapshot()
    first, second = begin(step, [make_request(variant=1), pair.ask])
    wide = Step("denoise", causal_window(ids(step, 8, 1)))
    step.forward([first, second], [wide, Step("denoise", causal_window(tokens))])
    reply = step.forward([first, second], [wide, Step("denoise", again)])  # padding must not write over them
    torch.testing.assert_close(Rows(reply, 1).logits(), whole[4:6], atol=ATOL, rtol=0)
    step.release(first)  # the slot moves, scratch and all
    step.keep(second, 8)
    torch.testing.assert_close(second.cache.snapshot(), kept, atol=ATOL, rtol=0)


def test_positions_beyond_what_was_reserved_are_refused(pair: SimpleNamespace, make_request: Maker) -> None:
    (state,) = begin(pair.step, [pair.ask])
    far = Window([1, 2], causal(2), positions=(0, state.cache.capacity))
    with pytest.raises(ValueError, match="cache rows needed"):
        logits_of(pair.step, state, far)
    states = begin(pair.step, [pair.ask, make_request(variant=1)])
    with pytest.raises(ValueError, match="cache rows needed"):
        pair.step.forward(states, [Step("verify", far), Step("verify", causal_window([1]))])


def test_recorded_forwards_serve_every_mask_position_slot_and_noise(
    pair: SimpleNamespace, make_request: Maker
) -> None:
    """One recording a shape, for all of it is data. The recorder here only repeats its work."""
    plain = with_embedder(pair.step)
    model = copy.copy(plain)
    model.pool = model.decoder.new_pool()
    replays = []

    def record(work: Callable[[], Outputs]) -> Callable[[], Outputs]:
        return lambda: (replays.append(1), work())[1]

    model.graphs = GraphedForwards(model.decoder, model.pool, record=record, embedder=plain._embedder)
    needs = Needs(rows_max=8, taps=(0,), hidden=True, noise=True)
    asks = [pair.ask, make_request(variant=1)]
    tokens = ids(plain, 8, 3)
    asked = [
        causal_window(tokens),
        Window(tokens, tree([None, 0, 0, 1, 1, 2, 2, 3]), positions=(0, 1, 1, 2, 2, 2, 2, 3)),
        Window(tokens, groups(2, [(1, 3), (2, 3)]), positions=(0, 1, 1, 2, 3, 2, 3, 4)),
        Window((1, PAD) * 4, block(8), noise=(None, Noise(0.4, 0.5)) * 4),
        Window(tokens, Mask(tuple(1 << 7 - i for i in range(8))), slots=tuple(range(7, -1, -1))),
    ]
    outcomes = []
    for step in (plain, model):
        for _ in range(2):
            states = begin(step, asks, needs)
            found = []
            for one in asked:
                reply = step.forward(
                    states, [Step("verify", one, Wants(rows=(0, 3))), Step("verify", asked[0])]
                )
                lane = Rows(reply, 0)
                found.append((lane.logits().clone(), lane.taps([1]), lane.hidden([2]), lane.tokens))
            for state in states:
                step.release(state)
            step.settle()
        outcomes.append(found)
    assert len(model.graphs.shapes) == 1 and len(replays) >= len(asked)
    for expected, got in zip(*outcomes, strict=True):
        for right, own in zip(expected[:3], got[:3], strict=True):
            torch.testing.assert_close(own, right, atol=ATOL, rtol=0)
        assert expected[3] == got[3]


def test_a_reply_reads_the_same_from_the_host_whatever_way_it_is_asked(pair: SimpleNamespace) -> None:
    (state,) = begin(pair.step, [pair.ask])
    rows = Rows(pair.step.forward([state], [Step("verify", causal_window(ids(pair.step, 5, 3)))]))
    logp = torch.log_softmax(rows.logits(), -1)
    top = rows.topk([1, 3], 4)
    assert [best[0] for best in top.tokens] == [rows.tokens[1], rows.tokens[3]]
    assert rows.logp([1], [top.tokens[0][2]]) == pytest.approx([top.logp[0][2]])
    assert rows.entropy([0, 4]) == pytest.approx((-(logp.exp() * logp).sum(-1))[[0, 4]].tolist(), abs=1e-4)
    assert rows.draw([2, 2], [7, 7])[0] == rows.draw([2], [7])[0]
    with pytest.raises(ValueError, match="of a window of 5"):
        rows.topk([5], 1)
