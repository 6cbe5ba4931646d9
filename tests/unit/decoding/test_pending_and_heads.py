"""Pending rows and small heads through the decode loop: the contract, with strategies of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategy_support import LONG

from gravbench.backends.toy import EOS, VOCAB_SIZE, ToyModel, ToyState, ToyTable
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.ar import Autoregressive
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs
from gravbench.decoding.drafting import matched_prefix
from gravbench.decoding.masks import causal
from gravbench.decoding.output import Output
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import NOTHING, PAD, Needs, Noise, Step, Wants, Window, causal_window
from gravbench.errors import UsageError
from gravbench.records import Request, Trace


def request(name: str) -> Request:
    return Request(request_id=name, sample_id=name, task="text", image_path="none", max_new_tokens=1)


def decode(
    model: ToyModel, strategy: Strategy, budgets: Sequence[int], batch: int
) -> list[tuple[tuple[int, ...], Trace]]:
    jobs = [
        Job(request=request(str(i)), budget=budget, trace=TraceRecorder(lambda: 0))
        for i, budget in enumerate(budgets)
    ]
    answers = decode_jobs(model, jobs, strategy=strategy, batch=batch)
    found = []
    for job, answer in zip(jobs, answers, strict=True):
        assert isinstance(answer, Decoded)
        found.append((answer.tokens, job.trace.finish(tokens_out=len(answer.tokens))))
    return found


@dataclass(frozen=True, slots=True)
class PushForward(Strategy):
    """k hints a forward, committed unverified; the committed ones wait for the next forward to be cached."""

    k: int = 3

    def needs(self, info: ModelInfo) -> Needs:  # noqa: ARG002
        return Needs(rows_max=2 * self.k, noise=True)

    def round(self, lane: Lane[StateT]) -> Round:
        pending = lane.carried or [lane.output.boundary]
        rows = yield Step(
            "denoise",
            Window(
                [*pending, *[PAD] * self.k],
                causal(len(pending) + self.k),
                noise=[None] * len(pending) + [Noise(0.5, 0.0)] * self.k,
            ),
            Wants(rows=range(len(pending), len(pending) + self.k)),
        )
        lane.keep(len(pending))
        lane.carried = rows.tokens
        lane.commit(rows.tokens)
        lane.trace.round(extra=self.k)

    def settle(self, lane: Lane[StateT]) -> Round:
        pending, lane.carried = lane.carried or [], None
        if len(pending) > 1:
            rows = yield Step("cache_write", causal_window(pending[:-1]), NOTHING)
            assert rows.tokens == []
            lane.keep(len(pending) - 1)


@dataclass(frozen=True, slots=True)
class Alternating(Strategy):
    """A push-forward round and one of autoregression in turn, settled between them."""

    push: PushForward = field(default_factory=PushForward)

    def needs(self, info: ModelInfo) -> Needs:
        return self.push.needs(info)

    def round(self, lane: Lane[StateT]) -> Round:
        if lane.carried is None:
            yield from self.push.round(lane)
        else:
            yield from self.push.settle(lane)
            yield from Autoregressive().round(lane)


@given(
    work=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 50)), min_size=1, max_size=5),
    batch=st.integers(1, 5),
    k=st.integers(1, 5),
)
def test_rows_left_pending_are_settled_before_another_strategy_goes_on(
    work: list[tuple[int, int]], batch: int, k: int
) -> None:
    scripts = [(*LONG[i : i + length], EOS) for i, (length, _) in enumerate(work)]
    model = ToyModel(ToyTable(wrong_positions=()), script_of=lambda ask: scripts[int(ask.sample_id)])
    for strategy in (PushForward(k), Alternating(PushForward(k))):
        found = decode(model, strategy, [budget for _, budget in work], batch)
        for (tokens, trace), script, (_, budget) in zip(found, scripts, work, strict=True):
            assert tokens == script[:budget]
            assert trace.rounds is not None and set(trace.rounds.extra) <= {k, 1}


def test_a_strategy_that_forgets_to_settle_goes_wrong() -> None:
    """The negative control: autoregression on top of pending rows sees a gap in the cache."""

    class Forgetful(Alternating):
        def round(self, lane: Lane[StateT]) -> Round:
            if lane.carried is None:
                yield from self.push.round(lane)
            else:
                lane.carried = None
                yield from Autoregressive().round(lane)

    model = ToyModel(ToyTable(wrong_positions=()), script_of=lambda _: (*LONG[:30], EOS))
    ((tokens, _),) = decode(model, Forgetful(), [31], 1)
    assert tokens != (*LONG[:30], EOS)


@torch.inference_mode()
def test_a_settled_cache_of_the_real_model_is_that_of_a_fresh_prefill(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    step, ask, push = backend.step_model, make_request(variant=2), PushForward(4)
    step._embedder = lambda noise: step.decoder.embed((100 * noise[:, 0]).long())
    try:
        step.abandon()
        step.expect(1, push.needs(step.info))
        state, prefix = step.prefill(ask, budget=40, trace=TraceRecorder(lambda: 0))
        output = Output((), budget=14)
        output.extend(prefix.tokens)
        lane = Lane(model=step, request=ask, state=state, output=output, trace=TraceRecorder(lambda: 0))

        def drive(under_way: Round) -> None:
            with suppress(StopIteration):
                asked = next(under_way)
                while True:
                    asked = under_way.send(Rows(step.forward([state], [asked])))

        for _ in range(3):
            drive(push.round(lane))
        drive(push.settle(lane))
        snapshot = state.cache.snapshot()
        step.abandon()
        fresh, _ = step.prefill(ask, budget=40, trace=TraceRecorder(lambda: 0))
        step.forward([fresh], [Step("cache_write", causal_window(output.tokens[:-1]), NOTHING)])
        step.keep(fresh, len(output.tokens) - 1)
        torch.testing.assert_close(snapshot, fresh.cache.snapshot(), atol=1e-4, rtol=0)
    finally:
        step._embedder = None
        step.abandon()


class ScriptedHead:
    """A head that knows the script but errs at some positions. Holds, for each request, how many rows it has.

    Every hidden state it is given must be that of the row it extends: the toy's is the token predicted there.
    """

    def __init__(self, wrong: Sequence[int]) -> None:
        self.wrong = wrong
        self.rows: dict[int, int] = {}
        self.prefix: dict[int, int] = {}
        self.sizes: list[int] = []

    def prefill(self, state: ToyState, prefix: Rows) -> None:
        assert prefix.hidden([len(prefix) - 1]).tolist() == [[float(prefix.tokens[0])]]
        self.rows[id(state)] = self.prefix[id(state)] = len(prefix)

    def extend(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        for state, step in zip(states, steps, strict=True):
            assert step.features is not None
            assert len(step.features) == len(step.window.tokens)
            assert self.rows[id(state)] - self.prefix[id(state)] == len(state.cached) - len(step.features)
        return self.step(states, steps)

    def step(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        self.sizes.append(len(states))
        predicted = []
        for state, step in zip(states, steps, strict=True):
            first = self.rows[id(state)] - self.prefix[id(state)]
            self.rows[id(state)] += len(step.window.tokens)
            predicted.append([self._guess(state, first + i + 1) for i in range(len(step.window.tokens))])
        widths = [len(row) for row in predicted]
        starts = [sum(widths[:i]) for i in range(len(widths))]
        logits = torch.nn.functional.one_hot(
            torch.tensor([token for row in predicted for token in row]), VOCAB_SIZE
        ).float()
        return Reply(
            logits=logits, widths=widths, starts=starts, wanted=[s.wants.rows for s in steps], firsts=starts
        )

    def _guess(self, state: ToyState, position: int) -> int:
        token = state.script[position] if position < len(state.script) else EOS
        return (token + (position in self.wrong)) % VOCAB_SIZE

    def truncate(self, state: ToyState, rows: int) -> None:
        assert rows <= self.rows[id(state)]
        self.rows[id(state)] = rows

    def length(self, state: ToyState) -> int:
        return self.rows[id(state)]

    def release(self, state: ToyState) -> None:
        del self.rows[id(state)], self.prefix[id(state)]

    def abandon(self) -> None:
        self.rows.clear()


@dataclass(frozen=True, slots=True)
class Headed(Strategy):
    """The head drafts K tokens one by one from the model's hidden states; the model verifies them."""

    k: int = 3

    def needs(self, info: ModelInfo) -> Needs:  # noqa: ARG002
        return Needs(rows_max=self.k + 1, hidden=True, head="scripted")

    def round(self, lane: Lane[StateT]) -> Round:
        head = lane.model.head
        assert head is not None
        drafts: list[int] = []
        if lane.carried is not None:  # true rows of the last round, hidden states and tokens
            features, tokens = lane.carried
            rows = yield Step("head", causal_window(tokens), features=features)
            drafts = [rows.tokens[-1]]
        true_rows = head.length(lane.state)
        while drafts and len(drafts) < self.k:
            drafts.append((yield Step("head", causal_window(drafts[-1:]))).tokens[0])
        head.truncate(lane.state, true_rows)
        window = [lane.output.boundary, *drafts]
        rows = yield Step("verify", causal_window(window))
        accepted = matched_prefix(drafts, rows.tokens)
        committed = lane.commit(rows.tokens[: accepted + 1])
        lane.keep(committed)
        lane.carried = rows.hidden(range(committed)), window[:committed]
        lane.trace.round(extra=1, offered=len(drafts), accepted=accepted)


