"""The scorers of single crops. `crops`: edit distance of text and formulas, TEDS of tables, on raw strings.

`crops-quick` is for a first look at text of one's own: character and word error rates under named
normalisation chains stand beside the edit distance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gravbench.metrics.edit_distance import CHAINS, character_error_rate, edit_distance, word_error_rate
from gravbench.metrics.formula_tree import formula_tree_score
from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError
from gravbench.metrics.teds import teds_pair
from gravbench.scorers.contract import Answer, Metric, Sample, Score, Scorer

Measure = Callable[[str, str], tuple[float | None, dict[str, float]]]
"""(prediction, reference) -> value and counts."""

NED_SIGNATURE = "ned|unit:char|norm:none|agg:crop_mean|v:1"
TEDS_SIGNATURE = "teds|costs:omnidoc16|norm:omnidoc16|agg:crop_mean|v:3"
TREE_SIGNATURE = "formula_tree|parse:latex_tree|costs:unit|agg:crop_mean|v:1"

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


def crop_ned(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
    """Levenshtein distance / longer length, in [0, 1], 0 is best; two empty strings score 0.

    Also returns the counts it is made of: `edits` and `length`, in code points.
    """
    edits = edit_distance(prediction, reference)
    length = max(len(prediction), len(reference))
    return (edits / length if length else 0.0), {"edits": float(edits), "length": float(length)}


def crop_teds(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
    """1 - tree edit distance / larger node count; 1 is best, 0 for an empty or tableless side.

    Like the official scorer, a side whose normal form is empty enters as it is. Counts: `nodes_gt` and
    `nodes_pred`, 0 when no tree was built, and `teds_s`, the same score on structure alone.
    """
    result = teds_pair(*(_compared(text) for text in (reference, prediction)))
    counts = {
        "nodes_gt": float(result.nodes_gt),
        "nodes_pred": float(result.nodes_pred),
        "teds_s": result.teds_s,
    }
    return result.teds, counts


def _compared(text: str) -> str:
    try:
        return normalize_html_table(text) or text
    except RefusedMarkupError:  # no tree can be built of it
        return ""


def crop_formula_tree(prediction: str, reference: str) -> tuple[float | None, dict[str, float]]:
    """1 - tree edit distance / larger node count, 1 best; `None` for two blank or enormous formulas."""
    result = formula_tree_score(reference, prediction)
    return result.value, {"nodes_gt": float(result.nodes_gt), "nodes_pred": float(result.nodes_pred)}


RATES = {"cer": (character_error_rate, "character"), "wer": (word_error_rate, "word")}
SHOWN_RATES = (
    ("cer", "plain"),
    ("cer", "no-space"),
    ("cer", "folded"),
    ("wer", "plain"),
    ("wer", "folded"),
)
"""Which rate under which chain, in the order of the table's columns."""


def _rate_metric(rate: str, chain: str) -> Metric:
    unit = RATES[rate][1]
    return Metric(
        name=_rate_name(rate, chain),
        label=rate.upper() if chain == "plain" else f"{rate.upper()} {chain}",
        direction="lower",
        definition=f"Levenshtein distance in {unit}s / {unit}s of the ground truth, at most 1, mean over "
        f"crops, after {', '.join(CHAINS[chain])}; none for a truth that is empty then.",
        signature=f"{rate}|chain:{'+'.join(CHAINS[chain])}|cap:1|agg:crop_mean|v:1",
        tasks=("text",),
    )


def _rate_name(rate: str, chain: str) -> str:
    return rate if chain == "plain" else f"{rate}_{chain.replace('-', '_')}"


def _rate_measure(rate: str, chain: str) -> Measure:
    return lambda prediction, reference: RATES[rate][0](prediction, reference, chain)


MEASURES: dict[str, Measure] = {
    **{_rate_name(rate, chain): _rate_measure(rate, chain) for rate, chain in SHOWN_RATES},
    "text_ned": crop_ned,
    "table_teds": crop_teds,
    "formula_ned": crop_ned,
    "formula_tree": crop_formula_tree,
}


class CropScorer(Scorer):
    """Each metric of a crop's task, measured on the answer and the crop's own text."""

    name = "crops"
    metrics: tuple[Metric, ...] = METRICS

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


class QuickCropScorer(CropScorer):
    """The headlines of `crops`, and error rates of text."""

    name = "crops-quick"
    metrics = (
        *(metric for metric in METRICS if metric.name in ("text_ned", "table_teds", "formula_ned")),
        *(_rate_metric(rate, chain) for rate, chain in SHOWN_RATES),
    )
