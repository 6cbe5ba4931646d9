"""Coverage of the reported interval on small samples, and the limits it is made of."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from gravbench.analysis.bootstrap import (
    Floats,
    bca_limits,
    expanded_limits,
    independent,
    influence,
    jackknife_error,
    outer_limits,
    ratio,
    resampled_sums,
)

TRIALS = 1_000
RESAMPLES = 600
NOISE = 3 * np.sqrt(0.95 * 0.05 / TRIALS)
"""Three binomial standard errors of a 95 % coverage over the trials: 0.021."""


def noisy_ratios(rng: np.random.Generator, n: int, *, sigma: float) -> tuple[Floats, float]:
    """Lognormal times of spread `sigma` with a page's speedup independent of its length; truth exp(0.7)."""
    own = rng.lognormal(0, sigma, n)
    return np.column_stack((own * np.exp(0.7 + rng.normal(0, 0.25, n) - 0.25**2 / 2), own)), np.exp(0.7)


def correlated_times(rng: np.random.Generator, n: int, *, sigma: float) -> tuple[Floats, float]:
    """Both arms lognormal with the same spread and a correlation of 0.9 of the logarithms."""
    a = rng.normal(size=n)
    b = 0.9 * a + np.sqrt(1 - 0.9**2) * rng.normal(size=n)
    return np.column_stack((np.exp(0.7 + sigma * a), np.exp(sigma * b))), np.exp(0.7)


def few_changes(rng: np.random.Generator, n: int, *, sigma: float) -> tuple[Floats, float]:
    """Accuracy differences around 0, nought but for 3 % of the pages; a mean, as a ratio over a count."""
    changed = rng.random(n) < 0.03
    return np.column_stack((changed * rng.normal(0, 0.1 * sigma, n), np.ones(n))), 0.0


def coverage(made, n: int, sigma: float) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Shares of trials in which the reported interval, and plain BCa, hold the truth."""
    design, hits, plain = independent(n), 0, 0
    for trial in range(TRIALS):
        columns, truth = made(np.random.default_rng((41, n, trial)), n, sigma=sigma)
        draws = ratio(resampled_sums(columns, design, seed=trial, resamples=RESAMPLES))
        value, influences = float(ratio(columns.sum(axis=0))), influence(columns, ratio, design)
        settings = {"stratum_of": design.stratum_of, "confidence": 0.95}
        low, high = outer_limits(draws, value, influences, **settings)
        hits += low <= truth <= high
        low, high = bca_limits(draws, value, influences, **settings)
        plain += low <= truth <= high
    return hits / TRIALS, plain / TRIALS


@pytest.mark.parametrize(
    ("made", "n", "sigma"),
    [
        (noisy_ratios, 50, 1.0),
        (noisy_ratios, 100, 0.8),
        (noisy_ratios, 100, 1.2),
        (correlated_times, 100, 1.0),
        (few_changes, 100, 1.0),
    ],
)
def test_small_samples_are_covered_as_often_as_printed(made, n: int, sigma: float) -> None:  # type: ignore[no-untyped-def]
    """95 % within the binomial error of the trials, where plain BCa covers up to 9 points less."""
    share, plain = coverage(made, n, sigma)
    assert share >= 0.95 - NOISE
    assert plain < share


def test_expanded_limits_by_hand() -> None:
    """Equal spreads: the quantile of t with 3 degrees of freedom, stretched by sqrt(4 / 3), as a level."""
    draws = np.linspace(-1, 1, 20_001)
    influences = np.full(4, draws.std() * np.sqrt(3.0))
    stratum_of = np.zeros(4, dtype=np.int64)
    assert jackknife_error(influences, stratum_of) == pytest.approx(draws.std())
    tail = scipy_stats.norm.cdf(np.sqrt(4 / 3) * scipy_stats.t.ppf(0.05, 3))
    low, high = expanded_limits(draws, influences, stratum_of=stratum_of, confidence=0.9)
    assert (low, high) == (pytest.approx(2 * tail - 1), pytest.approx(1 - 2 * tail))


def test_a_jackknife_that_sees_more_spread_than_the_draws_widens() -> None:
    draws, stratum_of = np.linspace(-1, 1, 2_001), np.zeros(50, dtype=np.int64)
    seen = [
        expanded_limits(draws, np.full(50, scale), stratum_of=stratum_of, confidence=0.9)
        for scale in (1.0, 7.0)
    ]
    assert seen[1][0] < seen[0][0] < 0 < seen[0][1] < seen[1][1]


def test_strata_of_one_cluster_each_leave_no_degree_of_freedom() -> None:
    draws = np.array([1.0, 2.0, np.nan])
    assert expanded_limits(draws, np.zeros(2), stratum_of=np.arange(2), confidence=0.95) == (1.0, 2.0)


def test_an_acceleration_beyond_the_formula_takes_the_outermost_draw() -> None:
    """One cluster has all the influence, most draws lie below the value: 1 - a z is negative above."""
    draws = np.linspace(0, 1, 1_001)
    influences = np.array([0.0, 0.0, 1.0])
    zeros = np.zeros(3, dtype=np.int64)
    _, high = bca_limits(draws, 0.99, influences, stratum_of=zeros, confidence=1 - 1e-12)
    assert high == 1.0
