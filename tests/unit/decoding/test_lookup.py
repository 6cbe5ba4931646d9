"""`lookup` copies from the answer's past and changes no token."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_support import (
    LONG,
    check_identities,
    check_on_checkpoint,
    on_toy,
)

from gravbench.backends.toy import EOS
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.strategies import parse_strategy
from gravbench.errors import UsageError
from gravbench.records import Request

ROW = (7, 8, 9, 10, 11)


@settings(max_examples=50)
@given(
    script=st.lists(st.integers(2, 5), max_size=60),
    tokens=st.integers(1, 12),
    longest=st.integers(1, 5),
    budget=st.integers(1, 70),
)
def test_it_gives_the_tokens_of_ar_whatever_repeats(
    script: list[int], tokens: int, longest: int, budget: int
) -> None:
    whole = (*script, EOS)
    decoded, trace, _ = on_toy(whole, f"lookup:longest={longest},shortest=1,tokens={tokens}", budget=budget)
    assert decoded.tokens == whole[:budget]
    check_identities(trace)


def test_a_repeated_row_is_copied_whole_from_its_second_time_on() -> None:
    decoded, trace, rounds = on_toy((*ROW * 8, EOS), "lookup:longest=3,shortest=2,tokens=8")
    assert decoded.tokens == (*ROW * 8, EOS)
    full = [a for o, a in zip(rounds.offered, rounds.accepted, strict=True) if o]
    assert full[:3] == [8, 8, 8]  # longer than the row: the copy goes on with what it copied
    assert trace.counters.own["match_found"] == len(full)


def test_an_answer_that_never_repeats_costs_what_ar_costs() -> None:
    decoded, trace, rounds = on_toy((*LONG[:30], EOS), "lookup")
    c = trace.counters
    assert decoded.tokens == (*LONG[:30], EOS)
    assert (c.fwd_verify, c.rows_verify, c.draft_offered) == (30, 30, 0)
    assert set(rounds.offered) == {0} and c.own == {"match_found": 0, "match_len": 0}


def test_an_always_right_copy_commits_k_plus_1_a_round() -> None:
    _, _, rounds = on_toy((3,) * 80, "lookup:shortest=1,tokens=4", budget=41)
    assert rounds.committed[2:-1] == (5,) * (rounds.count - 3)
    assert set(rounds.extra) == {1} and set(rounds.seeds) == {0}


def test_options_that_contradict_each_other_are_refused(backend: TransformersLocal) -> None:
    with pytest.raises(UsageError, match="shortest is 5"):
        parse_strategy("lookup:longest=2,shortest=5").needs(backend.step_model.info)


def test_a_random_model_gives_the_ids_of_ar(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    traces = check_on_checkpoint(backend, make_request, "lookup:shortest=1,tokens=5")
    assert sum(trace.counters.draft_offered for trace in traces) > 0
