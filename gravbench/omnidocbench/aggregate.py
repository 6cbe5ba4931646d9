"""Rows -> `all`, `group` and `page` values under the official names (OmniDocBench v1.6, "aggregation")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gravbench.omnidocbench.averages import EditCount, mean, page_distances, summarize_edits
from gravbench.omnidocbench.evaluation import Evaluation
from gravbench.omnidocbench.matching.rows import OrderRow, Row, attributes_of

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


def _groups(rows: Sequence[Row]) -> dict[str, Any]:
    """Label -> plain mean over rows that have it, per metric, and how many rows there are.

    A row merged from several elements counts once for each distinct label.
    """
    scores: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        labels = dict.fromkeys(
            f"{name}: {value}" for found in attributes_of(row.gt_attribute) for name, value in found.items()
        )
        for label in labels:
            for metric, score in row.metric.items():
                scores.setdefault(label, {}).setdefault(metric, []).append(score)
    result: dict[str, Any] = {"sample_count": {}}
    for label, metrics in scores.items():
        for metric, values in metrics.items():
            result.setdefault(metric, {})[label] = mean(values)
            result["sample_count"][label] = len(values)
    return result


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
        group=_sorted_deep(_groups(rows)) if rows else {},
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
