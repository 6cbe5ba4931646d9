"""Greedy acceptance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.decoding.drafting import matched_prefix

tokens = st.lists(st.integers(0, 2), max_size=8)


@given(drafts=tokens, verified=tokens)
def test_it_is_the_longest_common_prefix(drafts: list[int], verified: list[int]) -> None:
    verified = verified + [9] * (len(drafts) - len(verified))
    accepted = matched_prefix(drafts, verified)
    assert drafts[:accepted] == verified[:accepted]
    assert accepted == len(drafts) or drafts[accepted] != verified[accepted]


def test_a_match_after_a_mismatch_does_not_count() -> None:
    assert matched_prefix([1, 9, 3], [1, 2, 3, 4]) == 1


def test_no_drafts_accept_nothing() -> None:
    assert matched_prefix([], [5]) == 0


def test_fewer_verified_tokens_than_drafts_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="2 drafts"):
        matched_prefix([1, 2], [1])
