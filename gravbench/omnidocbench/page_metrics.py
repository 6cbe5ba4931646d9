"""The official page metrics under their official names, and how rows make them (OmniDocBench v1.6).

Rows -> `all`, `group` and `page` values, and Overall.

Overall is ((1 - text edit) * 100 + TEDS * 100 + CDM * 100) / 3, 100 is perfect. A missing part: no Overall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gravbench.scorers.contract import Metric

if TYPE_CHECKING:
    from gravbench.omnidocbench.evaluation import Evaluation
    from gravbench.omnidocbench.lines import OrderRow, Row

TEXT_SIGNATURE = "ned|unit:char|norm:omnidoc16-text|agg:ALL_page_avg|match:omnidoc16-quick|v:2"
FORMULA_SIGNATURE = "ned|unit:char|norm:omnidoc16-formula|agg:ALL_page_avg|match:omnidoc16-formula|v:2"
TABLE_SIGNATURE = "ned|unit:char|norm:omnidoc16-html|agg:ALL_page_avg|match:omnidoc16-table|v:2"
OVERALL_SIGNATURE = "overall|parts:text_ned+teds+cdm|agg:page|v:2"

TEXT, FORMULA, FORMULA_CDM = "text_block_Edit_dist", "display_formula_Edit_dist", "display_formula_CDM"
TEDS, TEDS_S, ORDER = "table_TEDS", "table_TEDS_structure_only", "reading_order_Edit_dist"
SCORER = "omnidocbench-1.6"
"""The scorer's name in the manifest of a suite."""
OVERALL = "overall"

METRICS = (
    Metric(
        name=TEXT,
        label="text edit",
        direction="lower",
        definition="Edits / longer sides of all matched text of a page, mean over pages with text.",
        signature=TEXT_SIGNATURE,
        tasks=("page",),
    ),
    Metric(
        name=FORMULA,
        label="formula edit",
        direction="lower",
        definition="Edits / longer sides of all matched display formulas of a page, mean over pages with "
        "them.",
        signature=FORMULA_SIGNATURE,
        tasks=("page",),
    ),
    Metric(
        name=FORMULA_CDM,
        label="CDM",
        direction="higher",
        definition="Character detection matching of rendered formulas: F1 of matched glyph boxes, mean over "
        "a page's formulas, then over pages with formulas.",
        signature="cdm|agg:page_ALL|match:omnidoc16-formula|v:2",
        tasks=("page",),
    ),
    Metric(
        name=TEDS,
        label="TEDS",
        direction="higher",
        definition="1 − tree edit distance / larger tree, cell text included, mean over a page's tables, "
        "then over pages with tables.",
        signature="teds|agg:page_ALL|match:omnidoc16-table|v:2",
        tasks=("page",),
    ),
    Metric(
        name=TEDS_S,
        label="TEDS-S",
        direction="higher",
        definition="TEDS on the structure of tables alone, without cell text.",
        signature="teds|structure:only|agg:page_ALL|match:omnidoc16-table|v:2",
        tasks=("page",),
    ),
    Metric(
        name=ORDER,
        label="order edit",
        direction="lower",
        definition="Edits between the orders of matched blocks / longer order, mean over pages with one.",
        signature="ned|unit:block|agg:ALL_page_avg|match:omnidoc16-quick|v:2",
        tasks=("page",),
    ),
    Metric(
        name=OVERALL,
        label="Overall",
        unit="points",
        direction="higher",
        range=(0.0, 100.0),
        definition="OmniDocBench's Overall: mean of the points of text edit, TEDS and CDM; none "
        "without all three.",
        signature=OVERALL_SIGNATURE,
        tasks=("page",),
        parts=(TEXT, TEDS, FORMULA_CDM),
        parts_needed=3,
    ),
)

MARKDOWN_NAMES = {
    TEXT: ("markdown_text_ned", "text NED"),
    TEDS: ("markdown_table_teds", "table TEDS"),
    TEDS_S: ("markdown_table_teds_s", "TEDS-S"),
    FORMULA: ("markdown_formula_ned", "formula NED"),
    ORDER: ("markdown_order_ned", "order NED"),
}
"""Official metric -> its name and label where the truth is Markdown that this program cut into blocks."""

MARKDOWN_METRICS = tuple(
    replace(
        metric,
        name=MARKDOWN_NAMES[metric.name][0],
        label=MARKDOWN_NAMES[metric.name][1],
        definition=f"{metric.definition.removesuffix('.')}; the truth is Markdown, cut like a prediction. No "
        "figure of OmniDocBench.",
        signature=f"{metric.signature}|truth:markdown|pipes:first",
    )
    for metric in METRICS
    if metric.name in MARKDOWN_NAMES
)

