"""Bootstrap of any statistic of column sums: paired, clustered by page, stratified.

A run is a table of units (one row a sample) with additive columns: times, tokens, rounds, score sums. Every
headline is a function of the columns' sums, so a resample is a weighted sum of rows and the statistic is
computed again inside it. Rows are paired by construction: both sides of a comparison are columns of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.analysis.limits import outer_limits
from gravbench.records import Record

RESAMPLES = 10_000
MIN_FREEDOM = 4
"""Clusters less strata that limits need: five clusters of one stratum. On fewer they cover 52 to 86 %."""
MAX_UNDEFINED = 0.01
"""Share of draws in which a statistic may be undefined before the others stop telling its spread."""
CONFIDENCE = 0.95
_CHUNK_CELLS = 200_000
"""Resampled indices held at once: what fits a processor's cache is done in a third of the time."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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
