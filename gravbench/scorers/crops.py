"""The scorer of single crops: edit distance of text and formulas, TEDS of tables, on raw strings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gravbench.metrics.crop_formula_tree import SIGNATURE as TREE_SIGNATURE
from gravbench.metrics.crop_formula_tree import crop_formula_tree
from gravbench.metrics.crop_ned import SIGNATURE as NED_SIGNATURE
from gravbench.metrics.crop_ned import crop_ned
from gravbench.metrics.crop_teds import SIGNATURE as TEDS_SIGNATURE
from gravbench.metrics.crop_teds import crop_teds
from gravbench.scorers.contract import Answer, Metric, Sample, Score, Scorer

Measure = Callable[[str, str], tuple[float | None, dict[str, float]]]
"""(prediction, reference) -> value and counts."""

UNSCORED = "the metric does not apply to this pair"

METRICS = (
    Metric(
        name="text_ned",
        label="text NED",
        direction="lower",
        definition="Levenshtein distance / longer length of raw text, mean over crops; 0 for two empty ones.",
        signature=NED_SIGNATURE,
        tasks=("text",),
    ),
    Metric(
        name="table_teds",
        label="table TEDS",
        direction="higher",
        definition="1 − tree edit distance / larger tree, cell text included, mean over crops; 0 without "
        "a table on one side.",
        signature=TEDS_SIGNATURE,
        tasks=("table",),
    ),
    Metric(
        name="formula_ned",
        label="formula NED",
        direction="lower",
        definition="Levenshtein distance / longer length of raw LaTeX, mean over crops; 0 for two empty.",
        signature=NED_SIGNATURE,
        tasks=("formula",),
    ),
    Metric(
        name="formula_tree",
        label="formula tree",
        direction="higher",
        definition="1 − tree edit distance / larger tree of the parsed formulas, mean over crops; none "
        "for two blank or enormous ones.",
        signature=TREE_SIGNATURE,
        tasks=("formula",),
    ),
    Metric(
        name="crops_overall",
        label="crops Overall",
        unit="points",
        direction="higher",
        range=(0.0, 100.0),
        definition="Mean of the points of text_ned, table_teds and formula_ned, of those that are scored; "
        "with fewer than two of them.",
        signature="crops_overall|parts:text_ned+table_teds+formula_ned|needs:2|v:1",
        tasks=("text", "table", "formula"),
        parts=("text_ned", "table_teds", "formula_ned"),
        parts_needed=2,
    ),
)

MEASURES: dict[str, Measure] = {
    "text_ned": crop_ned,
    "table_teds": crop_teds,
    "formula_ned": crop_ned,
    "formula_tree": crop_formula_tree,
}


class CropScorer(Scorer):
    """Each metric of a crop's task, measured on the answer and the crop's own text."""

    name = "crops"
    metrics = METRICS

    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        own = [metric for metric in self.metrics if sample.task in metric.tasks and not metric.parts]
        return [[self._score(metric, str(sample.truth), answer) for metric in own] for answer in answers]

    def _score(self, metric: Metric, reference: str, answer: Answer) -> Score:
        if answer.failed:
            return Score(metric=metric.name, value=metric.worst)
        value, counts = MEASURES[metric.name](answer.text, reference)
        return Score(
            metric=metric.name, value=value, counts=counts, reason=UNSCORED if value is None else None
        )
