import numpy as np
import pytest
from verdict_support import share_with_interval, simulated_table

from gravbench.analysis.bootstrap import (
    Design,
    Floats,
    bootstrap,
    cluster_sums,
    design_of,
    independent,
    influence,
    ratio,
    resampled_sums,
)
from gravbench.analysis.pieces import ROUNDS, TOKENS, paired_ratio

TRIALS = 400
RESAMPLES = 500
NOMINAL = (0.915, 0.985)
"""Where 400 trials of a 95 % interval land, small-sample shortfall of the bootstrap included."""


def covers(columns: Floats, design: Design, truth: float, *, seed: int, statistic=ratio) -> bool:  # type: ignore[no-untyped-def]
    found = bootstrap(columns, statistic, design, seed=seed, resamples=RESAMPLES)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return bool(found.low <= truth <= found.high)


def paged_times(rng: np.random.Generator, pages: int) -> tuple[Floats, list[str]]:
    """Crops of pages whose speed ratio is shared: log ratio = 0.7 + page effect + small crop effect."""
    rows, labels = [], []
    for page in range(pages):
        effect = rng.normal(0, 0.3)
        for _ in range(int(rng.integers(2, 9))):
            own = rng.lognormal(0, 0.5)
            rows.append((own * np.exp(0.7 + effect - 0.045 + rng.normal(0, 0.05) - 0.00125), own))
            labels.append(str(page))
    return np.array(rows), labels


def test_clustered_interval_covers_and_the_unclustered_one_does_not() -> None:
    """60 pages of 2 to 8 crops with a common page effect; truth exp(0.7)."""
    clustered = plain = 0
    for trial in range(TRIALS):
        columns, pages = paged_times(np.random.default_rng((3, trial)), 60)
        clustered += covers(columns, design_of(pages, [""] * len(pages)), np.exp(0.7), seed=trial)
        plain += covers(columns, independent(len(columns)), np.exp(0.7), seed=trial)
    share, low, high = share_with_interval(clustered, TRIALS)
    assert NOMINAL[0] <= share <= NOMINAL[1], (share, low, high)
    assert plain / TRIALS < 0.85


def test_stratified_interval_covers_and_is_narrower() -> None:
    """Two strata of fixed size with ratios far apart: drawing them freely would widen the interval."""
    hits = 0
    widths = []
    for trial in range(TRIALS):
        rng = np.random.default_rng((5, trial))
        own = rng.lognormal(0, 0.4, 80)
        truth = np.where(np.arange(80) < 30, 1.5, 5.0)
        base = own * truth * np.exp(rng.normal(-0.02, 0.2, 80))
        columns = np.column_stack((base, own))
        strata = ["a" if i < 30 else "b" for i in range(80)]
        design = design_of([str(i) for i in range(80)], strata)
        hits += covers(columns, design, (30 * 1.5 + 50 * 5.0) / 80, seed=trial)
        if trial < 20:
            found = [
                bootstrap(columns, ratio, d, seed=trial, resamples=RESAMPLES)
                for d in (design, independent(80))
            ]
            widths.append([f.high - f.low for f in found if f and f.high is not None and f.low is not None])
    assert NOMINAL[0] <= hits / TRIALS <= NOMINAL[1]
    assert all(stratified < free for stratified, free in widths)


def test_paired_ratio_of_ratios_covers() -> None:
    """Tokens per round, own over base, 300 samples, a true loss of 3 %. At 100 samples it covers 91 %."""
    hits = 0
    for trial in range(TRIALS):
        table = simulated_table(np.random.default_rng((7, trial)), 300, drop=0.03)
        # rounds are base rounds x exp(N(0, 0.08)) / 0.97: the ratio of sums tends to 0.97 / exp(0.08^2 / 2)
        truth = 0.97 / np.exp(0.08**2 / 2)
        statistic = paired_ratio(TOKENS, ROUNDS)
        hits += covers(table.columns, independent(300), truth, seed=trial, statistic=statistic)
    assert NOMINAL[0] <= hits / TRIALS <= NOMINAL[1]


def test_each_stratum_keeps_its_size_in_every_resample() -> None:
    columns = np.column_stack((np.ones(5), np.array([1.0, 1, 0, 0, 0])))
    design = design_of(list("abcde"), ["x", "x", "y", "y", "y"])
    sums = resampled_sums(columns, design, seed=0, resamples=50)
    assert sums[:, 0].tolist() == [5.0] * 50
    assert sums[:, 1].tolist() == [2.0] * 50


def test_rows_of_a_cluster_are_drawn_together() -> None:
    columns = np.ones((6, 1))
    design = design_of(["a", "a", "a", "a", "b", "c"], [""] * 6)
    assert cluster_sums(columns, design)[:, 0].tolist() == [4.0, 1.0, 1.0]
    drawn = set(resampled_sums(columns, design, seed=1, resamples=200)[:, 0].tolist())
    assert drawn <= {3.0, 6.0, 9.0, 12.0}


def test_cluster_across_strata_is_refused() -> None:
    with pytest.raises(ValueError, match="more than one stratum"):
        design_of(["a", "a"], ["x", "y"])


def test_influence_of_one_stratum_is_the_jackknife() -> None:
    rng = np.random.default_rng(0)
    columns = rng.lognormal(size=(9, 2))
    total = columns.sum(axis=0)
    without = np.array([(total - row)[0] / (total - row)[1] for row in columns])
    assert influence(columns, ratio, independent(9)) == pytest.approx(8 * (without.mean() - without))


def test_undefined_statistic_has_no_interval() -> None:
    assert bootstrap(np.zeros((3, 2)), ratio, independent(3), seed=0) is None


def test_single_cluster_has_an_estimate_and_no_limits() -> None:
    found = bootstrap(np.array([[3.0, 2.0], [3.0, 1.0]]), ratio, design_of(["p", "p"], ["", ""]), seed=0)
    assert found is not None
    assert (found.value, found.low, found.high) == (2.0, None, None)


def test_statistic_that_is_undefined_in_many_draws_has_no_limits() -> None:
    """Of 60 rows one carries the denominator: a third of the draws are undefined."""
    columns = np.column_stack((np.ones(60), np.arange(60) == 0)).astype(np.float64)
    found = bootstrap(columns, ratio, independent(60), seed=0)
    assert found is not None
    assert (found.value, found.low, found.high) == (60.0, None, None)


@pytest.mark.parametrize(("carrying", "limited"), [(4, False), (5, True)])
def test_a_part_needs_five_clusters_for_limits(carrying: int, limited: bool) -> None:
    columns = np.column_stack((np.ones(60), np.arange(60) < carrying)).astype(np.float64)
    columns[:, 1] += np.arange(60) / 1e3 * (np.arange(60) < carrying)

    def mean(sums: Floats) -> Floats:
        return np.asarray(sums[..., 0])

    found = bootstrap(columns, mean, independent(60), seed=0, parts=(1,))
    assert found is not None
    assert (found.low is not None) == limited


def test_clusters_of_their_own_stratum_give_no_freedom() -> None:
    columns = np.random.default_rng(0).lognormal(size=(8, 2))
    for strata, limited in (("aaaabbbb", True), ("aabbccdd", True), ("aabbccde", False)):
        found = bootstrap(columns, ratio, design_of(list("12345678"), list(strata)), seed=0)
        assert found is not None
        assert (found.low is not None) == limited
