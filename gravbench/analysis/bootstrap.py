"""Bootstrap of any statistic of column sums (paired, clustered by page, stratified), and its limits.

A run is a table of units (one row a sample) with additive columns: times, tokens, rounds, score sums. Every
headline is a function of the columns' sums, so a resample is a weighted sum of rows and the statistic is
computed again inside it. Rows are paired by construction: both sides of a comparison are columns of one row.

Two limits are made and the outer ones reported. BCa corrects bias and skewness, but estimates both from the
same few heavy-tailed rows, and where there is only noise to estimate it moves the limits the wrong way.
Expanded percentiles (Hesterberg 2015) have Student's tails and the jackknife's spread, but no correction.
Neither covers well everywhere; together they come close.

The last part says how large a loss a gate would find, from the run's own variance. The counter rules fail
when the upper one-sided bound of a paired ratio lies below 1 - margin. With standard error `se` of the log
ratio, P(fail at a true drop d) = Phi((log(1 - margin) - log(1 - d)) / se - z).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from gravbench.records import Record

METHOD = "BCa widened to expanded percentiles"
"""What an interval is called wherever one is printed or stored."""

Limits = tuple[float, float]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def outer_limits(
    draws: Floats, value: float, influences: Floats, *, stratum_of: Ints, confidence: float
) -> Limits:
    """The lower of both low limits and the higher of both high limits. At least one draw must be defined."""
    bca = bca_limits(draws, value, influences, stratum_of=stratum_of, confidence=confidence)
    expanded = expanded_limits(draws, influences, stratum_of=stratum_of, confidence=confidence)
    return min(bca[0], expanded[0]), max(bca[1], expanded[1])


def bca_limits(
    draws: Floats, value: float, influences: Floats, *, stratum_of: Ints, confidence: float
) -> Limits:
    """Limits of the BCa interval; plain percentiles where bias or acceleration is undefined.

    Efron 1987; with strata the acceleration is the pooled skewness of the influence values, each divided
    by the size of its stratum (Davison and Hinkley 1997, section 5.3.2). Ties with `value` count by half.
    Undefined draws are left out.
    """
    defined = draws[np.isfinite(draws)]
    tail = (1 - confidence) / 2
    levels = tail, 1 - tail
    spread = max(abs(value), 1.0) * 1e-12
    below = float(np.mean(defined < value - spread) + 0.5 * np.mean(np.abs(defined - value) <= spread))
    scaled = influences / np.bincount(stratum_of)[stratum_of]
    scale = float((scaled**2).sum())
    if 0 < below < 1 and scale > 0:
        acceleration = float((scaled**3).sum()) / (6 * scale**1.5)
        bias = NormalDist().inv_cdf(below)
        levels = _shifted(levels[0], bias, acceleration), _shifted(levels[1], bias, acceleration)
    low, high = np.quantile(defined, levels)
    return float(low), float(high)


def expanded_limits(draws: Floats, influences: Floats, *, stratum_of: Ints, confidence: float) -> Limits:
    """Percentiles at Phi(-+ k t), t the quantile of Student's t with clusters - strata degrees of freedom.

    k = max(sqrt(clusters / (clusters - strata)), jackknife error / spread of the draws) undoes the resamples'
    too small variance. All draws with no degree of freedom. Undefined draws are left out.
    """
    defined = draws[np.isfinite(draws)]
    sizes = np.bincount(stratum_of)
    freedom = len(stratum_of) - int((sizes > 0).sum())
    if freedom < 1:
        return float(defined.min()), float(defined.max())
    factor, spread = sqrt(len(stratum_of) / freedom), float(defined.std())
    if spread > 0:
        factor = max(factor, jackknife_error(influences, stratum_of) / spread)
    tail = NormalDist().cdf(factor * student_quantile((1 - confidence) / 2, freedom))
    low, high = np.quantile(defined, (tail, 1 - tail))
    return float(low), float(high)


def student_quantile(level: float, freedom: int) -> float:
    """Quantile of Student's t at `level`, in 0..1, with `freedom` degrees of freedom, 1 and up."""
    from scipy.special import stdtrit  # a second start-up, which verbs that make no interval do without

    return float(stdtrit(freedom, level))


def jackknife_error(influences: Floats, stratum_of: Ints) -> float:
    """Standard error sqrt(sum of influence^2 / (n (n - 1))), n the size of the stratum.

    0 and up; a cluster alone in its stratum adds nothing.
    """
    sizes = np.bincount(stratum_of)[stratum_of].astype(np.float64)
    return float(np.sqrt((influences**2 / np.maximum(sizes * (sizes - 1), 1.0)).sum()))


