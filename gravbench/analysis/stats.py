"""Intervals for ratios of sums over pairs. Never a mean of ratios."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from gravbench.records import Record

RESAMPLES = 10_000
CONFIDENCE = 0.95
_CHUNK_CELLS = 2_000_000
"""Resampled indices held at once: bounds memory to some tens of megabytes for any number of pairs."""

Floats = NDArray[np.float64]


class Interval(Record):
    """A point estimate with a two-sided interval; the limits are `None` with fewer than two pairs."""

    value: float
    low: float | None = None
    high: float | None = None


def ratio_of_sums(numerator: Floats, denominator: Floats) -> float:
    """sum(numerator) / sum(denominator); the denominator must not sum to 0."""
    return float(numerator.sum() / denominator.sum())


def bootstrap_ratio(
    numerator: Floats,
    denominator: Floats,
    *,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Ratio of sums over pairs with its paired BCa bootstrap interval (Efron 1987).

    Pairs are resampled together. Bias correction counts ties by half; acceleration comes from the
    jackknife. With one pair there is no interval; with identical ratios it has no width.
    """
    value = ratio_of_sums(numerator, denominator)
    if len(numerator) < 2:
        return Interval(value=value)
    draws = _resampled_ratios(numerator, denominator, seed=seed, resamples=resamples)
    low, high = _bca_levels(draws, value, _jackknife(numerator, denominator), confidence=confidence)
    limits = np.quantile(draws, [low, high])
    return Interval(value=value, low=float(limits[0]), high=float(limits[1]))


def _resampled_ratios(numerator: Floats, denominator: Floats, *, seed: int, resamples: int) -> Floats:
    rng = np.random.default_rng(seed)
    n = len(numerator)
    chunk = max(1, _CHUNK_CELLS // n)
    parts = []
    for start in range(0, resamples, chunk):
        picked = rng.integers(0, n, size=(min(chunk, resamples - start), n))  # [chunk, n]
        sums = numerator[picked].sum(axis=1), denominator[picked].sum(axis=1)
        defined = sums[1] > 0  # a resample of nothing but zeros has no ratio
        parts.append(sums[0][defined] / sums[1][defined])
    return np.concatenate(parts)


def _jackknife(numerator: Floats, denominator: Floats) -> Floats:
    rest = denominator.sum() - denominator
    defined = rest > 0
    return np.asarray((numerator.sum() - numerator)[defined] / rest[defined], dtype=np.float64)


def _bca_levels(draws: Floats, value: float, jackknife: Floats, *, confidence: float) -> tuple[float, float]:
    """Percentile levels of the BCa interval; plain percentiles where the correction is undefined."""
    normal = NormalDist()
    tail = (1 - confidence) / 2
    spread = max(abs(value), 1.0) * 1e-12
    below = float(np.mean(draws < value - spread) + 0.5 * np.mean(np.abs(draws - value) <= spread))
    deviations = jackknife.mean() - jackknife
    scale = float((deviations**2).sum())
    if not 0 < below < 1 or scale == 0:
        return tail, 1 - tail
    bias = normal.inv_cdf(below)
    acceleration = float((deviations**3).sum()) / (6 * scale**1.5)

    def level(probability: float) -> float:
        shifted = bias + normal.inv_cdf(probability)
        return normal.cdf(bias + shifted / (1 - acceleration * shifted))

    return level(tail), level(1 - tail)
