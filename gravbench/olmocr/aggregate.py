"""From tests to numbers: pass rates, the official interval, and one that keeps pages together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUNDS = 1000
LEVEL = 0.95

Interval = tuple[float, float]


def official_interval(
    splits: Sequence[Sequence[float]], *, seed: int, rounds: int = ROUNDS, level: float = LEVEL
) -> Interval:
    """Percentile bootstrap of the mean of category means; each category is resampled to its own size.

    The official function with its generator seeded: numpy's legacy one, per round and category one draw of
    indices.
    """
    arrays = [np.asarray(split, dtype=float) for split in splits if len(split)]
    if not arrays:
        return 0.0, 0.0
    generator = np.random.RandomState(seed)
    means = np.empty((rounds, len(arrays)))
    for number in range(rounds):
        for column, values in enumerate(arrays):
            size = len(values)
            means[number, column] = values.take(generator.randint(0, size, size=size)).sum() / size
    return _percentiles(means.mean(axis=1), level)


def _percentiles(values: NDArray[np.float64], level: float) -> Interval:
    outside = (1.0 - level) / 2 * 100
    low, high = np.percentile(values, [outside, 100.0 - outside])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class PageCounts:
    """Tests passed and tests scored, [pdfs, categories].

    Row order is that of the PDF names it was made for.
    """

    passed: NDArray[np.float64]
    scored: NDArray[np.float64]


def page_interval(counts: PageCounts, *, seed: int, rounds: int = ROUNDS, level: float = LEVEL) -> Interval:
    """Percentile bootstrap that draws whole PDFs: tests of one page succeed and fail together."""
    return _percentiles(_resampled(counts, seed=seed, rounds=rounds), level)


def paired_interval(
    first: PageCounts, second: PageCounts, *, seed: int, rounds: int = ROUNDS, level: float = LEVEL
) -> Interval:
    """Interval of the difference second minus first of two candidates, drawn with the same PDFs for both."""
    drawn = [_resampled(counts, seed=seed, rounds=rounds) for counts in (first, second)]
    return _percentiles(drawn[1] - drawn[0], level)


def _resampled(counts: PageCounts, *, seed: int, rounds: int) -> NDArray[np.float64]:
    """Mean of category rates in each round.

    A category of which a round drew no test is left out of its mean.
    """
    n = len(counts.passed)
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(n, np.full(n, 1.0 / n), size=rounds).astype(float)  # [rounds, pdfs]
    passed, scored = weights @ counts.passed, weights @ counts.scored  # [rounds, categories]
    present = scored > 0
    rates = np.divide(passed, scored, out=np.zeros_like(passed), where=present)
    return np.asarray(rates.sum(axis=1) / np.maximum(present.sum(axis=1), 1))


def mean_of_rates(categories: Mapping[str, tuple[int, int]]) -> float | None:
    """Plain mean of passed / all over categories with tests; None without any."""
    rates = [passed / total for passed, total in categories.values() if total]
    return sum(rates) / len(rates) if rates else None