def _shifted(level: float, bias: float, acceleration: float) -> float:
    """BCa's level; the outermost one where the acceleration is too large for the formula."""
    normal = NormalDist()
    moved = bias + normal.inv_cdf(level)
    room = 1 - acceleration * moved
    return normal.cdf(bias + moved / room) if room > 0 else float(moved > 0)


RESAMPLES = 10_000
MIN_FREEDOM = 4
"""Clusters less strata that limits need: five clusters of one stratum. On fewer they cover 52 to 86 %."""
MAX_UNDEFINED = 0.01
"""Share of draws in which a statistic may be undefined before the others stop telling its spread."""
CONFIDENCE = 0.95
_CHUNK_CELLS = 200_000
"""Resampled indices held at once: what fits a processor's cache is done in a third of the time."""

Statistic = Callable[[Floats], Floats]
"""Column sums [..., k] -> values [...]; NaN or infinity where the statistic is not defined."""


class Interval(Record):
    """A point estimate with an interval; the limits are `None` on too few clusters (see `bootstrap`)."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is drawn together and from where: clusters (pages) within strata (subsets of the suite)."""

    cluster_of: Ints  # [n] cluster of each row, 0..m-1
    stratum_of: Ints  # [m] stratum of each cluster, 0..s-1

    @property
    def n_clusters(self) -> int:
        return len(self.stratum_of)

    def freedom(self, clusters: Ints) -> int:
        """`clusters` (numbers of some of them) less the strata they lie in."""
        return len(clusters) - len(np.unique(self.stratum_of[clusters]))


def independent(n: int) -> Design:
    """Every row a cluster of its own, one stratum."""
    return Design(cluster_of=np.arange(n), stratum_of=np.zeros(n, dtype=np.int64))


def design_of(clusters: Sequence[str], strata: Sequence[str]) -> Design:
    """Design from one cluster and one stratum label per row. A cluster that spans strata is a ValueError."""
    if not clusters:
        return independent(0)
    _, first, cluster_of = np.unique(np.array(clusters), return_index=True, return_inverse=True)
    _, stratum_of_row = np.unique(np.array(strata), return_inverse=True)
    stratum_of = stratum_of_row[first]
    if not np.array_equal(stratum_of[cluster_of], stratum_of_row):
        raise ValueError("a cluster has rows in more than one stratum")
    return Design(cluster_of=cluster_of.astype(np.int64), stratum_of=stratum_of.astype(np.int64))


def ratio(sums: Floats) -> Floats:
    """Column 0 / column 1; NaN where the denominator is not positive."""
    return divided(sums[..., 0], sums[..., 1])


def divided(numerator: Floats, denominator: Floats) -> Floats:
    """Element by element; NaN where the denominator is not positive."""
    defined = denominator > 0
    return np.where(defined, numerator / np.where(defined, denominator, 1.0), np.nan)


def bootstrap(
    columns: Floats,
    statistic: Statistic,
    design: Design,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    parts: Sequence[int] = (),
) -> Interval | None:
    """`statistic` of the sums of `columns` [n, k] with its two-sided interval; `None` if not defined.

    There are no limits where fewer than five clusters (`MIN_FREEDOM`) have anything in `columns`, or in one
    of the columns `parts`, or where more than 1 % of the draws are undefined: a part that sits on one page
    has no variance to show. A one-sided bound at level p is the limit of the two-sided interval at
    confidence 2p - 1.
    """
    found = bootstraps(
        columns, {"it": statistic}, design, seed=seed, resamples=resamples, confidence=confidence, parts=parts
    )
    return found.get("it")


def bootstraps(
    columns: Floats,
    statistics: Mapping[str, Statistic],
    design: Design,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    parts: Sequence[int] = (),
) -> dict[str, Interval]:
    """Several statistics of the same resamples, each as `bootstrap` gives it; one not defined is absent."""
    total = columns.sum(axis=0)
    values = {name: float(statistic(total)) for name, statistic in statistics.items()}
    values = {name: value for name, value in values.items() if np.isfinite(value)}
    if not values or not enough_clusters(columns, design, parts=parts):
        return {name: Interval(value=value) for name, value in values.items()}
    sums = resampled_sums(columns, design, seed=seed, resamples=resamples)
    found: dict[str, Interval] = {}
    for name, value in values.items():
        draws = statistics[name](sums)
        if np.mean(~np.isfinite(draws)) > MAX_UNDEFINED:
            found[name] = Interval(value=value)
            continue
        low, high = outer_limits(
            draws,
            value,
            influence(columns, statistics[name], design),
            stratum_of=design.stratum_of,
            confidence=confidence,
        )
        found[name] = Interval(value=value, low=low, high=high)
    return found


