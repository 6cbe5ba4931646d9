"""Limits of a bootstrap interval: BCa and expanded percentile, of which the outer ones are reported.

BCa corrects bias and skewness, but estimates both from the same few heavy-tailed rows, and where there is
only noise to estimate it moves the limits the wrong way. Expanded percentiles (Hesterberg 2015) have
Student's tails and the jackknife's spread, but no correction. Neither covers well everywhere; together they
come close.
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

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
    tail = NormalDist().cdf(factor * float(stdtrit(freedom, (1 - confidence) / 2)))
    low, high = np.quantile(defined, (tail, 1 - tail))
    return float(low), float(high)


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
