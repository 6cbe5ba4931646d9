from __future__ import annotations

import random

import pytest
from omnidoc_cases import cases
from table_oracles import damaged, oracle_scores, random_table

from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.teds import MAX_NODE_PAIRS, teds_pair


def table(*rows: str) -> str:
    return normalize_html_table("<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>")


def grid(rows: int, columns: int, *, seed: int | None = None) -> str:
    cells = [f"<td>w{n}</td>" for n in range(rows * columns)]
    if seed is not None:
        random.Random(seed).shuffle(cells)
    return table(*("".join(cells[row * columns : (row + 1) * columns]) for row in range(rows)))


@pytest.mark.parametrize("case", cases("table_teds"), ids=lambda case: f"{case['id']}-{case['tag']}")
def test_official_scores_are_reproduced(case: dict) -> None:
    sides = [normalize_html_table(case[side]) or case[side] for side in ("gt", "pred")]
    result = teds_pair(*sides)
    expected = case["expected"]
    assert result.raises == expected["raises"]
    assert result.teds == pytest.approx(expected["teds"], abs=1e-9)
    assert result.teds_s == pytest.approx(expected["teds_s"], abs=1e-9)


def test_random_pairs_equal_apted_and_zss() -> None:
    rng = random.Random(20260410)
    for number in range(320):
        gt = random_table(rng, rows=5, columns=5)
        pred = damaged(rng, gt) if number % 2 else random_table(rng, rows=5, columns=5)
        result = teds_pair(gt, pred)
        content, structure = oracle_scores(gt, pred, with_zss=number % 4 == 0)
        assert all(abs(result.teds - value) < 1e-9 for value in content), (gt, pred)
        assert all(abs(result.teds_s - value) < 1e-9 for value in structure), (gt, pred)


def test_a_larger_pair_equals_apted_on_the_compiled_kernel() -> None:
    rng = random.Random(3)
    gt, pred = (random_table(rng, rows=40, columns=8) for _ in range(2))
    result = teds_pair(gt, pred)
    (content,), (structure,) = oracle_scores(gt, pred, with_zss=False)
    assert (result.teds, result.teds_s) == pytest.approx((content, structure), abs=1e-9)


def test_empty_prediction_scores_worst() -> None:
    assert teds_pair(table("<td>a</td>"), "") == teds_pair("", table("<td>a</td>"))
    assert teds_pair(table("<td>a</td>"), "").teds == 0.0


def test_identity_is_one_and_structure_is_never_worse() -> None:
    rng = random.Random(7)
    for _ in range(50):
        gt, pred = (random_table(rng, rows=4, columns=4) for _ in range(2))
        assert teds_pair(gt, gt).teds == 1.0
        result = teds_pair(gt, pred)
        assert result.teds_s >= result.teds - 1e-12


def test_score_is_symmetric() -> None:
    rng = random.Random(8)
    for _ in range(50):
        gt, pred = (random_table(rng, rows=4, columns=4) for _ in range(2))
        assert teds_pair(gt, pred).teds == pytest.approx(teds_pair(pred, gt).teds, abs=1e-12)


def test_score_below_zero_is_not_clipped() -> None:
    assert teds_pair(grid(15, 4), table(*["<td>a</td>"] * 60)).teds < 0.0


@pytest.mark.parametrize("span", ["abc", "", "1.5", "9" * 5000])
def test_a_span_that_is_no_integer_scores_zero_and_says_so(span: str) -> None:
    result = teds_pair(table("<td>a</td>"), table(f'<td colspan="{span}">a</td>'))
    assert (result.teds, result.teds_s, result.raises) == (0.0, 0.0, "ValueError")


def test_two_tables_without_elements_divide_by_zero() -> None:
    assert teds_pair(table(), table()).raises == "ZeroDivisionError"
    assert teds_pair(table(""), table("")).raises is None


def test_a_huge_span_is_one_renaming() -> None:
    result = teds_pair(table("<td>a</td>"), table('<td colspan="1000000">a</td>'))
    assert result.teds == 0.5


def test_nested_elements_count_in_the_denominator_but_not_in_the_tree() -> None:
    gt, pred = table("<td>a</td>"), table("<td>a<b></b></td>")
    assert teds_pair(gt, pred).teds == pytest.approx(1 - (2 / 3) / 3)


@pytest.mark.parametrize(
    "pred",
    [
        "<table><tr><td>a" * 3000,
        "<table><tr><td>" + "<div>" * 20_000,
        "<table><tr><td>" + "<" * 50_000 + "</td></tr></table>",
        "<table><tr><td>" + "&lt;!-- --&gt;" * 20_000 + "</td></tr></table>",
        "<table><tr><td>a\0b</td></tr></table>",
        "<table><tr><td>a\ud800b</td></tr></table>",
        "<table><!-- a",
        "<table><![if a]><tr><td><![",
        "<table><?a <tr><td>a</td></tr></table>",
        "<table" * 20_000,
        "<table></table>" + "<table" * 20_000,
        "<table>" * 20_000,
        "<table><colgroup>" * 20_000,
        "<table><tr><td a='" * 2000,
    ],
    ids=lambda text: ascii(text[:24]),
)
def test_hostile_tables_give_a_score_and_no_exception(pred: str) -> None:
    result = teds_pair(table("<td>a</td>"), normalize_html_table(pred) or pred)
    assert -1.0 <= result.teds <= 1.0


def test_three_thousand_cells_against_themselves_and_shuffled() -> None:
    gt, shuffled = grid(300, 10), grid(300, 10, seed=1)
    assert teds_pair(gt, gt).teds == 1.0
    result = teds_pair(gt, shuffled)
    assert 0.0 < result.teds < 1.0
    assert result.teds_s == 1.0
    assert result.may_have_timed_out


def test_beyond_the_node_budget_the_score_is_zero_with_its_reason() -> None:
    columns = int(MAX_NODE_PAIRS**0.5) // 100 + 1
    result = teds_pair(grid(100, columns), grid(100, columns, seed=1))
    assert (result.teds, result.raises, result.may_have_timed_out) == (0.0, "NodeBudget", True)


def test_ordinary_tables_could_not_have_timed_out() -> None:
    assert not teds_pair(grid(20, 8), grid(20, 8, seed=2)).may_have_timed_out
