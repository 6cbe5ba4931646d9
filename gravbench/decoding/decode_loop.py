"""The one decode loop: prefill, then rounds of a strategy until EOS or the budget, for one or many requests.

Up to `batch` requests are under way together. Each turn runs one forward for all of them: a round asks
for its next window, and windows of different requests, drafts beside verifies, go into one batch. A
finished request leaves, the next one in line is prefilled and joins. Steps of a small head come first, in
batches of their own, until every request waits for the model.

Time that several requests spend together is divided equally among them, to the nanosecond: sums over
requests are wall time, and a ratio of sums compares throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal

from gravbench.decoding.output import Output, has_loop
from gravbench.decoding.protocols import Lane, RequestError, Round, StateT, StepModel, Strategy
from gravbench.decoding.rows import Reply, Rows
from gravbench.decoding.sampling import Draw, key_of
from gravbench.decoding.tracing import Clock, TraceRecorder
from gravbench.decoding.window import Step
from gravbench.records import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What one request gave. `tokens` ends with EOS when `stop_reason` is eos."""

    tokens: tuple[int, ...]
    stop_reason: Literal["eos", "length"]
    loop_flag: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request with its budget in output tokens, the prefill's own token included, and its trace."""

    request: Request
    budget: int
    trace: TraceRecorder
    draw: Draw | None = None
    """How its tokens are drawn; `None`: the likeliest are taken."""


@dataclass(slots=True, kw_only=True)
class _UnderWay(Generic[StateT]):
    """A request under way: the round it is in and the forward that round waits for."""

    index: int
    lane: Lane[StateT]
    draw: Draw | None
    round: Round = field(init=False)
    step: Step = field(init=False)


def decode_request(
    model: StepModel[StateT], request: Request, *, strategy: Strategy, budget: int, trace: TraceRecorder
) -> Decoded:
    """Decode one request with at most `budget` output tokens, the prefill's own token included.

    The budget is cut to what the model's positions leave after the prefix, alike for every strategy;
    reaching either is `stop_reason="length"`. Raises `RequestError` when the request cannot be decoded.
    """
    job = Job(request=request, budget=budget, trace=trace)
    (found,) = decode_jobs(model, [job], strategy=strategy, batch=1)
    if isinstance(found, RequestError):
        raise found
    return found


def decode_jobs(
    model: StepModel[StateT], jobs: Sequence[Job], *, strategy: Strategy, batch: int
) -> list[Decoded | RequestError]:
    """Decode all jobs, up to `batch` of them together; answers in the order of `jobs`.

    A request that cannot be decoded gives its fault and costs no other.
    """
    if not jobs:
        return []
    answers: dict[int, Decoded | RequestError] = {}
    waiting, busy = iter(enumerate(jobs)), list[_UnderWay[StateT]]()
    clock = jobs[0].trace.clock
    model.expect(min(batch, len(jobs)), strategy.needs(model.info))
    try:
        while True:
            _admit(model, waiting, busy, answers, strategy=strategy, batch=batch)
            if not busy:
                break
            for one in _turn(model, busy, strategy, clock):
                answers[one.index] = _decoded(one.lane.output)
    except BaseException:
        model.abandon()
        raise
    return [answers[index] for index in range(len(jobs))]


def _admit(
    model: StepModel[StateT],
    waiting: Iterator[tuple[int, Job]],
    busy: list[_UnderWay[StateT]],
    answers: dict[int, Decoded | RequestError],
    *,
    strategy: Strategy,
    batch: int,
) -> None:
    """Prefill requests in line until `batch` are under way; the time is each request's own."""
    while len(busy) < batch:
        index, job = next(waiting, (None, None))
        if index is None or job is None:
            return
        try:
            with job.trace.stage("total"):
                lane = _prefilled(model, job)
        except RequestError as fault:
            answers[index] = fault
            continue
        one = _UnderWay(index=index, lane=lane, draw=job.draw)
        if lane.output.stop_reason is None:
            _begin_round(one, strategy)
            busy.append(one)
        else:
            job.trace.spent("decode", 0)
            answers[index] = _decoded(lane.output)
            _release(lane)


