"""The one decode loop: prefill, then rounds of a strategy until EOS or the budget, for one or many requests.

Up to `batch` requests are under way together. Each turn runs one forward for all of them: a round asks
for its next window, and windows of different requests, drafts beside verifies, go into one batch. A
finished request leaves, the next one in line is prefilled and joins. With one request under way the
forward is the single-request one, so a batch of one is plain decoding.

Time that several requests spend together is divided equally among them, to the nanosecond: sums over
requests are wall time, and a ratio of sums compares throughput.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal

from gravbench.decoding.output import Output
from gravbench.decoding.protocols import RequestError, Round, StateT, Step, StepModel, Strategy
from gravbench.decoding.repetition import has_loop
from gravbench.decoding.tracing import Clock, TraceRecorder
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


@dataclass(slots=True, kw_only=True)
class _Lane(Generic[StateT]):
    """A request under way: the round it is in and the forward that round waits for."""

    index: int
    job: Job
    state: StateT
    output: Output
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
    waiting, lanes = iter(enumerate(jobs)), list[_Lane[StateT]]()
    clock = jobs[0].trace.clock
    model.expect(min(batch, len(jobs)))
    try:
        while True:
            _admit(model, waiting, lanes, answers, strategy=strategy, batch=batch)
            if not lanes:
                break
            for lane in _turn(model, lanes, strategy, clock):
                answers[lane.index] = _decoded(lane.output)
    except BaseException:
        model.abandon()
        raise
    return [answers[index] for index in range(len(jobs))]


def _admit(
    model: StepModel[StateT],
    waiting: Iterator[tuple[int, Job]],
    lanes: list[_Lane[StateT]],
    answers: dict[int, Decoded | RequestError],
    *,
    strategy: Strategy,
    batch: int,
) -> None:
    """Prefill requests in line until `batch` are under way; the time is each request's own."""
    while len(lanes) < batch:
        index, job = next(waiting, (None, None))
        if index is None or job is None:
            return
        try:
            with job.trace.stage("total"):
                window = strategy.widest_window(model.info)
                state, logits = model.prefill(job.request, budget=job.budget, window=window, trace=job.trace)
                output = Output(model.info.eos_token_ids, budget=min(job.budget, model.room(state)))
                output.extend((int(logits.argmax(-1)),))
        except RequestError as fault:
            answers[index] = fault
            continue
        lane = _Lane(index=index, job=job, state=state, output=output)
        if output.stop_reason is None:
            _begin_round(model, lane, strategy)
            lanes.append(lane)
        else:
            job.trace.spent("decode", 0)
            answers[index] = _decoded(output)
            model.release(state)


def _turn(
    model: StepModel[StateT], lanes: list[_Lane[StateT]], strategy: Strategy, clock: Clock
) -> list[_Lane[StateT]]:
    """One forward for every lane, and what follows from it; takes out and returns the lanes that are done.

    The last lane moves into the place of one that leaves, as its cache does: lanes stay in the order of
    their slots, so that the logits of a batch need not be put in order.
    """
    started = clock()
    if len(lanes) == 1:
        rows = [model.forward(lanes[0].state, lanes[0].step.window).argmax(-1).tolist()]
    else:
        states, windows = [lane.state for lane in lanes], [lane.step.window for lane in lanes]
        rows = model.forward_batch(states, windows).argmax(-1).tolist()
    forwarded = shares(clock() - started, len(lanes))
    under_way = list(lanes)
    for lane, tokens, share in zip(under_way, rows, forwarded, strict=True):
        width = len(lane.step.window.tokens)
        lane.job.trace.forward(lane.step.kind, width, share, requests=len(under_way))
        _go_on(model, lane, tokens[:width], strategy)
    done = [lane for lane in under_way if lane.output.stop_reason is not None]
    for lane in done:
        last = lanes.pop()
        if last is not lane:
            lanes[lanes.index(lane)] = last
        model.release(lane.state)
    for lane, share in zip(under_way, shares(clock() - started, len(under_way)), strict=True):
        lane.job.trace.spent("decode", share)
        lane.job.trace.spent("total", share)
    return done


def _go_on(model: StepModel[StateT], lane: _Lane[StateT], tokens: list[int], strategy: Strategy) -> None:
    """Hand a round its tokens; begin the next one when it ends before the request does."""
    try:
        lane.step = lane.round.send(tokens)
        return
    except StopIteration:
        pass
    if lane.output.stop_reason is None:
        _begin_round(model, lane, strategy)


def _begin_round(model: StepModel[StateT], lane: _Lane[StateT], strategy: Strategy) -> None:
    lane.round = strategy.round(model, lane.state, lane.output, lane.job.trace)
    lane.step = next(lane.round)


def _decoded(output: Output) -> Decoded:
    assert output.stop_reason is not None
    return Decoded(
        tokens=tuple(output.tokens), stop_reason=output.stop_reason, loop_flag=has_loop(output.tokens)
    )


def shares(total: int, parts: int) -> list[int]:
    """`total` in `parts` whole numbers that differ by at most one and sum to it."""
    each, more = divmod(total, parts)
    return [each + (index < more) for index in range(parts)]
