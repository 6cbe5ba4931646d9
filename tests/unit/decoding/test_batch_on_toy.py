"""Requests that decode together give what each gives alone: tokens, counters, rounds and stop reasons."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gravbench.backends.toy import EOS, ToyModel, ToyState, ToyTable
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs, decode_request, shares
from gravbench.decoding.protocols import RequestError, Window
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import Clock, TraceRecorder
from gravbench.records import Request, Trace

LONG = tuple(2 + i * 7 % 90 for i in range(90))


def request(name: str) -> Request:
    return Request(request_id=name, sample_id=name, task="text", image_path="none", max_new_tokens=1)


class WatchedToy(ToyModel):
    """Remembers who is under way, and refuses some requests."""

    def __init__(self, scripts: Sequence[tuple[int, ...]], *, faulty: Sequence[str] = (), **table: object):
        by_name = {str(i): script for i, script in enumerate(scripts)}
        super().__init__(ToyTable.model_validate(table), script_of=lambda ask: by_name[ask.sample_id])
        self.faulty, self.widest, self.open = faulty, 0, 0

    def prefill(self, request: Request, **rest: object) -> tuple[ToyState, torch.Tensor]:  # type: ignore[override]
        if request.sample_id in self.faulty:
            raise RequestError(f"{request.sample_id}: no such image")
        self.open += 1
        return super().prefill(request, **rest)  # type: ignore[arg-type]

    def forward_batch(self, states: Sequence[ToyState], windows: Sequence[Window]) -> torch.Tensor:
        self.widest = max(self.widest, len(states))
        return super().forward_batch(states, windows)

    def release(self, state: ToyState) -> None:
        self.open -= 1
        super().release(state)


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
    assert got == [alone(model, i, budget, strategy) for i, (_, budget) in enumerate(work)]
    assert model.open == 0 and model.widest <= batch


def test_the_batch_is_filled_up_as_requests_finish() -> None:
    model = WatchedToy([(*LONG[:length], EOS) for length in (3, 30, 3, 30, 3, 30)])
    together(model, [60] * 6, "ar", 2)
    assert model.widest == 2


def test_a_request_that_cannot_be_decoded_costs_no_other() -> None:
    model = WatchedToy([(*LONG[:9], EOS)] * 4, faulty=("0", "2"))
    got = [answer for answer, _ in together(model, [20] * 4, "selfspec:block=4", 2)]
    assert isinstance(got[0], RequestError) and isinstance(got[2], RequestError)
    assert got[1] == got[3] == alone(model, 1, 20, "ar")[0]
    assert model.open == 0


def test_an_engine_fault_releases_every_request() -> None:
    class Breaks(WatchedToy):
        def forward_batch(self, *_: object) -> torch.Tensor:
            raise RuntimeError("broken")

    model = Breaks([(*LONG[:9], EOS)] * 3)
    with pytest.raises(RuntimeError):
        together(model, [20] * 3, "ar", 3)
    assert model.open == 0


def test_the_times_of_a_batch_sum_to_wall_time() -> None:
    ticks = itertools.count(0, 7)
    started = next(ticks)
    model = WatchedToy([(*LONG[:length], EOS) for length in (1, 12, 30)])
    traces = [t for _, t in together(model, [40] * 3, "ar", 3, clock=lambda: next(ticks)) if t is not None]
    wall = next(ticks) - started
    total = sum(t.times.total_ns or 0 for t in traces)
    # every tick is spent by somebody but those between two pieces of work
    assert 0.6 * wall < total <= wall
    for trace in traces:
        times = trace.times
        assert (times.verify_ns or 0) <= (times.decode_ns or 0) <= (times.total_ns or 0)


@given(total=st.integers(0, 10**12), parts=st.integers(1, 64))
def test_shares_sum_to_the_whole_and_are_equal_to_one(total: int, parts: int) -> None:
    found = shares(total, parts)
    assert sum(found) == total and max(found) - min(found) <= 1 and len(found) == parts


def test_no_requests_give_no_answers() -> None:
    assert decode_jobs(WatchedToy([]), [], strategy=parse_strategy("ar"), batch=4) == []
