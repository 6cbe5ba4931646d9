"""`repair` hangs branches where the draft was least sure."""

import math

import pytest
from strategy_support import LONG, on_toy

from gravbench.decoding.repair import Branch, Repair, branches
from gravbench.decoding.rows import TopK


def marginals(*chances: tuple[float, float]) -> TopK:
    """Slot k: token 10k with the first chance, 10k + 1 with the second."""
    slots = range(len(chances))
    return TopK([[10 * k, 10 * k + 1] for k in slots], [[math.log(p) for p in slot] for slot in chances])


def test_a_branch_is_worth_what_it_is_expected_to_add_a_row() -> None:
    first, second, third = branches(marginals((0.9, 0.05), (0.5, 0.4), (0.8, 0.1)), 3)
    assert first[:3] == (0, 1, 2) and first.worth == pytest.approx(0.05 * (1 + 0.5 + 0.4) / 3)
    assert second[:3] == (1, 11, 1) and second.worth == pytest.approx(0.9 * 0.4 * (1 + 0.8) / 2)
    assert third[:3] == (2, 21, 0) and third.worth == pytest.approx(0.9 * 0.5 * 0.1)


def test_the_copied_suffix_ends_where_it_hardly_stands() -> None:
    (branch, *_) = branches(marginals((0.5, 0.4), (0.2, 0.1), (0.2, 0.1), (0.9, 0.1)), 4)
    assert branch.run == 1  # 0.2, then 0.04


def test_points_and_floor_bound_what_is_taken() -> None:
    best = marginals((0.9, 0.05), (0.5, 0.4), (0.8, 0.1))
    assert [b.slot for b in Repair(points=1, floor=0)._branches(best, 3)] == [1]
    assert Repair(floor=1)._branches(best, 3) == []
    taken: list[Branch] = Repair(points=3, floor=0)._branches(best, 3)
    assert [b.slot for b in taken] == [1, 2, 0]


def test_no_more_nodes_than_allowed_and_the_chain_first() -> None:
    _, trace, rounds = on_toy(LONG, "repair:block=6,floor=0,nodes=9", budget=60)
    assert rounds.nodes is not None and set(rounds.nodes) <= {0, 10}
    _, chain, as_chain = on_toy(LONG, "selfspec:block=6", budget=60)
    assert rounds.committed == as_chain.committed
    assert trace.counters.own["repair_points"] > 0 == trace.counters.own["repair_taken"]
    assert chain.counters.decode_forwards == trace.counters.decode_forwards
