"""Requests that decode together give what each gives alone: tokens, counters, rounds and stop reasons."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.backends.toy import EOS, ToyModel, ToyState, ToyTable
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs, decode_request, shares
from gravbench.decoding.protocols import RequestError
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import Clock, TraceRecorder
from gravbench.decoding.window import Step
from gravbench.records import Request, Trace

LONG = tuple(2 + i * 7 % 90 for i in range(90))


def request(name: str) -> Request:
    return Request(request_id=name, sample_id=name, task="text", image_path="none", max_new_tokens=1)


class WatchedToy(ToyModel):
    """Counts its forwards and who is under way; refuses some requests; breaks at a chosen call."""

    def __init__(
        self,
        scripts: Sequence[tuple[int, ...]],
        *,
        faulty: Sequence[str] = (),
        clock: list[int] | None = None,
        **table: object,
    ) -> None:
        by_name = {str(i): script for i, script in enumerate(scripts)}
        super().__init__(ToyTable.model_validate(table), script_of=lambda ask: by_name[ask.sample_id])
        self.faulty, self.clock = faulty, clock
        self.sizes: list[int] = []
        self.open = 0
        self.breaks: dict[str, int] = {}

    def called(self, name: str) -> None:
        """A unit of work: the clock moves, and the call may be the one that breaks."""
        if self.clock is not None:
            self.clock[0] += 7
        self.breaks[name] = self.breaks.get(name, 0) - 1
        if self.breaks[name] == 0:
            raise RuntimeError(f"{name} broke")

    def prefill(self, request: Request, *, budget: int, trace: TraceRecorder) -> tuple[ToyState, Rows]:
        if request.sample_id in self.faulty:
            raise RequestError(f"{request.sample_id}: no such image")
        self.open += 1
        self.called("prefill")
        return super().prefill(request, budget=budget, trace=trace)

    def room(self, state: ToyState) -> int:
        self.called("room")
        return super().room(state)

    def forward(self, states: Sequence[ToyState], steps: Sequence[Step]) -> Reply:
        self.called("forward")
        self.sizes.append(len(states))
        return super().forward(states, steps)

    def release(self, state: ToyState) -> None:
        self.open -= 1
        super().release(state)

    def abandon(self) -> None:
        self.open = 0
        super().abandon()


def together(
    model: ToyModel, budgets: Sequence[int], strategy: str, batch: int, clock: Clock = lambda: 0
) -> list[tuple[Decoded | RequestError, Trace | None]]:
    jobs = [
        Job(request=request(str(i)), budget=budget, trace=TraceRecorder(clock))
        for i, budget in enumerate(budgets)
    ]
    found = decode_jobs(model, jobs, strategy=parse_strategy(strategy), batch=batch)
    return [
        (a, job.trace.finish(tokens_out=len(a.tokens)) if isinstance(a, Decoded) else None)
        for a, job in zip(found, jobs, strict=True)
    ]


def alone(model: ToyModel, name: int, budget: int, strategy: str) -> tuple[Decoded, Trace]:
    trace = TraceRecorder(lambda: 0)
    decoded = decode_request(
        model, request(str(name)), strategy=parse_strategy(strategy), budget=budget, trace=trace
    )
    return decoded, trace.finish(tokens_out=len(decoded.tokens))


@given(
    work=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 50)), min_size=1, max_size=9),
    batch=st.integers(1, 10),
    strategy=st.sampled_from(["ar", "selfspec:block=1", "selfspec:block=5", "selfspec:block=4,legacy=1"]),
    wrong_positions=st.sets(st.integers(0, 45)),
)
def test_a_batch_gives_what_single_runs_give(
    work: list[tuple[int, int]], batch: int, strategy: str, wrong_positions: set[int]
) -> None:
    scripts = [(*LONG[i : i + length], EOS) for i, (length, _) in enumerate(work)]
    model = WatchedToy(scripts, wrong_positions=tuple(wrong_positions))
    got = together(model, [budget for _, budget in work], strategy, batch)
    assert model.open == 0 and max(model.sizes, default=1) <= batch
    assert [without_shares(*found) for found in got] == [
        without_shares(*alone(model, i, budget, strategy)) for i, (_, budget) in enumerate(work)
    ]


def without_shares(answer: Decoded | RequestError, trace: Trace | None) -> tuple[object, object]:
    """What must not depend on who else was under way."""
    return answer, trace and (trace.counters, trace.rounds)


def test_the_batch_is_filled_up_as_requests_finish() -> None:
    lengths = (3, 30, 3, 30, 3, 30)
    model = WatchedToy([(*LONG[:length], EOS) for length in lengths])
    traces = [t for _, t in together(model, [60] * 6, "ar", 2) if t is not None]
    # one lane takes 3 + 3 + 30 tokens, the other 30 + 3 and then the last 30, alone from the 36th turn on
    assert model.sizes == [2] * 36 + [1] * 27
    assert sum(t.times.forward_share or 0 for t in traces) == pytest.approx(len(model.sizes))


def test_a_request_that_cannot_be_decoded_costs_no_other() -> None:
    model = WatchedToy([(*LONG[:9], EOS)] * 4, faulty=("0", "2"))
    got = [answer for answer, _ in together(model, [20] * 4, "selfspec:block=4", 2)]
    assert isinstance(got[0], RequestError) and isinstance(got[2], RequestError)
    assert got[1] == got[3] == alone(model, 1, 20, "ar")[0]
    assert model.open == 0


@pytest.mark.parametrize(
    ("name", "call"),
    [("prefill", 1), ("prefill", 3), ("room", 2), ("forward", 1), ("forward", 4)],
)
def test_an_engine_fault_poisons_no_later_batch(name: str, call: int) -> None:
    model = WatchedToy([(*LONG[:9], EOS)] * 4)
    expected = together(model, [20] * 4, "ar", 3)
    model.breaks = {name: call}
    with pytest.raises(RuntimeError, match=f"{name} broke"):
        together(model, [20] * 4, "ar", 3)
    assert model.open == 0
    assert together(model, [20] * 4, "ar", 3) == expected


def test_the_times_of_a_batch_sum_to_wall_time() -> None:
    clock = [0]
    model = WatchedToy([(*LONG[:length], EOS) for length in (1, 12, 30, 0)], clock=clock)
    found = together(model, [40] * 4, "ar", 2, clock=lambda: clock[0])
    traces = [t for _, t in found if t is not None]
    assert sum(t.times.total_ns or 0 for t in traces) == clock[0] > 0
    for trace in traces:
        times = trace.times
        assert (times.verify_ns or 0) == (times.decode_ns or 0) <= (times.total_ns or 0)


@given(total=st.integers(0, 10**12), parts=st.integers(1, 64))
def test_shares_sum_to_the_whole_and_are_equal_to_one(total: int, parts: int) -> None:
    found = shares(total, parts)
    assert sum(found) == total and max(found) - min(found) <= 1 and len(found) == parts


def test_no_requests_give_no_answers() -> None:
    assert decode_jobs(WatchedToy([]), [], strategy=parse_strategy("ar"), batch=4) == []
