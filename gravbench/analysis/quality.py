"""Quality in points: levels and differences, with the composite recomputed inside every resample.

A component is a metric's mean over the samples it applies to; components have different samples, so their
composite cannot be averaged per sample. Everything is kept as sums: value = sum(points) / sum(weights). A
page's score is its part in an official average of pages, so a unit weighs 1 where it is scored, unless its
score has a weight of its own (a page of tests weighs as many as it has).

    points    100 * value, or 100 * (1 - value) where lower is better: 100 is always best
    composite mean of text, table and formula points: OmniDocBench's Overall on pages, crops_overall on crops
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

import numpy as np

from gravbench.analysis.bootstrap import CONFIDENCE, Design, Floats, Interval, Statistic, bootstrap, divided
from gravbench.analysis.loaded import ElementSums
from gravbench.errors import NotComparableError
from gravbench.records import Record
from gravbench.scorers.contract import Metric, metric_table, weight_of
from gravbench.store.schema import ScoreRecord

EXACT_CHANGED = 12
RANDOM_FLIPS = 10_000


@cache
def metric_rows() -> dict[str, Metric]:
    """Every metric of every scorer here, by name."""
    return metric_table()


def metric_of(name: str) -> Metric:
    """The metric's row; `NotComparableError` where no scorer here has it."""
    if name not in metric_rows():
        raise NotComparableError(
            f"metric {name!r}: no scorer here has it", hint="Install the package that scored this run."
        )
    return metric_rows()[name]


def composites() -> dict[str, Metric]:
    """Metrics that are made of others, in the order of the table."""
    return {name: metric for name, metric in metric_rows().items() if metric.parts}


def is_composite(name: str) -> bool:
    """Whether a metric is made of others; one that no scorer here has is not."""
    return name in metric_rows() and bool(metric_rows()[name].parts)


def label_of(name: str) -> str:
    """A metric as people read it; its name where no scorer here has it."""
    return metric_rows()[name].label if name in metric_rows() else name


UnitScores = Sequence[Sequence[ScoreRecord]]
"""Scores of each unit, in the order of the design's rows."""


class QualityDifference(Record):
    """own - base in points. `changed` units have different values; `sign_flip_p` is two-sided.

    There are no limits where a part, on one of the sides, rests on fewer than five clusters. `parts` of a
    composite says how many units each component rests on; `one_sided` units, pages alone, are scored on one
    side only, where the other has no such element. The sign-flip test stands beside the interval because an
    interval is too narrow when few units change.
    """

    base: float
    own: float
    difference: float
    low: float | None
    high: float | None
    n: int
    changed: int
    sign_flip_p: float | None
    one_sided: int = 0
    parts: dict[str, int] | None = None
    """Absent for single metrics, and in documents older than the field."""


class QualityLevel(Record):
    """Points (100 is best) of one strategy: the metric's mean over the samples it applies to."""

    points: Interval
    n: int


def points(metric: str, value: float) -> float:
    """A metric's value on the common scale: 0 to 100, and 100 is best."""
    return metric_of(metric).points(value)


def quality_differences(
    base: UnitScores,
    own: UnitScores,
    *,
    design: Design,
    seed: int,
    resamples: int,
    confidence: float = CONFIDENCE,
) -> dict[str, QualityDifference]:
    """Per metric, and per composite whose components are scored.

    A unit counts on the side on which it is scored. A crop scored on one side alone, a metric that one side
    lacks altogether, or another signature is not comparable. A page may have text on one side only, but not
    if both sides wrote the same.
    """
    metrics = sorted({score.metric for scores in (*base, *own) for score in scores})
    columns = {metric: _columns(metric, base, own) for metric in metrics}
    columns = {metric: c for metric, c in columns.items() if c[:, [1, 3]].any()}
    parts = {metric: {metric: column} for metric, column in columns.items()}
    for name, composite in composites().items():
        scored = {metric: columns[metric] for metric in composite.parts if metric in columns}
        if len(scored) >= composite.parts_needed:
            parts[name] = scored
    found = {
        name: _difference(named, design=design, seed=seed, resamples=resamples, confidence=confidence)
        for name, named in parts.items()
    }
    return {name: difference for name, difference in found.items() if difference is not None}


def element_differences(
    base: Sequence[ElementSums],
    own: Sequence[ElementSums],
    element: str,
    label: str,
    *,
    design: Design,
    seed: int,
    resamples: int,
) -> dict[str, QualityDifference]:
    """Per metric, over the elements with this attribute: mean points of all of them, pages as they come.

    A metric that a side does not have is left out.
    """
    metrics = sorted({m for sums in (*base, *own) for m in sums.get(element, {}).get(label, {})})
    found: dict[str, QualityDifference] = {}
    for metric in metrics:
        rows = np.zeros((len(base), 4))
        for index, sides in enumerate(zip(base, own, strict=True)):
            for side, sums in enumerate(sides):
                total, count = sums.get(element, {}).get(label, {}).get(metric, (0.0, 0))
                if count:
                    rows[index, 2 * side : 2 * side + 2] = count * points(metric, total / count), count
        if rows[:, 1].any() and rows[:, 3].any():
            named = {metric: rows}
            d = _difference(named, design=design, seed=seed, resamples=resamples, confidence=CONFIDENCE)
            if d is not None:
                found[metric] = d
    return found


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


