"""`selfspec1` verifies and drafts in one forward."""

import pytest
from strategy_support import LONG, on_toy

from gravbench.decoding.selfspec1 import case_chances


@pytest.mark.parametrize("groups", ["last", "all", "auto,least=0"])
def test_right_drafts_commit_b_plus_1_a_forward(groups: str) -> None:
    arm = f"selfspec1:block=4,groups={groups}"
    _, trace, rounds = on_toy(LONG, arm, budget=62)
    assert rounds.committed == (1, *(5,) * 12)  # the first forward has nothing to verify
    assert trace.counters.fwd_verify == trace.counters.decode_forwards == rounds.count
    assert trace.counters.own["group_missing"] == 0


def test_only_the_group_of_the_accepted_case_gives_the_next_drafts() -> None:
    """Slot 2 of every block errs: one draft stands, which `last` has no group for and `all` has."""
    _, last, with_last = on_toy(LONG, "selfspec1:block=4,groups=last", budget=60, wrong_slots=(2,))
    _, every, with_all = on_toy(LONG, "selfspec1:block=4,groups=all", budget=60, wrong_slots=(2,))
    assert set(with_last.offered) == {0, 4} and set(with_all.offered[1:]) == {4}
    assert last.counters.own["group_missing"] == sum(offered > 0 for offered in with_last.offered)
    assert every.counters.own["group_missing"] == 0
    assert with_all.count < with_last.count
    assert every.counters.rows_verify == 5 + 25 * (with_all.count - 1)


def test_auto_offers_the_likely_groups_alone() -> None:
    """The toy is never sure, so that the first cases are the likely ones."""
    _, few, _ = on_toy(LONG, "selfspec1:block=4,groups=auto,least=0.05", budget=60)
    _, every, _ = on_toy(LONG, "selfspec1:block=4,groups=all", budget=60)
    assert few.counters.rows_verify / few.counters.rounds < every.counters.rows_verify / every.counters.rounds


def test_the_chances_of_all_cases_sum_to_one() -> None:
    assert case_chances([0.5, 0.9]) == pytest.approx([0.5, 0.05, 0.45])
    assert case_chances([]) == [1.0]
    assert sum(case_chances([0.3, 0.2, 0.9])) == pytest.approx(1)
