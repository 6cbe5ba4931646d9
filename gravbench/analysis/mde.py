"""How large a loss a gate would find, from the run's own variance.

The counter rules fail when the upper one-sided bound of a paired ratio lies below 1 - margin. With standard
error `se` of the log ratio, P(fail at a true drop d) = Phi((log(1 - margin) - log(1 - d)) / se - z).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from gravbench.analysis.bootstrap import Design, Floats, Statistic, enough_clusters, resampled_sums
from gravbench.records import Record

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
