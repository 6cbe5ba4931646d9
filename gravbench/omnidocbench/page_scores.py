"""Official scores of pages, page by page, so that means, intervals and paired tests can be redone from them.

Every value is what the page contributes to an official average: the plain mean of a metric's values over the
pages that have one is the official number (OmniDocBench v1.6: `ALL_page_avg` of edit distances, page `ALL` of
TEDS and CDM, where a page that owns a table or formula without a row counts 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gravbench.errors import NotComparableError
from gravbench.pages.regions import PageSample
from gravbench.store.schema import GenRecord, ScoreRecord

if TYPE_CHECKING:
    from gravbench.omnidocbench.cdm.rows import Cdm
    from gravbench.omnidocbench.ground_truth import Page
    from gravbench.omnidocbench.matching.rows import Row
    from gravbench.omnidocbench.page_scorer import PageResult

TEXT, FORMULA, FORMULA_CDM = "text_block_Edit_dist", "display_formula_Edit_dist", "display_formula_CDM"
TEDS, TEDS_S, ORDER = "table_TEDS", "table_TEDS_structure_only", "reading_order_Edit_dist"
OVERALL = "overall"
PAGE_METRICS = (TEXT, FORMULA, FORMULA_CDM, TEDS, TEDS_S, ORDER)

Contribution = tuple[float | None, dict[str, float]]
"""(value, sufficient counts); value None where the page has no part in this metric."""

Key = tuple[str, str]
"""(sample id, sha of the Markdown)."""


def page_signatures() -> dict[str, str]:
    """Official metric name -> signature string."""
    from gravbench.omnidocbench.averages import FORMULA_SIGNATURE, TEXT_SIGNATURE
    from gravbench.omnidocbench.overall import SIGNATURE as OVERALL_SIGNATURE

    return {
        TEXT: TEXT_SIGNATURE,
        FORMULA: FORMULA_SIGNATURE,
        FORMULA_CDM: "cdm|agg:page_ALL|match:omnidoc16-formula|v:1",
        TEDS: "teds|agg:page_ALL|match:omnidoc16-table|v:1",
        TEDS_S: "teds|structure:only|agg:page_ALL|match:omnidoc16-table|v:1",
        ORDER: "ned|unit:block|agg:ALL_page_avg|match:omnidoc16-quick|v:1",
        OVERALL: OVERALL_SIGNATURE,
    }


def page_overall(means: Mapping[str, float]) -> dict[str, float]:
    """`overall` from the means of its three parts; empty when a part is missing."""
    if any(name not in means for name in (TEXT, TEDS, FORMULA_CDM)):
        return {}
    from gravbench.omnidocbench.overall import overall

    value = overall(text_edit=means[TEXT], teds=means[TEDS], cdm=means[FORMULA_CDM]).exact
    return {} if value is None else {OVERALL: value}


def score_pages(
    records: Sequence[GenRecord],
    samples: Mapping[str, PageSample],
    *,
    known: Sequence[ScoreRecord] = (),
    cdm: Cdm | None = None,
) -> list[ScoreRecord]:
    """Scores of page records, sorted by sample, rep, arm and metric; equal Markdown of a page is scored once.

    A failed page is scored as an empty prediction. `known` are stored scores of the same scorer. Formulas of
    all pages are rendered together; without `cdm`, or without its tools, CDM is unscored with the reason.
    """
    renderer = _Renderer.of(cdm)
    stored = _reusable(known, renderer)
    values: dict[Key, dict[str, Contribution]] = {}
    wanted: dict[Key, GenRecord] = {}
    for record in records:
        if record.sample_id not in samples:
            raise NotComparableError(
                f"page {record.sample_id!r} of the run is not in the suite",
                hint="Score with the suite and the data the run was made on.",
            )
        key = (record.sample_id, record.text_sha)
        found = stored.get((record.text_sha, samples[record.sample_id].image_sha256))
        if found is not None:
            values[key] = found
        elif key not in values:
            wanted[key] = record
    values |= _scored(wanted, samples, cdm if renderer.available else None)
    rows = [
        row
        for record in records
        for row in _records(
            record,
            samples[record.sample_id].image_sha256,
            values[record.sample_id, record.text_sha],
            renderer,
        )
    ]
    return sorted(rows, key=lambda s: (s.sample_id, s.rep, s.arm, s.metric))


@dataclass(frozen=True, slots=True)
class _Renderer:
    """Whether CDM can be scored here, under which signature, or why not."""

    available: bool
    signature: str
    reason: str

    @staticmethod
    def of(cdm: Cdm | None) -> _Renderer:
        static = page_signatures()[FORMULA_CDM]
        if cdm is None:
            return _Renderer(False, static, "CDM was not asked for")
        status = cdm.status
        if not status.available:
            return _Renderer(False, static, f"CDM is not scored: {status.reason}; {status.hint}")
        return _Renderer(True, f"{status.signature}|{static.removeprefix('cdm|')}", "")


def _reusable(
    known: Sequence[ScoreRecord], renderer: _Renderer
) -> dict[tuple[str, str], dict[str, Contribution]]:
    """Stored values by (prediction sha, reference sha), where all metrics are there from this renderer."""
    stored: dict[tuple[str, str], dict[str, ScoreRecord]] = {}
    for score in known:
        if score.task == "page":
            stored.setdefault((score.prediction_sha, score.reference_sha), {})[score.metric] = score
    return {
        key: {name: (score.value, dict(score.counts)) for name, score in found.items()}
        for key, found in stored.items()
        if set(found) == set(PAGE_METRICS) and found[FORMULA_CDM].signature == renderer.signature
    }


def _scored(
    wanted: Mapping[Key, GenRecord], samples: Mapping[str, PageSample], cdm: Cdm | None
) -> dict[Key, dict[str, Contribution]]:
    from gravbench.omnidocbench.evaluation import add_cdm
    from gravbench.omnidocbench.ground_truth import read_page
    from gravbench.omnidocbench.page_scorer import PageScorer

    scorer = PageScorer()
    results: dict[Key, tuple[Page, PageResult]] = {}
    for key, record in wanted.items():
        sample = samples[record.sample_id]
        page = read_page(sample.entry, 0, source=sample.image_name)
        results[key] = page, scorer.score(page, record.text if record.status == "ok" else None)
    if cdm is not None:
        add_cdm([row for _, result in results.values() for row in result.formulas], cdm.score)
    return {key: contributions(*found, cdm=cdm is not None) for key, found in results.items()}


def contributions(page: Page, result: PageResult, *, cdm: bool = False) -> dict[str, Contribution]:
    """What one scored page adds to each official average; CDM only where its rows carry it."""
    order: Contribution = (None, {})
    if result.order is not None and result.order.upper:
        edits = result.order.edits
        counts = {"edits": float(edits), "upper": float(result.order.upper)}
        order = (edits / result.order.upper, counts)
    return {
        TEXT: _distance([*result.text, *result.text_from_formulas]),
        FORMULA: _distance(result.formulas),
        FORMULA_CDM: _page_mean(result.formulas, "CDM", owner=page.owns_formula) if cdm else (None, {}),
        TEDS: _page_mean(result.tables, "TEDS", owner=page.owns_table),
        TEDS_S: _page_mean(result.tables, "TEDS_structure_only", owner=page.owns_table),
        ORDER: order,
    }


def _distance(rows: Sequence[Row]) -> Contribution:
    """Sum of edits / sum of longer sides of one page."""
    edits = sum(row.edits or 0 for row in rows)
    upper = sum(row.upper for row in rows)
    counts = {"edits": float(edits), "upper": float(upper), "rows": float(len(rows))}
    return (edits / upper if upper else None), counts


def _page_mean(rows: Sequence[Row], metric: str, *, owner: bool) -> Contribution:
    """Mean over the page's rows; 0 for a page that owns such an element and has no row."""
    values = [row.metric[metric] for row in rows if metric in row.metric]
    counts = {"sum": float(sum(values)), "rows": float(len(values))}
    if values:
        return sum(values) / len(values), counts
    return (0.0 if owner else None), counts


def _records(
    record: GenRecord, reference_sha: str, values: Mapping[str, Contribution], renderer: _Renderer
) -> list[ScoreRecord]:
    signatures = page_signatures() | {FORMULA_CDM: renderer.signature}
    failed = record.status != "ok"
    why = f"{record.error.kind}: {record.error.message}" if record.error else None
    found = []
    for name in PAGE_METRICS:
        value, counts = values[name]
        reason = why if failed else None
        if value is None:
            unrendered = name == FORMULA_CDM and not renderer.available
            reason = renderer.reason if unrendered else "the page has no such element"
        found.append(
            ScoreRecord(
                sample_id=record.sample_id,
                arm=record.arm,
                rep=record.rep,
                task="page",
                metric=name,
                signature=signatures[name],
                value=value,
                counts=counts,
                failed=failed,
                reason=reason,
                prediction_sha=record.text_sha,
                reference_sha=reference_sha,
            )
        )
    return found
