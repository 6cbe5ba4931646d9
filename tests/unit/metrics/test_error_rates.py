"""Error rates by hand, against a slow oracle, and what each chain no longer sees."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.metrics.edit_distance import CHAINS, character_error_rate, normalised, word_error_rate


def slow_distance(a: Sequence[str], b: Sequence[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        before, row = row, [i]
        for j, y in enumerate(b, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y)))
    return row[-1]


@pytest.mark.parametrize(
    ("rate", "chain", "prediction", "reference", "value"),
    [
        (character_error_rate, "plain", "kitten", "sitting", 3 / 7),
        (character_error_rate, "plain", " a\n b ", "a b", 0.0),
        (character_error_rate, "plain", "ab", "a b", 1 / 3),
        (character_error_rate, "no-space", "ab", "a b", 0.0),
        (character_error_rate, "folded", "Straße, ﬁn.", "STRASSE fin", 0.0),
        (character_error_rate, "no-space", "Straße", "STRASSE", 6 / 7),
        (character_error_rate, "plain", "e\u0301", "\u00e9", 0.0),
        (character_error_rate, "plain", "x" * 50, "ab", 1.0),
        (character_error_rate, "plain", "", "", 0.0),
        (character_error_rate, "folded", "a", "...", None),
        (word_error_rate, "plain", "one two four", "one two three four", 1 / 4),
        (word_error_rate, "plain", "One, two", "one two", 1 / 2),
        (word_error_rate, "folded", "One, two", "one two", 0.0),
        (word_error_rate, "plain", "一二三", "一二四", 1.0),
    ],
)
def test_rates_by_hand(rate, chain, prediction, reference, value) -> None:  # type: ignore[no-untyped-def]
    assert rate(prediction, reference, chain)[0] == (None if value is None else pytest.approx(value))


@given(
    a=st.text("ab C.\n", max_size=12), b=st.text("ab C.\n", max_size=12), chain=st.sampled_from(list(CHAINS))
)
def test_rates_are_those_of_a_slow_distance(a: str, b: str, chain: str) -> None:
    for rate, units in ((character_error_rate, list), (word_error_rate, str.split)):
        left, right = units(normalised(a, chain)), units(normalised(b, chain))
        value, counts = rate(a, b, chain)
        edits = slow_distance(left, right)
        assert counts == {"edits": edits, "length": len(right)}
        assert value == (min(1, edits / len(right)) if right else (None if left else 0))


@given(text=st.text("aÉß ﬁ.一\n\u0301", max_size=12), chain=st.sampled_from(list(CHAINS)))
def test_a_perfect_answer_has_no_errors_and_white_space_around_it_changes_nothing(
    text: str, chain: str
) -> None:
    for rate in (character_error_rate, word_error_rate):
        assert rate(text, text, chain)[0] == 0
        assert rate(f" {text}\n", text, chain)[0] == 0