def _prefilled(model: StepModel[StateT], job: Job) -> Lane[StateT]:
    """The request in the cache of the model, and in that of its head, with its first token."""
    state, prefix = model.prefill(job.request, budget=job.budget, trace=job.trace)
    output = Output(model.info.eos_token_ids, budget=min(job.budget, model.room(state)))
    if job.draw is not None:
        first = key_of(job.draw.seed, job.request.request_id, 0)
        prefix.sample(job.draw.law, lambda: [first])
    output.extend(prefix.tokens)
    if model.head is not None:
        with job.trace.stage("prefill"):
            model.head.prefill(state, prefix)
    return Lane(model=model, request=job.request, state=state, output=output, trace=job.trace)


def _turn(
    model: StepModel[StateT], busy: list[_UnderWay[StateT]], strategy: Strategy, clock: Clock
) -> list[_UnderWay[StateT]]:
    """One forward, for all that wait for the head or else for all, and what follows from it.

    Takes out and returns those that are done. The last request moves into the place of one that leaves, as
    its cache does: they stay in the order of their slots, so that a batch need not be put in order.
    """
    started = clock()
    served = _served(busy)
    reply = _forward(model, served)
    forwarded = shares(clock() - started, len(served))
    for index, (one, share) in enumerate(zip(served, forwarded, strict=True)):
        step, trace = one.step, one.lane.trace
        trace.forward(step.kind, len(step.window.tokens), share, requests=len(served))
        rows = Rows(reply, index, clock=clock)
        if one.draw is not None and step.kind != "head":
            rows.sample(one.draw.law, partial(_keys, one.lane, one.draw, step, trace.cached + 1))
        _go_on(one, rows, strategy)
        if rows.spent_ns:
            trace.read(step.kind, rows.spent_ns)
    done = [one for one in served if one.lane.output.stop_reason is not None]
    for one in done:
        last = busy.pop()
        if last is not one:
            busy[busy.index(one)] = last
        _release(one.lane)
    for one, share in zip(served, shares(clock() - started, len(served)), strict=True):
        one.lane.trace.spent("decode", share)
        one.lane.trace.spent("total", share)
    return done


def _keys(lane: Lane[StateT], draw: Draw, step: Step, first: int) -> list[int]:
    """Keys of the wanted rows: each of the output index that it predicts, `first` for the first place."""
    window = step.window
    rows = range(len(window.tokens)) if step.wants.rows is None else step.wants.rows
    places = rows if window.positions is None else [window.positions[row] for row in rows]
    return [key_of(draw.seed, lane.request.request_id, first + place) for place in places]


def _served(busy: Sequence[_UnderWay[StateT]]) -> list[_UnderWay[StateT]]:
    """Whose steps make the next forward: those that extend the head as the first does, else all."""
    for one in busy:
        if one.step.kind == "head":
            break
    else:
        return list(busy)
    heads = [one for one in busy if one.step.kind == "head"]
    extends = heads[0].step.features is not None
    return [one for one in heads if (one.step.features is not None) == extends]


def _forward(model: StepModel[StateT], served: Sequence[_UnderWay[StateT]]) -> Reply:
    """The reply to all steps, with the greedy tokens read where any of them wants them."""
    states, steps = [one.lane.state for one in served], [one.step for one in served]
    if steps[0].kind != "head":
        reply = model.forward(states, steps)
    else:
        head = model.head
        assert head is not None, "a head step without Needs(head=...)"
        forward = head.step if steps[0].features is None else head.extend
        reply = forward(states, steps)
    if any(one.step.wants.tokens and one.draw is None for one in served):
        reply.read_tokens()
    return reply


def _go_on(one: _UnderWay[StateT], rows: Rows, strategy: Strategy) -> None:
    """Hand a round its rows; begin the next one when it ends before the request does."""
    try:
        one.step = one.round.send(rows)
        return
    except StopIteration:
        pass
    if one.lane.output.stop_reason is None:
        _begin_round(one, strategy)


def _begin_round(one: _UnderWay[StateT], strategy: Strategy) -> None:
    one.round = strategy.round(one.lane)
    one.step = next(one.round)


def _release(lane: Lane[StateT]) -> None:
    if lane.model.head is not None:
        lane.model.head.release(lane.state)
    lane.model.release(lane.state)


def _decoded(output: Output) -> Decoded:
    assert output.stop_reason is not None
    return Decoded(
        tokens=tuple(output.tokens), stop_reason=output.stop_reason, loop_flag=has_loop(output.tokens)
    )


def shares(total: int, parts: int) -> list[int]:
    """`total` in `parts` whole numbers that differ by at most one and sum to it."""
    if parts == 1:
        return [total]
    each, more = divmod(total, parts)
    return [each + (index < more) for index in range(parts)]
