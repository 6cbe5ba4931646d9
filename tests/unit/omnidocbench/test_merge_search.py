from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravbench.metrics.edit_distance import distance_matrix, normalized_distance
from gravbench.omnidocbench.merge_search import (
    Run,
    compiled_best_runs,
    disjoint_runs,
    merge_predictions,
    plain_best_run,
)

LINES = st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=9)


@given(
    truths=st.lists(st.text("abc ", min_size=1, max_size=90), min_size=1, max_size=3),
    lines=LINES,
    data=st.data(),
)
def test_the_compiled_search_finds_the_runs_of_the_plain_one(
    truths: list[str], lines: list[str], data: st.DataObject
) -> None:
    masked = np.array(data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines))))
    distances = distance_matrix(truths, lines)
    plain = [plain_best_run(t, lines, distances[i], masked) for i, t in enumerate(truths)]
    assert compiled_best_runs(truths, lines, masked) == plain


def test_a_paragraph_cut_in_three_is_joined() -> None:
    truth = "amber river stone window compute lantern signal orbit"
    lines = ["unrelated", "amber river stone", "window compute", "lantern signal orbit", "more 12345"]
    merged = merge_predictions([truth], lines, distance_matrix([truth], lines))
    assert range(1, 4) in merged.groups
    assert merged.distances.min() == 0.0


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.floats(0, 1)), max_size=12))
def test_kept_runs_are_disjoint_and_come_from_the_given_ones(raw: list[tuple[int, int, float]]) -> None:
    runs = [Run(first, first + more, distance) for first, more, distance in raw]
    kept = disjoint_runs(runs)
    assert set(kept) <= set(runs)
    assert all(not a.clashes(b) for i, a in enumerate(kept) for b in kept[i + 1 :])


def test_settled_lines_stay_as_they_are() -> None:
    lines = ["alpha beta", "gamma"]
    merged = merge_predictions(["alpha beta"], lines, distance_matrix(["alpha beta"], lines))
    assert merged.groups == (range(0, 1), range(1, 2))
    assert normalized_distance("", "") == 0.0
