"""Stop rule, budget, and the loop flag against a slow, obvious oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.decoding.output import LONGEST_UNIT, MIN_REPEATS, MIN_SPAN, Output, has_loop


def test_nothing_after_the_first_eos_is_committed() -> None:
    output = Output({7}, budget=10)
    assert output.extend([1, 7, 2, 7]) == 2
    assert (output.tokens, output.stop_reason) == ([1, 7], "eos")


def test_the_budget_cuts_a_round() -> None:
    output = Output({7}, budget=3)
    assert output.extend([1, 2, 3, 4]) == 3
    assert (output.tokens, output.stop_reason, output.remaining) == ([1, 2, 3], "length", 0)


def test_eos_as_the_last_token_of_the_budget_stops_for_eos() -> None:
    output = Output({7}, budget=2)
    output.extend([1, 7])
    assert output.stop_reason == "eos"


def test_any_of_several_eos_ids_stops() -> None:
    output = Output({7, 8}, budget=9)
    output.extend([8])
    assert output.stop_reason == "eos"


def test_a_token_ends_the_request_when_it_is_eos_or_the_last_one_allowed() -> None:
    output = Output({7}, budget=2)
    assert output.ends_with(7) and not output.ends_with(1)
    output.extend([1])
    assert output.ends_with(1)


def test_a_stopped_output_takes_no_more() -> None:
    output = Output({7}, budget=9)
    output.extend([7])
    assert output.extend([1]) == 0


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Output({7}, budget=0)


def oracle(tokens: list[int]) -> bool:
    for start in range(len(tokens)):
        for unit in range(1, min(LONGEST_UNIT, len(tokens)) + 1):
            span = unit
            while start + span < len(tokens) and tokens[start + span] == tokens[start + span - unit]:
                span += 1
            if span >= MIN_REPEATS * unit and span >= MIN_SPAN and start + span <= len(tokens):
                return True
    return False


@given(
    head=st.lists(st.integers(0, 3), max_size=12),
    unit=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    length=st.integers(0, 80),
    tail=st.lists(st.integers(0, 3), max_size=6),
)
def test_it_finds_what_the_oracle_finds(
    head: list[int], unit: list[int], length: int, tail: list[int]
) -> None:
    tokens = head + (unit * 80)[:length] + tail
    assert has_loop(tokens) == oracle(tokens)


def test_empty_and_short_outputs_have_no_loop() -> None:
    assert not has_loop([])
    assert not has_loop([1] * (MIN_SPAN - 1))


def test_forty_eight_equal_tokens_are_a_loop() -> None:
    assert has_loop([1] * MIN_SPAN)


def test_a_long_unit_needs_eight_repeats() -> None:
    unit = list(range(30))
    assert not has_loop(unit * 7)
    assert has_loop(unit * 8)
