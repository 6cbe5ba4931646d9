"""Stop rule and budget."""

import pytest

from gravbench.decoding.output import Output


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
