"""Whole page runs against recorded results of the official scorer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from gravbench.omnidocbench.aggregate import aggregate
from gravbench.omnidocbench.document import summarize
from gravbench.omnidocbench.evaluation import CdmScorer, Evaluation, add_cdm
from gravbench.omnidocbench.ground_truth import Page
from gravbench.omnidocbench.page_scorer import PageScorer
from gravbench.omnidocbench.predictions import names_tried

CDM_FIELDS = frozenset(
    {"CDM", "display_formula_CDM", "overall_notebook", "pred_cdm", "gt_cdm", "pred_cdm_alt"}
)
"""Fields of a run that need rendering; compared apart."""
TOLERANCE = 1e-9


def score_run(
    pages: Sequence[Page], predictions: Mapping[str, str], cdm_scorer: CdmScorer | None
) -> dict[str, Any]:
    """A run in the recorded layout: aggregates, summary, rows, per-page distances."""
    scorer = PageScorer()
    names = [next((name for name in names_tried(page.image) if name in predictions), None) for page in pages]
    results = [
        scorer.score(page, None if name is None else predictions[name])
        for page, name in zip(pages, names, strict=True)
    ]
    if cdm_scorer:
        add_cdm([row for result in results for row in result.formulas], cdm_scorer)
    missing = tuple(page.image for page, name in zip(pages, names, strict=True) if name is None)
    evaluation = Evaluation(tuple(pages), tuple(results), missing, cdm_scorer is not None)
    scores = aggregate(evaluation)
    rows: dict[str, Any] = {
        name: [row.to_record() for row in evaluation.rows(name)]
        for name in ("text_block", "display_formula", "table")
    }
    rows["reading_order"] = [result.order.to_record() for result in results if result.order]
    return {
        "all_group_page": {name: element.official() for name, element in scores.items()},
        "summary": summarize(scores),
        "rows": rows,
        "per_page": {name: element.per_page for name, element in scores.items()},
    }


def _is_digest(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"len", "sha1", "head", "tail"}


def _same_text(expected: Mapping[str, Any], found: Any) -> bool:
    if not isinstance(found, str) or len(found) != expected["len"]:
        return False
    return hashlib.sha1(found.encode("utf-8", "surrogatepass")).hexdigest() == str(expected["sha1"])


def differences(expected: Any, found: Any, path: str = "", *, partial: bool = False) -> list[str]:
    """Where `found` is not `expected`, numbers to 1e-9.

    `partial`: keys that only `found` has are no difference (recorded rows leave fields out).
    """
    if _is_digest(expected):
        return (
            [] if _same_text(expected, found) else [f"{path}: expected text {expected}, found {found!r:.200}"]
        )
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        keys = list(expected) if partial else list(dict.fromkeys((*expected, *found)))
        lost = [f"{path}.{key}: only on one side" for key in keys if key not in found or key not in expected]
        return lost + [
            line
            for key in keys
            if key in expected and key in found
            for line in differences(expected[key], found[key], f"{path}.{key}", partial=partial)
        ]
    if isinstance(expected, list) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            return [f"{path}: expected {len(expected)} entries, found {len(found)}"]
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for i, (e, f) in pairs for line in differences(e, f, f"{path}[{i}]", partial=partial)]
    if _is_number(expected) and _is_number(found):
        close = abs(expected - found) <= TOLERANCE
        return [] if close else [f"{path}: expected {expected!r}, found {found!r}"]
    same = expected == found and type(expected) is type(found)
    return [] if same else [f"{path}: expected {expected!r:.200}, found {found!r:.200}"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_cdm(value: Any) -> Any:
    """A recorded run less everything that needs rendering."""
    if isinstance(value, Mapping):
        return {key: without_cdm(inner) for key, inner in value.items() if key not in CDM_FIELDS}
    return [without_cdm(inner) for inner in value] if isinstance(value, list) else value


def run_differences(expected: Mapping[str, Any], found: Mapping[str, Any], *, cdm: bool) -> list[str]:
    """Differences of a run. Without `cdm` everything but the rendered part is compared."""
    lines: list[str] = []
    if not cdm:
        expected, found = without_cdm(expected), without_cdm(found)
    for part in ("all_group_page", "per_page"):
        lines += differences(expected[part], found[part], part)
    lines += differences(expected["rows"], found["rows"], "rows", partial=True)
    summary = {key: value for key, value in expected["summary"].items() if key != "source"}
    return lines + differences(summary, found["summary"], "summary", partial=True)
