"""Requests -> generations: decode them, alone or together, and put text, tokens and trace into records."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gravbench.arms import parse_arm
from gravbench.decoding.decode_loop import Decoded, Job, decode_jobs
from gravbench.decoding.protocols import RequestError, StateT, StepModel
from gravbench.decoding.sampling import Draw, Law
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.temperature import temperature_of
from gravbench.decoding.tracing import Clock, TraceRecorder
from gravbench.records import DecodeConfig, Generation, Request


def answer_requests(
    model: StepModel[StateT],
    requests: Sequence[Request],
    decode: DecodeConfig,
    *,
    detokenize: Callable[[Sequence[int]], str],
    clock: Clock,
) -> list[Generation]:
    """Generations in the order of `requests`, as many together as the strategy's batch size says."""
    draw = draw_of(decode.strategy)
    jobs = [
        Job(
            request=request,
            budget=min(request.max_new_tokens, decode.max_new_tokens),
            trace=TraceRecorder(clock),
            draw=draw,
        )
        for request in requests
    ]
    strategy = parse_strategy(decode.strategy)
    found = decode_jobs(model, jobs, strategy=strategy, batch=parse_arm(decode.strategy).batch)
    return [_generation(job, answer, detokenize) for job, answer in zip(jobs, found, strict=True)]


def draw_of(arm: str) -> Draw | None:
    """The law and the seed that an arm draws tokens with; `None` where it takes the likeliest."""
    asked = temperature_of(arm)
    if asked.temperature is None:
        return None
    return Draw(Law(temperature=asked.temperature, top_k=asked.top_k, top_p=asked.top_p), asked.seed)


def _generation(
    job: Job, answer: Decoded | RequestError, detokenize: Callable[[Sequence[int]], str]
) -> Generation:
    """The record of one answer. What cannot be put into words is a fault of its request alone."""
    name = job.request.request_id
    if isinstance(answer, RequestError):
        return _failed(name, str(answer))
    try:
        with job.trace.stage("total"):
            text = detokenize(answer.tokens)
        return _complete(job, answer, text)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        return _failed(name, f"{type(error).__name__}: {' '.join(str(error).split())}")


def _failed(request_id: str, reason: str) -> Generation:
    return Generation(request_id=request_id, text="", token_ids=(), stop_reason="error", error=reason)


def _complete(job: Job, answer: Decoded, text: str) -> Generation:
    return Generation(
        request_id=job.request.request_id,
        text=text,
        token_ids=answer.tokens,
        stop_reason=answer.stop_reason,
        loop_flag=answer.loop_flag,
        trace=job.trace.finish(tokens_out=len(answer.tokens)),
    )