def enough_clusters(columns: Floats, design: Design, *, parts: Sequence[int] = ()) -> bool:
    """Whether the rows that are not all 0, and those with each of `parts`, lie in clusters enough."""
    carried = cluster_sums(np.abs(columns), design) > 0
    wanted = [carried.any(axis=1), *(carried[:, part] for part in parts)]
    return all(design.freedom(np.flatnonzero(there)) >= MIN_FREEDOM for there in wanted)


def cluster_sums(columns: Floats, design: Design) -> Floats:
    """Rows added up by cluster [m, k]."""
    sums = np.zeros((design.n_clusters, columns.shape[1]))
    np.add.at(sums, design.cluster_of, columns)
    return sums


def resampled_sums(columns: Floats, design: Design, *, seed: int, resamples: int) -> Floats:
    """Sums of resampled clusters [resamples, k]: each stratum keeps its number of clusters."""
    rng = np.random.default_rng(seed)
    sums = cluster_sums(columns, design)
    drawn = np.zeros((resamples, columns.shape[1]))
    for stratum in np.unique(design.stratum_of):
        members = sums[design.stratum_of == stratum]
        chunk = max(1, _CHUNK_CELLS // len(members))
        for start in range(0, resamples, chunk):
            rows = min(chunk, resamples - start)
            drawn[start : start + rows] += _drawn_counts(len(members), rows, rng) @ members
    return drawn


def influence(columns: Floats, statistic: Statistic, design: Design) -> Floats:
    """Jackknife influence of each cluster [m]: (n_s - 1) (mean of its stratum - value without it).

    0 where leaving the cluster out makes the statistic undefined.
    """
    sums = cluster_sums(columns, design)
    without = statistic(sums.sum(axis=0) - sums)
    values = np.zeros(design.n_clusters)
    for stratum in np.unique(design.stratum_of):
        here = (design.stratum_of == stratum) & np.isfinite(without)
        if here.any():
            values[here] = (here.sum() - 1) * (without[here].mean() - without[here])
    return values


def _drawn_counts(n: int, rows: int, rng: np.random.Generator) -> Floats:
    """How often each of `n` members is drawn in each of `rows` draws of `n` [rows, n]."""
    picked = rng.integers(0, n, size=(rows, n)) + np.arange(rows)[:, None] * n
    return np.bincount(picked.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


DROPS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.10)
POWER = 0.95
MAX_SE = 1.0
ROUNDING = 1e-12
"""Standard errors of no more are rounding of equal ratios."""


class DetectableEffect(Record):
    """`power[i]` = P(fail) at a true drop `drops[i]`; `mde` is found with probability 0.95.

    `se` is of the log ratio. Where nothing varied it is 0 and there is no variance to judge from: `power` is
    empty and `mde` `None`, for what did not vary in one run may vary in the next. `mde` is `None` too when no
    drop below 63 % would do.
    """

    name: str
    n: int
    se: float
    margin: float
    drops: tuple[float, ...]
    power: tuple[float, ...]
    mde: float | None


def log_ratio_se(
    columns: Floats, statistic: Statistic, design: Design, *, seed: int, resamples: int
) -> float | None:
    """Bootstrap standard error of log(statistic); `None` when not defined or on too few clusters."""
    if not enough_clusters(columns, design):
        return None
    draws = statistic(resampled_sums(columns, design, seed=seed, resamples=resamples))
    usable = draws[np.isfinite(draws) & (draws > 0)]
    if len(usable) < 2:
        return None
    se = float(np.log(usable).std(ddof=1))
    return se if se > ROUNDING else 0.0


def detectable_effect(name: str, *, n: int, se: float, margin: float, confidence: float) -> DetectableEffect:
    """Power at the usual drops and the drop found with probability 0.95, for a one-sided bound."""
    z = NormalDist().inv_cdf(confidence)
    varied = se > 0
    reach = (z + NormalDist().inv_cdf(POWER)) * se
    return DetectableEffect(
        name=name,
        n=n,
        se=se,
        margin=margin,
        drops=DROPS,
        power=tuple(_power(drop, se=se, margin=margin, z=z) for drop in DROPS) if varied else (),
        mde=1 - (1 - margin) * float(np.exp(-reach)) if varied and reach < MAX_SE else None,
    )


def independent_se(
    columns: Floats, statistic: Statistic, design: Design, *, seed: int, resamples: int
) -> float | None:
    """Standard error if the two sides were independent samples of one population: sqrt(2) times one side's.

    An upper bound for a pair of runs; `columns` holds one side, pages are drawn whole.
    """
    se = log_ratio_se(columns, statistic, design, seed=seed, resamples=resamples)
    return None if se is None else float(np.sqrt(2) * se)


def _power(drop: float, *, se: float, margin: float, z: float) -> float:
    lead = float(np.log(1 - margin) - np.log(1 - drop))
    return NormalDist().cdf(lead / se - z)