def weight_columns(parts: int) -> tuple[int, ...]:
    """Which columns of `composite_difference` are weights: the units that each part rests on."""
    return tuple(range(1, 4 * parts, 2))


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
    named: Mapping[str, Floats], *, design: Design, seed: int, resamples: int, confidence: float
) -> QualityDifference | None:
    parts = list(named.values())
    table = np.column_stack(parts)
    found: Interval | None = bootstrap(
        table,
        composite_difference(len(parts)),
        design,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
        parts=weight_columns(len(parts)),
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
        n=int(np.any([part[:, [1, 3]].any(axis=1) for part in parts], axis=0).sum()),
        changed=int(np.any([(part[:, :2] != part[:, 2:]).any(axis=1) for part in parts], axis=0).sum()),
        sign_flip_p=sign_flip_p(moved, seed=seed),
        one_sided=int(np.any([(part[:, 1] > 0) != (part[:, 3] > 0) for part in parts], axis=0).sum()),
        parts={metric: int(part[:, [1, 3]].any(axis=1).sum()) for metric, part in named.items()}
        if len(named) > 1
        else None,
    )


def _side(parts: Sequence[Floats], *, points: int) -> Floats:
    """What each unit adds to the composite of one side; their sum is the composite."""
    shares = [part[:, points] / part[:, points + 1].sum() / len(parts) for part in parts]
    return np.asarray(np.sum(shares, axis=0), dtype=np.float64)


def _columns(metric: str, base: UnitScores, own: UnitScores) -> Floats:
    """Rows [n, 4] of one metric: base points, base weight, own points, own weight; 0 where not scored."""
    rows = np.zeros((len(base), 4))
    for index, (a, b) in enumerate(zip(base, own, strict=True)):
        mine, theirs = _scored(metric, a), _scored(metric, b)
        if mine is not None and theirs is not None and mine.signature != theirs.signature:
            raise NotComparableError(
                f"sample {mine.sample_id!r}: {metric} has signatures {mine.signature} and {theirs.signature}",
                hint="Score both sides with the same scorer.",
            )
        if (mine is None) != (theirs is None):
            one = mine or theirs
            assert one is not None
            if one.task != "page" or _same_text(metric, a, b):
                raise _one_sided(f"sample {one.sample_id!r}", metric, a, b)
        for side, score in enumerate((mine, theirs)):
            if score is not None and score.value is not None:
                weight = weight_of(score)
                rows[index, 2 * side : 2 * side + 2] = weight * points(metric, score.value), weight
    if rows[:, 1].any() != rows[:, 3].any():
        raise _one_sided("all samples", metric, list(chain(*base)), list(chain(*own)))
    return rows


def _one_sided(
    what: str, metric: str, base: Sequence[ScoreRecord], own: Sequence[ScoreRecord]
) -> NotComparableError:
    """With the reason that the side without a value gives."""
    sides = {"first": base, "second": own}
    absent = {
        side: next((s.reason for s in scores if s.metric == metric and s.value is None and s.reason), None)
        for side, scores in sides.items()
        if not any(s.metric == metric and s.value is not None for s in scores)
    }
    why = "; ".join(f"on the {side} because {reason}" for side, reason in absent.items() if reason)
    return NotComparableError(
        f"{what}: {metric} is scored on one side only" + (f", not {why}" if why else ""),
        hint="Score both sides with the same scorer on a machine that has its tools: `gravbench doctor` "
        "names what is missing, `gravbench score RUN` scores a run again.",
    )


def _same_text(metric: str, base: Sequence[ScoreRecord], own: Sequence[ScoreRecord]) -> bool:
    """Whether both sides have a record of the metric, of one text against one reference."""
    texts = [
        [(score.prediction_sha, score.reference_sha) for score in side if score.metric == metric]
        for side in (base, own)
    ]
    return bool(texts[0]) and texts[0] == texts[1]


def _scored(metric: str, scores: Sequence[ScoreRecord]) -> ScoreRecord | None:
    """The score of one metric on one unit; `None` when it does not apply."""
    for score in scores:
        if score.metric == metric and score.value is not None:
            if not math.isfinite(score.value):
                raise NotComparableError(
                    f"sample {score.sample_id!r}: {metric} is {score.value}, expected a number",
                    hint="Score the run again.",
                )
            return score
    return None


def quality_levels(
    scores: Sequence[Sequence[ScoreRecord]], *, design: Design, seed: int, resamples: int
) -> dict[str, QualityLevel]:
    """Per metric, and per composite whose components are scored. A metric scored nowhere is absent."""
    metrics = sorted({s.metric for unit in scores for s in unit if s.value is not None})
    columns = {metric: _level_columns(metric, scores) for metric in metrics}
    chosen = {metric: [columns[metric]] for metric in metrics}
    for name, composite in composites().items():
        scored = [columns[metric] for metric in composite.parts if metric in columns]
        if len(scored) >= composite.parts_needed:
            chosen[name] = scored
    found: dict[str, QualityLevel] = {}
    for name, blocks in chosen.items():
        interval = bootstrap(
            np.column_stack(blocks),
            composite_difference(len(blocks)),
            design,
            seed=seed,
            resamples=resamples,
            parts=weight_columns(len(blocks)),
        )
        if interval is not None:
            n = int(np.any([block[:, 3] > 0 for block in blocks], axis=0).sum())
            found[name] = QualityLevel(points=interval, n=n)
    return found


def _level_columns(metric: str, scores: Sequence[Sequence[ScoreRecord]]) -> Floats:
    """Rows [n, 4]: nothing with weight 1, then points and weight; a difference against 0 is the level."""
    rows = np.zeros((len(scores), 4))
    rows[:, 1] = 1.0
    for index, unit in enumerate(scores):
        for score in unit:
            if score.metric == metric and score.value is not None:
                weight = weight_of(score)
                rows[index, 2:] = weight * points(metric, score.value), weight
    return rows
