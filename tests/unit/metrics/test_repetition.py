from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gravbench.metrics import repetition
from gravbench.metrics.repetition import find_repetition


@given(st.text(alphabet=st.characters(max_codepoint=127)))
def test_tokens_of_ascii_are_those_of_any_text(text: str) -> None:
    assert repetition._ASCII_TOKEN.findall(text) == repetition._TOKEN.findall(text)


def test_a_unit_that_follows_itself_is_found_and_two_copies_are_not() -> None:
    assert find_repetition("one two three. " * 5).repeats == 5
    assert find_repetition("中文字符，" * 4).repeats == 4
    assert find_repetition("one two three. " * 2).repeats == 0
