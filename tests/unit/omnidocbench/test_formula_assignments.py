from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gravbench.omnidocbench.formula_assignments import (
    assign_runs,
    cut_readings,
    formula_inputs,
    in_pool_order,
)
from gravbench.omnidocbench.formula_stage import assign_one_to_one
from gravbench.omnidocbench.ground_truth import Element
from gravbench.omnidocbench.lines import predicted, truth_items, truth_lines
from gravbench.omnidocbench.markdown_items import Item
from gravbench.omnidocbench.text import Normalizer

ATOMS = st.sampled_from(["x=1", "y=2", "a+b", "z", "x=1 y=2", "a+bz"])


def _item(content: str, start: int) -> Item:
    return Item("equation_isolated", start, start + 5, f"\\[{content}\\]")


@given(truth=st.lists(ATOMS, min_size=1, max_size=3), lines=st.lists(ATOMS, min_size=1, max_size=5))
def test_runs_are_monotone_and_disjoint(truth: list[str], lines: list[str]) -> None:
    elements = [Element("equation_isolated", i + 1, text, {}, i) for i, text in enumerate(truth)]
    normalizer = Normalizer()
    pool = in_pool_order([predicted(_item(text, 10 * i)) for i, text in enumerate(lines)])
    inputs = formula_inputs(truth_lines(truth_items(elements), normalizer), pool, normalizer)
    used = [number for run in assign_runs(inputs, gaps=False) for number in run]
    assert used == sorted(set(used))


def test_one_truth_line_may_take_a_run() -> None:
    element = Element("equation_isolated", 1, "a=b+c+d", {}, 0)
    normalizer = Normalizer()
    pool = [predicted(_item("a=b", 0)), predicted(_item("+c+d", 10))]
    inputs = formula_inputs(truth_lines(truth_items([element]), normalizer), pool, normalizer)
    assert assign_runs(inputs, gaps=False) == [(0, 1)]


@given(st.integers(1, 4), st.integers(1, 5), st.randoms(use_true_random=False))
def test_square_and_rectangular_assignments_cost_the_same(rows: int, columns: int, random: object) -> None:
    seed = random.randrange(2**32)  # type: ignore[attr-defined]
    distances = np.random.default_rng(seed).random((rows, columns))
    small = assign_one_to_one(distances)
    padded = assign_one_to_one(np.hstack([distances, np.ones((rows, 700))]))
    cost = sum(distances[i, j] for i, j in enumerate(small) if j is not None)
    wide = np.hstack([distances, np.ones((rows, 700))])
    left = rows - sum(j is not None for j in small)
    assert abs(cost + left - sum(wide[i, j] for i, j in enumerate(padded) if j is not None)) < 1e-9


def test_three_lines_can_be_cut_in_four_ways() -> None:
    whole = predicted(_item("\\begin{aligned} a&=b \\\\ c&=d \\\\ e&=f \\end{aligned}", 0))
    readings = cut_readings([whole])
    assert [len(reading) for reading in readings] == [1, 2, 2, 3]
    assert all(line.source == whole.source for reading in readings for line in reading)
