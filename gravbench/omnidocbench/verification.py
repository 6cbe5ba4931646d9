"""verify-scorer: a folder of recorded official results, checked kind by kind.

Layout: `function_cases.jsonl` (one case a line: id, kind, tag, gt, pred, expected) and `pages/` with
`gt.json`, `pred/RUN.json` (file name -> Markdown) and `expected/RUN.json`. Beside the recorded values, the
tree distances of small tables are checked against apted and zss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gravbench.errors import DataError
from gravbench.omnidocbench.cdm.rows import find_cdm, spelling_of
from gravbench.omnidocbench.document import summarize
from gravbench.omnidocbench.evaluation import CdmScorer, Evaluation, add_cdm, names_tried
from gravbench.omnidocbench.formula_text import matrix_variants
from gravbench.omnidocbench.ground_truth import Page, read_annotations, read_pages
from gravbench.omnidocbench.page_metrics import aggregate
from gravbench.omnidocbench.page_scorer import PageScorer
from gravbench.omnidocbench.recorded_functions import (
    CHECKS,
    MAX_TREE_CASES,
    needs_latexml,
    tree_differences,
)
from gravbench.omnidocbench.result_cache import default_cache_dir
from gravbench.omnidocbench.table_conversion import latexml_available
from gravbench.omnidocbench.text import Normalizer
from gravbench.recorded_results import KindReport, differences, read_cases

CdmCheck = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""A `cdm` case -> the fields of its `expected` that this machine can compute."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What this machine offers beyond Python."""

    latexml: bool
    cdm_check: CdmCheck | None = None
    cdm_scorer: CdmScorer | None = None
    cdm_missing: str = "no TeX here"
    """Why formulas are not rendered, where they are not."""


def default_tools() -> Tools:
    """Tools found on the path; CDM tokens need none, its scores join where the renderer is whole."""
    cdm = find_cdm(default_cache_dir())
    return Tools(
        latexml=latexml_available(),
        cdm_check=cdm.check,
        cdm_scorer=cdm.score if cdm.status.available else None,
        cdm_missing=f"{cdm.status.reason}; {cdm.status.hint}",
    )


def _check_cdm(case: Mapping[str, Any], tools: Tools, reports: dict[str, KindReport]) -> None:
    """Spellings need no tools; tokens and scores are compared as far as the CDM tools go."""
    variants = matrix_variants(case["gt"], case["pred"])
    spelled = [variants.truth, variants.alternative]
    lines = differences(case["expected"]["matrix_variants"], spelled, "expected.matrix_variants")
    reports.setdefault("cdm_spelling", KindReport()).add(case["id"], lines)
    report = reports.setdefault("cdm", KindReport())
    rest = {key: value for key, value in case["expected"].items() if key != "matrix_variants"}
    if tools.cdm_check is None:
        report.skip(f"no CDM here: {', '.join(rest)}")
        return
    found = tools.cdm_check(case)
    report.add(case["id"], differences({key: rest[key] for key in rest if key in found}, found, "expected"))
    if absent := sorted(set(rest) - set(found)):
        reports.setdefault("cdm_rendered", KindReport()).skip(f"{tools.cdm_missing}: {', '.join(absent)}")


def _check_function(
    case: Mapping[str, Any], tools: Tools, normalizer: Normalizer, reports: dict[str, KindReport]
) -> None:
    kind = str(case["kind"])
    if kind == "cdm":
        _check_cdm(case, tools, reports)
        return
    report = reports.setdefault(kind, KindReport())
    check = CHECKS.get(kind)
    if check is None:
        report.add(case["id"], [f"unknown kind; known are {', '.join(sorted((*CHECKS, 'cdm')))}"])
    elif needs_latexml(case) and not tools.latexml:
        report.skip("LaTeXML (latexmlc) is not installed")
    else:
        report.add(case["id"], differences(case["expected"], check(case, normalizer), "expected"))


def _check_trees(cases: Sequence[Mapping[str, Any]], reports: dict[str, KindReport]) -> None:
    """Tree edit distances of the first small tables against apted and zss."""
    checked = 0
    for case in cases:
        lines = tree_differences(case) if checked < MAX_TREE_CASES else None
        if lines is not None:
            checked += 1
            reports.setdefault("table_trees (apted, zss)", KindReport()).add(case["id"], lines)


def _uses_latex_tables(predictions: Mapping[str, str]) -> bool:
    return any("\\begin{tabular}" in text or "\\begin{table}" in text for text in predictions.values())


def _check_runs(folder: Path, tools: Tools, reports: dict[str, KindReport]) -> None:
    gt = folder / "gt.json"
    pages = read_pages(read_annotations(gt), source=str(gt))
    runs = sorted((folder / "pred").glob("*.json"))
    if not runs:
        raise DataError(f"{folder / 'pred'}: no RUN.json in it", hint="Each is {file name: markdown}.")
    for path in runs:
        expected_path = folder / "expected" / path.name
        try:
            predictions = json.loads(path.read_bytes())
            expected = json.loads(expected_path.read_bytes())
        except (OSError, ValueError) as error:
            raise DataError(f"{expected_path}: run {path.stem} cannot be read: {error}") from error
        report = reports.setdefault("pages", KindReport())
        if _uses_latex_tables(predictions) and not tools.latexml:
            report.skip("LaTeXML (latexmlc) is not installed")
            continue
        has_cdm = "CDM" in expected["all_group_page"].get("display_formula", {}).get("all", {})
        found = score_run(pages, predictions, tools.cdm_scorer if has_cdm else None)
        report.add(path.stem, run_differences(expected, found, cdm=False))
        if has_cdm:
            rendered = reports.setdefault("pages_rendered", KindReport())
            if tools.cdm_scorer:
                rendered.add(path.stem, run_differences(expected, found, cdm=True))
            else:
                rendered.skip(tools.cdm_missing)


def verify(folder: Path, tools: Tools) -> dict[str, KindReport]:
    """Reports by kind. A folder without cases and without pages is a data fault."""
    cases, pages = folder / "function_cases.jsonl", folder / "pages"
    if not cases.is_file() and not pages.is_dir():
        raise DataError(
            f"{folder}: neither function_cases.jsonl nor pages/ in it",
            hint="Name a folder of recorded official results, such as tests/golden/omnidoc.",
        )
    reports: dict[str, KindReport] = {}
    normalizer = Normalizer()
    if cases.is_file():
        loaded = read_cases(cases, ("gt", "pred"))
        if tools.cdm_scorer:  # all formulas in one run; each case then finds its own in the cache
            tools.cdm_scorer([spelling_of(case) for case in loaded if case["kind"] == "cdm"])
        for case in loaded:
            _check_function(case, tools, normalizer, reports)
        _check_trees([case for case in loaded if case["kind"] == "table_teds"], reports)
    if pages.is_dir():
        _check_runs(pages, tools, reports)
    return reports


CDM_FIELDS = frozenset(
    {"CDM", "display_formula_CDM", "overall_notebook", "pred_cdm", "gt_cdm", "pred_cdm_alt"}
)
"""Fields of a run that need rendering; compared apart."""


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
