"""Quality differences in points, with the composite recomputed inside every resample.

A component is a metric's mean over the samples it applies to; components have different samples, so their
composite cannot be averaged per sample. Everything is kept as sums: value = sum(points) / sum(weights),
where the weight of a unit is the number of pieces its score is the mean of.

    points    100 * value, or 100 * (1 - value) where lower is better: 100 is always best
    composite mean of the points of text, table and formula; on pages with CDM it is OmniDocBench's Overall
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gravbench.analysis.bootstrap import CONFIDENCE, Design, Floats, Interval, Statistic, bootstrap, divided
from gravbench.errors import NotComparableError
from gravbench.records import Record
from gravbench.store.schema import ScoreRecord

COMPOSITE = "overall"
PIECES = "pieces"
"""Key in a score's counts: how many pieces (tables of a page) its value is the mean of. Absent: one."""
EXACT_CHANGED = 12
RANDOM_FLIPS = 10_000
FAMILIES: tuple[tuple[str, ...], ...] = (
    ("text_ned",),
    ("table_teds",),
    ("formula_cdm", "formula_ned"),
)
"""Parts of the composite; of a family the first metric present counts."""

UnitScores = Sequence[Sequence[ScoreRecord]]
"""Scores of each unit, in the order of the design's rows."""


class QualityDifference(Record):
    """own - base in points. `changed` units have different values; `sign_flip_p` is two-sided.

    The sign-flip test stands beside the interval because an interval is too narrow when few units change.
    """

    base: float
    own: float
    difference: float
    low: float | None
    high: float | None
    n: int
    changed: int
    sign_flip_p: float | None


def higher_is_better(metric: str) -> bool:
    """Distances end in `_ned`; every other metric is a similarity."""
    return not metric.endswith("_ned")


def points(metric: str, value: float) -> float:
    """A metric value in [0, 1] on the common scale: 100 is best."""
    return 100 * (value if higher_is_better(metric) else 1 - value)


def quality_differences(
    base: UnitScores,
    own: UnitScores,
    *,
    design: Design,
    seed: int,
    resamples: int,
    confidence: float = CONFIDENCE,
) -> dict[str, QualityDifference]:
    """Per metric, and for the composite when two or more families are scored.

    A unit counts for a metric when both sides are scored; scored on one side alone is not comparable.
    """
    metrics = sorted({score.metric for scores in (*base, *own) for score in scores})
    columns = {metric: _columns(metric, base, own) for metric in metrics}
    columns = {metric: c for metric, c in columns.items() if c[:, 1].any()}
    found = {
        metric: _difference([column], design=design, seed=seed, resamples=resamples, confidence=confidence)
        for metric, column in columns.items()
    }
    parts = [column for family in FAMILIES if (column := _first(family, columns)) is not None]
    if len(parts) > 1:
        found[COMPOSITE] = _difference(
            parts, design=design, seed=seed, resamples=resamples, confidence=confidence
        )
    return {name: difference for name, difference in found.items() if difference is not None}


def composite_difference(parts: int) -> Statistic:
    """Mean difference over `4 * parts` columns: base points, base weight, own points, own weight."""

    def statistic(sums: Floats) -> Floats:
        gaps = [
            divided(sums[..., 4 * i + 2], sums[..., 4 * i + 3])
            - divided(sums[..., 4 * i], sums[..., 4 * i + 1])
            for i in range(parts)
        ]
        return np.asarray(np.mean(gaps, axis=0), dtype=np.float64)

    return statistic


def sign_flip_p(differences: Floats, *, seed: int) -> float | None:
    """Two-sided p of the sum under random signs of the non-zero differences; `None` when all are zero.

    Exact up to 12 changed units, else 10,000 random sign vectors.
    """
    changed = differences[differences != 0]
    if not len(changed):
        return None
    if len(changed) <= EXACT_CHANGED:
        bits = (np.arange(2 ** len(changed))[:, None] >> np.arange(len(changed))) & 1
        signs = 1.0 - 2.0 * bits
        extreme = np.abs(signs @ changed) >= abs(changed.sum()) * (1 - 1e-12)
        return float(extreme.mean())
    bits = np.random.default_rng(seed).integers(0, 2, size=(RANDOM_FLIPS, len(changed)), dtype=np.int8)
    signs = 1.0 - 2.0 * bits
    extreme = np.abs(signs @ changed) >= abs(changed.sum()) * (1 - 1e-12)
    return float((extreme.sum() + 1) / (RANDOM_FLIPS + 1))


def _difference(
    parts: Sequence[Floats], *, design: Design, seed: int, resamples: int, confidence: float
) -> QualityDifference | None:
    table = np.column_stack(parts)
    found: Interval | None = bootstrap(
        table,
        composite_difference(len(parts)),
        design,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
    )
    if found is None:
        return None
    base, own = (_side(parts, points=2 * side) for side in (0, 1))
    moved = own - base
    return QualityDifference(
        base=float(base.sum()),
        own=float(own.sum()),
        difference=found.value,
        low=found.low,
        high=found.high,
        n=int(np.any([part[:, 1] > 0 for part in parts], axis=0).sum()),
        changed=int(np.any([(part[:, :2] != part[:, 2:]).any(axis=1) for part in parts], axis=0).sum()),
        sign_flip_p=sign_flip_p(moved, seed=seed),
    )


def _side(parts: Sequence[Floats], *, points: int) -> Floats:
    """What each unit adds to the composite of one side; their sum is the composite."""
    shares = [part[:, points] / part[:, points + 1].sum() / len(parts) for part in parts]
    return np.asarray(np.sum(shares, axis=0), dtype=np.float64)


def _columns(metric: str, base: UnitScores, own: UnitScores) -> Floats:
    """Rows [n, 4] of one metric: base points x weight, base weight, own points x weight, own weight."""
    rows = np.zeros((len(base), 4))
    for index, (a, b) in enumerate(zip(base, own, strict=True)):
        mine, theirs = _scored(metric, a), _scored(metric, b)
        if (mine is None) != (theirs is None):
            score = a[0] if a else b[0]
            raise NotComparableError(
                f"sample {score.sample_id!r}: {metric} is scored on one side only",
                hint="Score both sides with the same scorer.",
            )
        if mine is not None and theirs is not None:
            rows[index] = (
                points(metric, mine[0]) * mine[1],
                mine[1],
                points(metric, theirs[0]) * theirs[1],
                theirs[1],
            )
    return rows


def _scored(metric: str, scores: Sequence[ScoreRecord]) -> tuple[float, float] | None:
    """Value and weight of one metric on one unit; `None` when it does not apply."""
    for score in scores:
        if score.metric == metric and score.value is not None:
            weight = score.counts.get(PIECES, 1.0)
            if not (math.isfinite(score.value) and math.isfinite(weight) and weight > 0):
                raise NotComparableError(
                    f"sample {score.sample_id!r}: {metric} is {score.value} with weight {weight}, "
                    "expected a number and a weight above 0",
                    hint="Score the run again.",
                )
            return score.value, weight
    return None


def _first(family: Sequence[str], columns: dict[str, Floats]) -> Floats | None:
    return next((columns[metric] for metric in family if metric in columns), None)
