"""Quality of one strategy on its own, in points with an interval; differences live in the analysis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gravbench.analysis.bootstrap import Design, Floats, bootstrap
from gravbench.analysis.overall_difference import COMPOSITES, composite_difference, points, weight_columns
from gravbench.reporting.document import QualityLevel
from gravbench.store.schema import ScoreRecord


def quality_levels(
    scores: Sequence[Sequence[ScoreRecord]], *, design: Design, seed: int, resamples: int
) -> dict[str, QualityLevel]:
    """Per metric, and per composite whose components are scored. A metric scored nowhere is absent."""
    metrics = sorted({s.metric for unit in scores for s in unit if s.value is not None})
    columns = {metric: _columns(metric, scores) for metric in metrics}
    chosen = {metric: [columns[metric]] for metric in metrics}
    for name, (components, needed) in COMPOSITES.items():
        scored = [columns[metric] for metric in components if metric in columns]
        if len(scored) >= needed:
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


def _columns(metric: str, scores: Sequence[Sequence[ScoreRecord]]) -> Floats:
    """Rows [n, 4]: nothing with weight 1, then points and weight; a difference against 0 is the level."""
    rows = np.zeros((len(scores), 4))
    rows[:, 1] = 1.0
    for index, unit in enumerate(scores):
        for score in unit:
            if score.metric == metric and score.value is not None:
                rows[index, 2:] = points(metric, score.value), 1.0
    return rows
