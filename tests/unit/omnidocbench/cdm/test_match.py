"""Matching: the fast geometric check against the plain loop, and the edges of the counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.official_cdm import true_positives

from gravbench.omnidocbench.cdm.match import Counts, Glyphs, _token_cost, canonical, match, visible
from gravbench.omnidocbench.cdm.raster import Box, Boxes


def glyphs(tokens: str, boxes: list[Box], size: tuple[int, int] = (400, 200)) -> Glyphs:
    return Glyphs(tuple(tokens), tuple(boxes), *size)


def row(tokens: str, *, start: int = 10, step: int = 30) -> Glyphs:
    """Tokens in one line."""
    boxes = [(start + i * step, 20, start + i * step + 10, 30) for i in range(len(tokens))]
    return glyphs(tokens, boxes)


@st.composite
def formulas(draw: st.DrawFn) -> Glyphs:
    count = draw(st.integers(1, 14))
    tokens = draw(st.lists(st.sampled_from(["a", "b", "=", r"\le", r"\leq"]), min_size=count, max_size=count))
    corners = st.tuples(st.integers(0, 350), st.integers(0, 150), st.integers(1, 40), st.integers(1, 40))
    placed = draw(st.lists(corners, min_size=count, max_size=count))
    boxes: list[Box] = [(x, y, x + w, y + h) for x, y, w, h in placed]
    return Glyphs(tuple(tokens), tuple(boxes), 400, 200)


@settings(max_examples=40, deadline=None)
@given(formulas(), formulas())
def test_fast_matching_equals_the_plain_loop(gt: Glyphs, pred: Glyphs) -> None:
    slow = true_positives(
        [(token, list(box)) for token, box in zip(gt.tokens, gt.boxes, strict=True)],
        [(token, list(box)) for token, box in zip(pred.tokens, pred.boxes, strict=True)],
        ((gt.width, gt.height), (pred.width, pred.height)),
        _token_cost(gt.tokens, pred.tokens),
    )
    assert match(gt, pred) == Counts(slow, len(gt.tokens), len(pred.tokens))


@settings(max_examples=60, deadline=None)
@given(formulas(), formulas())
def test_matches_never_outnumber_either_side(gt: Glyphs, pred: Glyphs) -> None:
    counts = match(gt, pred)
    assert 0 <= counts.tp <= min(counts.gt_tokens, counts.pred_tokens)
    assert 0 <= counts.f1 <= 1


def test_of_models_with_equally_many_inliers_the_one_that_fits_them_best_wins() -> None:
    """A seeded sweep in which the sum over all points would choose another model in several places."""
    rng = np.random.default_rng(7)
    for _ in range(150):
        count = int(rng.integers(3, 9))
        sides = []
        for tokens in ("abcdefgh"[:count], "".join(rng.permutation(list("abcdefgh"[:count])))):
            corners = rng.integers(0, 12, (count, 2)) * 10
            sides.append(glyphs(tokens, [(int(x), int(y), int(x) + 10, int(y) + 10) for x, y in corners]))
        slow = true_positives(
            *(
                [(token, list(box)) for token, box in zip(side.tokens, side.boxes, strict=True)]
                for side in sides
            ),
            ((400, 200), (400, 200)),
            _token_cost(sides[0].tokens, sides[1].tokens),
        )
        assert match(*sides).tp == slow


def test_identical_sides_score_one() -> None:
    assert match(row("abc"), row("abc")).f1 == 1.0


def test_a_shifted_copy_scores_one() -> None:
    assert match(row("abcd"), row("abcd", start=60)).f1 == 1.0


def test_swapped_tokens_are_not_explained_by_one_shift() -> None:
    assert match(row("a+b"), row("b+a")).tp < 3


def test_wrong_tokens_in_the_right_places_are_rejected() -> None:
    assert match(row("abcd"), row("abxd")).tp == 3


def test_without_true_tokens_every_count_is_zero() -> None:
    nothing = glyphs("", [])
    for gt in (None, nothing):
        assert match(gt, row("abc")) == Counts(0, 0, 0)
    assert Counts(0, 0, 0).recall == Counts(0, 0, 0).precision == Counts(0, 0, 0).f1 == 0.0


def test_without_predicted_tokens_the_truth_is_missed() -> None:
    for pred in (None, glyphs("", [])):
        assert match(row("abc"), pred) == Counts(0, 3, 0)


def test_values_are_rounded_to_three_decimals() -> None:
    counts = Counts(2, 3, 7)
    assert (counts.recall, counts.precision, counts.f1) == (0.667, 0.286, 0.4)


def test_tokens_without_pixels_count_on_neither_side() -> None:
    seen = visible(["a", r"\limits", "b"], Boxes(40, 20, ((0, 0, 5, 5), None, (10, 0, 15, 5))))
    assert seen.tokens == ("a", "b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (r"\leq", r"\le"),
        (r"\mid", "|"),
        (r"\rightarrow", r"\to"),
        (r"\left(", "("),
        (r"\bigl\{", r"\{"),
        (r"\Big|", "|"),
        (r"\varphi", r"\phi"),
        (r"\widehat", r"\hat"),
        (r"\cdot", "."),
        (r"\left\|", r"\Vert"),
        (r"\string_", "_"),
    ],
)
def test_spelling_variants_are_one_sign(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [(r"\neq", r"\ne"), (r"\leftarrow", "arrow"), (r"\left<", "<"), ("a", "b")]
)
def test_other_signs_stay_apart(one: str, other: str) -> None:
    """`\\neq` is an alias of `\\not=` only, as in the official table."""
    assert canonical(one) != canonical(other)


def test_alias_costs_less_than_a_wrong_token_but_more_than_the_same_one() -> None:
    assert np.array_equal(_token_cost([r"\le"], [r"\le", r"\leq", "<"]), [[0.0, 0.005, 1.0]])
