"""The loop flag against a slow, obvious oracle."""

from hypothesis import given
from hypothesis import strategies as st

from gravbench.decoding.repetition import LONGEST_UNIT, MIN_REPEATS, MIN_SPAN, has_loop


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
