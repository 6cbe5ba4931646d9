"""Quality of one strategy on its own, in points with an interval; differences live in the analysis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gravbench.analysis.bootstrap import Design, Floats, bootstrap
from gravbench.analysis.overall_difference import COMPOSITE, FAMILIES, composite_difference, points
from gravbench.reporting.document import QualityLevel
from gravbench.store.schema import ScoreRecord


def quality_levels(
    scores: Sequence[Sequence[ScoreRecord]], *, design: Design, seed: int, resamples: int
) -> dict[str, QualityLevel]:
    """Per metric, and `overall` when two families or more are scored. A metric scored nowhere is absent."""
    metrics = sorted({s.metric for unit in scores for s in unit if s.value is not None})
    columns = {metric: _columns(metric, scores) for metric in metrics}
    chosen = {metric: [columns[metric]] for metric in metrics}
    parts = [columns[m] for family in FAMILIES if (m := next((m for m in family if m in columns), None))]
    if len(parts) > 1:
        chosen[COMPOSITE] = parts
    found: dict[str, QualityLevel] = {}
    for name, blocks in chosen.items():
        interval = bootstrap(
            np.column_stack(blocks),
            composite_difference(len(blocks)),
            design,
            seed=seed,
            resamples=resamples,
        )
        if interval is not None:
            n = int(np.any([block[:, 2] > 0 for block in blocks], axis=0).sum())
            found[name] = QualityLevel(points=interval, n=n)
    return found


def _columns(metric: str, scores: Sequence[Sequence[ScoreRecord]]) -> Floats:
    """Rows [n, 3]: 0, points x weight, weight; a difference against 0 is the level itself."""
    rows = np.zeros((len(scores), 3))
    for index, unit in enumerate(scores):
        for score in unit:
            if score.metric == metric and score.value is not None:
                rows[index] = 0.0, points(metric, score.value), 1.0
    return rows
