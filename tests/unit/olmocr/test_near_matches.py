from __future__ import annotations

import pytest
from fuzzysearch import find_near_matches
from fuzzysearch.levenshtein import find_near_matches_levenshtein
from hypothesis import given, settings
from hypothesis import strategies as st

from gravbench.olmocr import near_matches as module
from gravbench.olmocr.near_matches import Match, group_best, near_matches
from gravbench.olmocr.page import OverLimitError


@st.composite
def searches(draw: st.DrawFn) -> tuple[str, str, int]:
    """A needle, a text that holds changed copies of it, and a limit of at most half the needle."""
    letters = draw(st.sampled_from(["ab", "abc", "abcdefgh"]))
    needle = draw(st.text(letters, min_size=1, max_size=24))
    limit = draw(st.integers(0, min(4, len(needle) // 2)))
    pieces = st.one_of(
        st.text(letters, max_size=12),
        st.just(needle),
        st.tuples(st.integers(0, 24), st.integers(0, 3), st.text(letters, max_size=2)).map(
            lambda change: needle[: change[0]] + change[2] + needle[change[0] + change[1] :]
        ),
    )
    return needle, "".join(draw(st.lists(pieces, max_size=6))), limit


@settings(max_examples=150, deadline=None)
@given(searches())
def test_the_library_finds_the_same_matches_before_they_are_grouped(search: tuple[str, str, int]) -> None:
    needle, text, limit = search
    library = {(each.start, each.end, each.dist) for each in find_near_matches_levenshtein(*search)}
    budget = module._Budget(10**9)
    if limit == 0:
        ours = set(near_matches(needle, text, 0))
    elif len(needle) // (limit + 1) >= 3:
        ours = set(module._by_ngrams(needle, text, limit, budget))
    else:
        ours = set(module._by_candidates(needle, text, limit, budget))
    assert {(each.start, each.end, each.distance) for each in ours} == library


@settings(max_examples=100, deadline=None)
@given(searches())
def test_groups_yield_matches_as_near_and_as_long_as_the_library_s(search: tuple[str, str, int]) -> None:
    needle, text, limit = search
    library = [
        (each.dist, each.end - each.start) for each in find_near_matches(needle, text, max_l_dist=limit)
    ]
    ours = near_matches(needle, text, limit)
    assert [(each.distance, each.end - each.start) for each in ours] == library
    assert ours == sorted(ours)


def test_of_equally_good_overlapping_matches_the_first_is_taken() -> None:
    assert group_best([Match(3, 7, 1), Match(1, 5, 1), Match(2, 6, 1), Match(7, 9, 1)]) == [
        Match(1, 5, 1),
        Match(7, 9, 1),
    ]


@pytest.mark.parametrize(
    ("needle", "text", "limit"),
    [
        ("aaaaaaaaab", "a" * 100_000, 1),
        ("ab" * 20, "ab" * 100_000, 20),
        ("a", "a" * 100_000, 0),
    ],
)
def test_hostile_texts_are_refused_after_counted_steps(
    monkeypatch: pytest.MonkeyPatch, needle: str, text: str, limit: int
) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 50_000)
    monkeypatch.setattr(module, "MAX_OCCURRENCES", 50_000)
    with pytest.raises(OverLimitError):
        near_matches(needle, text, limit)
