"""Intervals for ratios of sums over pairs. Never a mean of ratios."""

from __future__ import annotations

import numpy as np

from gravbench.analysis.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    Design,
    Floats,
    Interval,
    bootstrap,
    independent,
    ratio,
)

__all__ = ["CONFIDENCE", "RESAMPLES", "Floats", "Interval", "bootstrap_ratio", "ratio_of_sums"]


def ratio_of_sums(numerator: Floats, denominator: Floats) -> float:
    """sum(numerator) / sum(denominator); the denominator must not sum to 0."""
    return float(numerator.sum() / denominator.sum())


def bootstrap_ratio(
    numerator: Floats,
    denominator: Floats,
    *,
    design: Design | None = None,
    seed: int,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Ratio of sums over pairs with its paired bootstrap interval, every pair on its own unless `design`
    says otherwise.

    With fewer than five pairs there is no interval; with identical ratios it has no width.
    """
    found = bootstrap(
        np.column_stack((numerator, denominator)),
        ratio,
        design or independent(len(numerator)),
        seed=seed,
        resamples=resamples,
        confidence=confidence,
    )
    if found is None:
        raise ValueError("the denominators sum to 0")
    return found