ELEMENTS = ("text_block", "display_formula", "table", "reading_order")
EDIT = "Edit_dist"


@dataclass(frozen=True, slots=True)
class ElementScores:
    """One element's official values. None stands where the official file holds NaN."""

    all: dict[str, Any]
    group: dict[str, Any]
    page: dict[str, Any]
    per_page: dict[str, float]
    denominators: dict[str, int]
    """Metric -> number of pages its page average runs over."""

    def official(self) -> dict[str, Any]:
        return {"all": self.all, "group": self.group, "page": self.page}


def page_labels(attributes: Mapping[str, Any]) -> list[str]:
    """Labels a page counts under: "name: value", and members of lists unless they mention a table."""
    labels: list[str] = []
    for name, value in attributes.items():
        if isinstance(value, list):
            labels += [member for member in value if "table" not in member]
        else:
            labels.append(f"{name}: {value}")
    return labels


def _sorted_deep(value: Any) -> Any:
    return {key: _sorted_deep(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def _label_means(
    scores: Mapping[str, Iterable[float]], labels: Mapping[str, Sequence[str]]
) -> dict[str, float | None]:
    """Label -> mean over its pages of the page's mean score; "ALL" has every page."""
    by_label: dict[str, list[float]] = {}
    for page in sorted(scores):
        page_mean = mean(list(scores[page]))
        if page_mean is not None:
            for label in dict.fromkeys(("ALL", *labels[page])):
                by_label.setdefault(label, []).append(page_mean)
    return {label: mean(values) for label, values in by_label.items()}


def row_labels(row: Row) -> list[str]:
    """Labels a row counts under: "attribute: value" of its elements, each label once."""
    found = (pair for own in _attributes_of(row.gt_attribute) for pair in own.items())
    return list(dict.fromkeys(f"{name}: {value}" for name, value in found))


def _groups(rows: Sequence[Row]) -> dict[str, Any]:
    """Label -> plain mean over rows that have it, per metric, and how many rows there are.

    A row merged from several elements counts once for each distinct label.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        for label in row_labels(row):
            for metric, score in row.metric.items():
                scores.setdefault(label, {}).setdefault(metric, []).append(score)
    result: dict[str, Any] = {"sample_count": {}}
    for label, metrics in scores.items():
        for metric, values in metrics.items():
            result.setdefault(metric, {})[label] = mean(values)
            result["sample_count"][label] = len(values)
    return result


def _attributes_of(values: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Attribute mappings among `values`, nested lists opened."""
    found: list[Mapping[str, Any]] = []
    for value in values:
        if isinstance(value, Mapping):
            found.append(value)
        elif isinstance(value, list):
            found += _attributes_of(value)
    return found


def _edit_counts(rows: Sequence[Row]) -> list[EditCount]:
    return [EditCount(row.image, row.edits, row.upper) for row in rows]


def _scores_by_page(rows: Sequence[Row], metric: str, owners: Iterable[str]) -> dict[str, list[float]]:
    """Page -> scores; 0 for a page that owns such an element but has no row."""
    scores: dict[str, list[float]] = {}
    for row in rows:
        if metric in row.metric:
            scores.setdefault(row.image, []).append(row.metric[metric])
    for page in owners:
        scores.setdefault(page, [0.0])
    return scores


def _element(
    rows: Sequence[Row],
    labels: Mapping[str, Sequence[str]],
    *,
    metrics: Sequence[str] = (),
    owners: Sequence[str] = (),
    first: bool = False,
) -> ElementScores:
    """Edit distance and `metrics` of one element. `first`: the metrics stand before the edit distance."""
    counts = _edit_counts(rows)
    edits = {EDIT: summarize_edits(counts).official()}
    others = {
        metric: {"all": mean([row.metric[metric] for row in rows])} if rows else {} for metric in metrics
    }
    per_page = page_distances(counts)
    page: dict[str, Any] = {}
    if counts:
        page[EDIT] = _label_means({name: [value] for name, value in per_page.items()}, labels)
    for metric in metrics:
        scores = _scores_by_page(rows, metric, owners)
        if scores:
            page[metric] = _label_means(scores, labels)
    pages = len(owners) or len({row.image for row in rows if row.metric})
    return ElementScores(
        all=others | edits if first else edits | others,
        group=_sorted_deep(_groups(rows)) if rows or first else {},
        page=_sorted_deep(page),
        per_page=per_page,
        denominators=dict.fromkeys((EDIT, *metrics), pages),
    )


def _order_element(rows: Sequence[OrderRow], labels: Mapping[str, Sequence[str]]) -> ElementScores:
    counts = [EditCount(row.image, row.edits, row.upper) for row in rows]
    per_page = page_distances(counts)
    page = _label_means({name: [value] for name, value in per_page.items()}, labels)
    return ElementScores(
        all={EDIT: summarize_edits(counts).official()},
        group={"sample_count": {}} if rows else {},
        page=_sorted_deep({EDIT: page}) if rows else {},
        per_page=per_page,
        denominators={EDIT: len(rows)},
    )


def aggregate(evaluation: Evaluation) -> dict[str, ElementScores]:
    """Official values of the four elements."""
    labels = {page.image: page_labels(page.attributes) for page in evaluation.pages}
    formula_pages = [page.image for page in evaluation.pages if page.owns_formula]
    table_pages = [page.image for page in evaluation.pages if page.owns_table]
    orders = [result.order for result in evaluation.results if result.order]
    return {
        "text_block": _element(evaluation.rows("text_block"), labels),
        "display_formula": _element(
            evaluation.rows("display_formula"),
            labels,
            metrics=("CDM",) if evaluation.cdm_scored else (),
            owners=formula_pages,
        ),
        "table": _element(
            evaluation.rows("table"),
            labels,
            metrics=("TEDS", "TEDS_structure_only"),
            owners=table_pages,
            first=True,
        ),
        "reading_order": _order_element(orders, labels),
    }


@dataclass(frozen=True, slots=True)
class EditCount:
    """Edits of one row and its longer side in characters. `edits` is None when both sides are empty."""

    page: str
    edits: int | None
    upper: int


def page_distances(counts: Iterable[EditCount]) -> dict[str, float]:
    """Page -> sum of edits / sum of longer sides, by page name; pages without characters are left out."""
    sums: dict[str, tuple[int, int]] = {}
    for count in counts:
        edits, upper = sums.get(count.page, (0, 0))
        sums[count.page] = (edits + (count.edits or 0), upper + count.upper)
    return {page: edits / upper for page, (edits, upper) in sorted(sums.items()) if upper}


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None for no values."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else None


@dataclass(frozen=True, slots=True)
class EditSummary:
    """`ALL_page_avg` is the leaderboard number of text and reading order. None: nothing to average."""

    all_page_avg: float | None
    edit_whole: float | None
    edit_sample_avg: float | None

    def official(self) -> dict[str, float | str | None]:
        """Official names; the string "NaN" alone when there was nothing to compare."""
        if self.all_page_avg is None:
            return {"ALL_page_avg": "NaN"}
        return {
            "ALL_page_avg": self.all_page_avg,
            "edit_whole": self.edit_whole,
            "edit_sample_avg": self.edit_sample_avg,
        }


def summarize_edits(counts: Sequence[EditCount]) -> EditSummary:
    """Mean of page distances, pooled distance, and mean of row distances."""
    upper = sum(count.upper for count in counts)
    return EditSummary(
        mean(list(page_distances(counts).values())),
        sum(count.edits or 0 for count in counts) / upper if upper else None,
        mean([count.edits / count.upper for count in counts if count.edits is not None]),
    )


@dataclass(frozen=True, slots=True)
class Overall:
    """`exact` from the parts as they are; `leaderboard` from parts rounded first, as published.

    Both None when a part is missing; `missing` then names what.
    """

    exact: float | None
    leaderboard: float | None
    missing: tuple[str, ...]


def overall(*, text_edit: float | None, teds: float | None, cdm: float | None) -> Overall:
    """Composite of text edit distance (0..1, 0 best), TEDS and CDM (0..1, 1 best), each a page average.

    The leaderboard rounds text edit to 3 decimals, TEDS and CDM to 3 decimals on the 0..100 scale, so the
    two values differ by up to about 0.017.
    """
    parts = {"text_block.Edit_dist": text_edit, "table.TEDS": teds, "display_formula.CDM": cdm}
    missing = tuple(name for name, value in parts.items() if value is None)
    if text_edit is None or teds is None or cdm is None:
        return Overall(None, None, missing)
    exact = ((1.0 - text_edit) * 100.0 + cdm * 100.0 + teds * 100.0) / 3.0
    rounded = ((1.0 - round(text_edit, 3)) * 100.0 + round(cdm * 100.0, 3) + round(teds * 100.0, 3)) / 3.0
    return Overall(exact, rounded, ())
