"""Predictions x metrics -> scores -> aggregates. Needs no model stack: any run can be scored again anywhere.

Equal texts against equal references are scored once: AR and a lossless strategy share their scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gravbench.errors import NotComparableError
from gravbench.metrics import crop_formula_tree, crop_ned, crop_teds
from gravbench.omnidocbench.page_scores import page_overall, page_signatures
from gravbench.records import Task
from gravbench.store.schema import GenRecord, ScoreRecord, sha256_of, sha256_text

Measure = Callable[[str, str], tuple[float | None, dict[str, float]]]
CacheKey = tuple[str, str, str]
"""(signature, prediction sha, reference sha)."""


@dataclass(frozen=True, kw_only=True)
class CropMetric:
    """A metric of single crops: `measure(prediction, reference)` gives the value and its counts."""

    name: str
    signature: str
    worst: float
    measure: Measure


CROP_METRICS: dict[Task, tuple[CropMetric, ...]] = {
    "text": (
        CropMetric(
            name="text_ned", signature=crop_ned.SIGNATURE, worst=crop_ned.WORST, measure=crop_ned.crop_ned
        ),
    ),
    "table": (
        CropMetric(
            name="table_teds",
            signature=crop_teds.SIGNATURE,
            worst=crop_teds.WORST,
            measure=crop_teds.crop_teds,
        ),
    ),
    "formula": (
        CropMetric(
            name="formula_ned", signature=crop_ned.SIGNATURE, worst=crop_ned.WORST, measure=crop_ned.crop_ned
        ),
        CropMetric(
            name="formula_tree",
            signature=crop_formula_tree.SIGNATURE,
            worst=crop_formula_tree.WORST,
            measure=crop_formula_tree.crop_formula_tree,
        ),
    ),
}
"""The first metric of a task is its headline."""

UNSCORED = "the metric does not apply to this pair"


def signatures(*, pages: bool = False) -> dict[str, str]:
    """Metric name -> signature string, every choice that can move a score; with those of pages if asked."""
    crops = {metric.name: metric.signature for metrics in CROP_METRICS.values() for metric in metrics}
    return {**crops, **page_signatures()} if pages else crops


def scorer_id(*, pages: bool = False) -> str:
    """Folder name of the current scorer: changes when any signature does."""
    return f"{'pages' if pages else 'crops'}-{sha256_of(signatures(pages=pages))[:8]}"


def score_generations(
    generations: Iterable[GenRecord],
    references: Mapping[str, str],
    *,
    known: Sequence[ScoreRecord] = (),
) -> list[ScoreRecord]:
    """Scores of each generation by every metric of its task, sorted by sample, rep, arm and metric.

    Failed generations score worst.

    `known` are stored scores of the same scorer; they are reused by content. A generation without a
    reference raises `NotComparableError`: the suite is not the one the run was made on.
    """
    cache: dict[CacheKey, tuple[float | None, dict[str, float]]] = {
        (s.signature, s.prediction_sha, s.reference_sha): (s.value, s.counts) for s in known if not s.failed
    }
    scores = [score for record in generations for score in _scores(record, references, cache)]
    return sorted(scores, key=lambda s: (s.sample_id, s.rep, s.arm, s.metric))


def mean_quality(scores: Iterable[ScoreRecord]) -> dict[str, float]:
    """Metric name -> mean over its scored samples, failed ones as worst; absent when none was scored."""
    values: dict[str, list[float]] = {}
    for score in scores:
        if score.value is not None:
            values.setdefault(score.metric, []).append(score.value)
    means = {name: sum(column) / len(column) for name, column in sorted(values.items())}
    return {**means, **page_overall(means)}


def _scores(
    record: GenRecord,
    references: Mapping[str, str],
    cache: dict[CacheKey, tuple[float | None, dict[str, float]]],
) -> list[ScoreRecord]:
    if record.sample_id not in references:
        raise NotComparableError(
            f"sample {record.sample_id!r} of the run is not in the suite",
            hint="Score with the suite the run was made on.",
        )
    assert record.task != "page", "pages have a scorer of their own"
    reference = references[record.sample_id]
    return [_score(record, reference, metric, cache) for metric in CROP_METRICS[record.task]]


def _score(
    record: GenRecord,
    reference: str,
    metric: CropMetric,
    cache: dict[CacheKey, tuple[float | None, dict[str, float]]],
) -> ScoreRecord:
    reference_sha = sha256_text(reference)
    failed = record.status != "ok"
    value: float | None = metric.worst
    counts: dict[str, float] = {}
    if not failed:
        key = (metric.signature, record.text_sha, reference_sha)
        if key not in cache:
            cache[key] = metric.measure(record.text, reference)
        value, counts = cache[key]
    reason = UNSCORED if value is None else None
    if record.error is not None:
        reason = f"{record.error.kind}: {record.error.message}"
    return ScoreRecord(
        sample_id=record.sample_id,
        arm=record.arm,
        rep=record.rep,
        task=record.task,
        metric=metric.name,
        signature=metric.signature,
        value=value,
        counts=counts,
        failed=failed,
        reason=reason,
        prediction_sha=record.text_sha,
        reference_sha=reference_sha,
    )
