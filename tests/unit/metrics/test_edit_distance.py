from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.metrics.edit_distance import (
    distance_matrix,
    edit_distance,
    has_close_window,
    largest_distance,
    normalized_distance,
)

WORD = st.text("ab", max_size=12)


@given(WORD, WORD)
def test_distance_is_symmetric_in_range_and_zero_only_for_equal_texts(a: str, b: str) -> None:
    assert normalized_distance(a, b) == normalized_distance(b, a)
    assert 0.0 <= normalized_distance(a, b) <= 1.0
    assert (normalized_distance(a, b) == 0.0) == (a == b)


@given(st.text("abc", max_size=40), st.text("abc", max_size=9), st.integers(-1, 9))
def test_windows_are_found_as_by_looking_at_each(text: str, piece: str, limit: int) -> None:
    windows = range(len(text) - len(piece) + 1) if piece else ()
    slow = any(edit_distance(text[i : i + len(piece)], piece) <= limit for i in windows)
    assert has_close_window(text, piece, limit) == slow


@given(st.integers(1, 500), st.sampled_from([0.4, 0.6]), st.booleans())
def test_the_largest_distance_is_the_last_that_passes(length: int, share: float, strict: bool) -> None:
    def passes(distance: int) -> bool:
        return distance / length < share or (not strict and distance / length == share)

    limit = largest_distance(length, share, strict=strict)
    assert limit == max((d for d in range(length + 1) if passes(d)), default=-1)


def test_repeated_columns_change_nothing() -> None:
    matrix = distance_matrix(["ab", ""], ["ab", "b", "ab", ""])
    assert matrix.tolist() == [[0.0, 0.5, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]]
    assert distance_matrix([], ["a"]).shape == (0, 1)
    assert pytest.approx(0.0) == normalized_distance("", "")
