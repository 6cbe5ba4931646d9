from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from run_support import fake_samples

from gravbench.runner.plan import group_size, order_plan
from gravbench.suites.data import take


def arms_by_sample(plan) -> dict[str, list[str]]:  # type: ignore[no-untyped-def]
    found: dict[str, list[str]] = {}
    for entry in plan:
        found.setdefault(entry.sample_id, []).append(entry.arm)
    return found


@given(
    count=st.integers(1, 12),
    arms=st.lists(st.sampled_from("abcde"), min_size=1, max_size=4, unique=True),
    seed=st.integers(0, 99),
)
def test_plan_runs_every_arm_of_every_sample_once_and_together(
    count: int, arms: list[str], seed: int
) -> None:
    plan = order_plan(fake_samples(count), arms, seed=seed)
    assert [entry.slot for entry in plan] == list(range(count * len(arms)))
    found = arms_by_sample(plan)
    assert sorted(found) == sorted(sample.sample_id for sample in fake_samples(count))
    assert all(sorted(order) == sorted(arms) for order in found.values())
    neighbours = [entry.sample_id for entry in plan]
    assert all(len(set(neighbours[i : i + len(arms)])) == 1 for i in range(0, len(plan), len(arms)))


@given(seed=st.integers(0, 99))
def test_second_sample_of_a_block_reverses_the_first(seed: int) -> None:
    orders = list(arms_by_sample(order_plan(fake_samples(8), ("a", "b", "c"), seed=seed)).values())
    assert all(orders[i + 1] == orders[i][::-1] for i in range(0, 8, 2))


def test_order_depends_on_the_seed_alone() -> None:
    samples = fake_samples(12)
    plans = [order_plan(samples, ("ar", "selfspec"), seed=seed) for seed in (0, 0, 1)]
    assert plans[0] == plans[1] != plans[2]


def test_limit_keeps_the_mixture_of_tasks() -> None:
    samples = fake_samples(30)
    for limit in (1, 2, 3, 7, 12, 30, 99):
        kept = take(samples, limit)
        assert len(kept) == min(limit, 30)
        counts = Counter(sample.task for sample in kept)
        assert max(counts.values()) - min(counts.get(t, 0) for t in ("text", "table", "formula")) <= 1
    assert take(samples, None) == samples


def test_groups_keep_batches_full_and_leave_groups_to_count() -> None:
    assert group_size(("ar", "selfspec"), crops=240) == 1
    assert group_size(("ar", "ar:batch=4"), crops=240) == 16
    assert group_size(("ar", "ar:batch=8"), crops=240) == 24
    assert group_size(("ar", "ar:batch=64"), crops=240) == 64
    assert group_size(("ar:batch=3",), crops=0) == 3
