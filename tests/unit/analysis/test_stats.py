import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from gravbench.analysis.bootstrap import (
    Floats,
    Interval,
    bca_limits,
    bootstrap,
    independent,
    influence,
    ratio,
    resampled_sums,
)


def ratio_of_sums(numerator: Floats, denominator: Floats) -> float:
    return float(numerator.sum() / denominator.sum())


def bootstrap_ratio(
    numerator: Floats, denominator: Floats, *, seed: int, resamples: int = 10_000
) -> Interval:
    """Every pair drawn on its own."""
    columns = np.column_stack((numerator, denominator))
    found = bootstrap(columns, ratio, independent(len(numerator)), seed=seed, resamples=resamples)
    assert found is not None
    return found


def test_ratio_of_sums_by_hand() -> None:
    assert ratio_of_sums(np.array([10.0, 30.0]), np.array([5.0, 5.0])) == 4.0


def test_ratio_of_sums_is_not_the_mean_of_ratios() -> None:
    times = np.array([100.0, 1.0]), np.array([50.0, 1.0])
    assert bootstrap_ratio(*times, seed=0).value == pytest.approx(101 / 51)


@pytest.mark.parametrize("pairs", [1, 2, 4])
def test_fewer_than_five_pairs_have_no_interval(pairs: int) -> None:
    rng = np.random.default_rng(0)
    interval = bootstrap_ratio(rng.lognormal(1, 0.5, pairs), rng.lognormal(0, 0.5, pairs), seed=0)
    assert (interval.low, interval.high) == (None, None)


def test_equal_ratios_have_an_interval_without_width() -> None:
    base = np.array([1.0, 2.0, 5.0, 9.0, 3.0])
    interval = bootstrap_ratio(3 * base, base, seed=0)
    assert (interval.low, interval.high) == (pytest.approx(3.0), pytest.approx(3.0))


def test_bca_limits_agree_with_scipy_and_the_interval_holds_them() -> None:
    rng = np.random.default_rng(5)
    own = rng.lognormal(0, 0.7, 60)
    base = own * rng.lognormal(0.8, 0.3, 60)
    columns, design = np.column_stack((base, own)), independent(60)
    low, high = bca_limits(
        ratio(resampled_sums(columns, design, seed=1, resamples=10_000)),
        ratio_of_sums(base, own),
        influence(columns, ratio, design),
        stratum_of=design.stratum_of,
        confidence=0.95,
    )
    whole = bootstrap_ratio(base, own, seed=1)
    assert whole.low is not None
    assert whole.high is not None
    assert whole.low <= low < high <= whole.high
    theirs = scipy_stats.bootstrap(
        (base, own),
        lambda a, b, axis: a.sum(axis) / b.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="BCa",
        rng=np.random.default_rng(2),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert low == pytest.approx(theirs.low, abs=0.05 * width)
    assert high == pytest.approx(theirs.high, abs=0.05 * width)


def test_same_seed_same_interval_other_seed_other_interval() -> None:
    rng = np.random.default_rng(0)
    times = rng.lognormal(1, 0.5, 30), rng.lognormal(0, 0.5, 30)
    assert bootstrap_ratio(*times, seed=7) == bootstrap_ratio(*times, seed=7)
    assert bootstrap_ratio(*times, seed=7) != bootstrap_ratio(*times, seed=8)


@given(
    pairs=st.lists(st.tuples(st.floats(0.1, 1e9), st.floats(0.1, 1e9)), min_size=5, max_size=12),
    scale=st.floats(0.5, 8),
)
def test_scaling_all_clocks_changes_nothing(pairs: list[tuple[float, float]], scale: float) -> None:
    times = np.array(pairs)
    plain = bootstrap_ratio(times[:, 0], times[:, 1], seed=0, resamples=50)
    scaled = bootstrap_ratio(scale * times[:, 0], scale * times[:, 1], seed=0, resamples=50)
    assert scaled.value == pytest.approx(plain.value)
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low <= plain.high


def test_pairs_of_nothing_but_zeros_are_no_pairs() -> None:
    """Six pairs, two of which tell something: that is too few for an interval."""
    interval = bootstrap_ratio(np.array([4.0, 8, 0, 0, 0, 0]), np.array([2.0, 4, 0, 0, 0, 0]), seed=0)
    assert (interval.value, interval.low, interval.high) == (2.0, None, None)
