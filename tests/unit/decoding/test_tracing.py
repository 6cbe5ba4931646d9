"""The recorder counts by hand-known rounds and a scripted clock."""

import itertools

import pytest
from pydantic import ValidationError

from gravbench.decoding.tracing import TraceRecorder


def scripted_clock(step: int = 10):  # type: ignore[no-untyped-def]
    ticks = itertools.count(0, step)
    return lambda: next(ticks)


def test_counts_and_times_of_one_round() -> None:
    trace = TraceRecorder(scripted_clock())
    trace.prefilled(prompt_tokens=3, vision_tokens=4, vision_forwards=1)
    trace.forward("draft", 5, 10)
    trace.forward("verify", 5, 10)
    trace.spent("decode", 50)
    trace.kept(4)
    trace.committed(produced=5, committed=2)
    trace.round(offered=4, accepted=3, seeds=1, extra=2)
    built = trace.finish(tokens_out=3)
    c = built.counters
    assert (c.fwd_draft, c.fwd_verify, c.rows_draft, c.rows_verify, c.fwd_prefill, c.fwd_vision) == (
        1,
        1,
        5,
        5,
        1,
        1,
    )
    assert (c.rows_prefill, c.prompt_tokens, c.vision_tokens) == (7, 3, 4)
    assert (c.draft_offered, c.draft_accepted, c.ar_tokens, c.tokens_discarded_after_stop) == (4, 3, 2, 3)
    assert c.kv_rows_freed == 6
    assert built.rounds is not None
    assert built.rounds.forwards == {"draft": (1,), "verify": (1,)} and built.rounds.model_forwards == (2,)
    assert (built.rounds.seeds, built.rounds.extra, built.rounds.nodes) == ((1,), (2,), None)
    assert (built.times.draft_ns, built.times.verify_ns, built.times.decode_ns) == (10, 10, 50)


def test_what_was_not_timed_is_none() -> None:
    times = TraceRecorder(scripted_clock()).finish(tokens_out=1).times
    assert times.draft_ns is None and times.decode_ns is None


def test_a_request_of_one_token_has_no_rounds() -> None:
    built = TraceRecorder(scripted_clock()).finish(tokens_out=1)
    assert built.counters.rounds == 0 and built.rounds is not None and built.rounds.count == 0


def test_counts_that_do_not_add_up_are_refused() -> None:
    trace = TraceRecorder(scripted_clock())
    trace.committed(produced=1, committed=1)
    trace.round(extra=1)
    with pytest.raises(ValidationError, match="decode tokens are 4"):
        trace.finish(tokens_out=5)


def test_a_stage_that_fails_is_still_timed() -> None:
    trace = TraceRecorder(scripted_clock())
    with pytest.raises(RuntimeError), trace.stage("image"):
        raise RuntimeError
    assert trace.finish(tokens_out=0).times.image_ns == 10


def test_a_small_head_is_counted_apart_and_a_strategy_keeps_counts_of_its_own() -> None:
    trace = TraceRecorder(scripted_clock())
    trace.forward("head", 3, 10)
    trace.forward("verify", 5, 20)
    trace.read("verify", 2)
    trace.count("match_found")
    trace.count("match_len", 4)
    trace.committed(produced=2, committed=2)
    trace.round(offered=4, accepted=1, extra=1, nodes=5)
    built = trace.finish(tokens_out=3)
    c = built.counters
    assert (c.fwd_head, c.rows_head, c.decode_forwards, c.kv_rows_freed) == (1, 3, 1, 5)
    assert (built.times.head_ns, built.times.verify_ns, built.times.forward_share) == (10, 22, 1.0)
    assert built.rounds is not None and built.rounds.nodes == (5,) and c.tree_nodes == 5
    assert built.rounds.model_forwards == (1,) and built.rounds.forwards["head"] == (1,)
    assert c.own == {"match_found": 1, "match_len": 4}


def test_a_round_that_commits_more_than_its_strategy_says_is_refused() -> None:
    trace = TraceRecorder(scripted_clock())
    trace.committed(produced=3, committed=3)
    trace.round(offered=4, accepted=1, extra=1)
    with pytest.raises(ValidationError, match="impossible round"):
        trace.finish(tokens_out=4)