@given(
    work=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=5),
    batch=st.integers(1, 5),
    wrong=st.sets(st.integers(0, 30)),
)
def test_a_head_drafts_beside_the_model_alone_and_in_ragged_batches(
    work: list[tuple[int, int]], batch: int, wrong: set[int]
) -> None:
    scripts = [(*LONG[i : i + length], EOS) for i, (length, _) in enumerate(work)]
    budgets = [budget for _, budget in work]
    outcomes = []
    for size in (batch, 1):
        head = ScriptedHead(sorted(wrong))
        model = ToyModel(
            ToyTable(wrong_positions=()),
            script_of=lambda ask: scripts[int(ask.sample_id)],
            heads={"scripted": head},
        )
        found = decode(model, Headed(), budgets, size)
        assert not head.rows and max(head.sizes, default=0) <= size
        outcomes.append([(tokens, trace.counters, trace.rounds) for tokens, trace in found])
        assert [tokens for tokens, _ in found] == [s[:b] for s, b in zip(scripts, budgets, strict=True)]
        for _, trace in found:
            c = trace.counters
            assert c.decode_forwards == c.rounds  # the head's forwards are counted apart
            assert sum((trace.rounds.forwards.get("head", ())) if trace.rounds else ()) == c.fwd_head
    assert outcomes[0] == outcomes[1]


def test_a_head_that_is_not_there_is_refused_before_any_prefill() -> None:
    model = ToyModel(ToyTable(), script_of=lambda _: (EOS,))
    with pytest.raises(UsageError, match="scripted"):
        decode(model, Headed(), [4], 1)
