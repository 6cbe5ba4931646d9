"""Official scores of pages, page by page, so that means, intervals and paired tests can be redone from them.

Every value is what the page contributes to an official average: the plain mean of a metric's values over the
pages that have one is the official number (OmniDocBench v1.6: `ALL_page_avg` of edit distances, page `ALL` of
TEDS and CDM, where a page that owns a table or formula without a row counts 0).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gravbench.errors import NotComparableError
from gravbench.regions import PageSample
from gravbench.store.schema import GenRecord, ScoreRecord

if TYPE_CHECKING:
    from gravbench.omnidoc.evaluation import CdmScorer
    from gravbench.omnidoc.page import PageResult, PageScorer
    from gravbench.omnidoc.rows import Row
    from gravbench.suites.omnidocbench import Page

TEXT, FORMULA, FORMULA_CDM = "text_block_Edit_dist", "display_formula_Edit_dist", "display_formula_CDM"
TEDS, TEDS_S, ORDER = "table_TEDS", "table_TEDS_structure_only", "reading_order_Edit_dist"
OVERALL = "overall"
PAGE_METRICS = (TEXT, FORMULA, FORMULA_CDM, TEDS, TEDS_S, ORDER)

NO_CDM = "CDM is not scored: its renderer was not given"

Contribution = tuple[float | None, dict[str, float]]
"""(value, sufficient counts); value None where the page has no part in this metric."""


def page_signatures() -> dict[str, str]:
    """Official metric name -> signature string."""
    from gravbench.metrics.edit_distance import FORMULA_SIGNATURE, TEXT_SIGNATURE
    from gravbench.metrics.overall import SIGNATURE as OVERALL_SIGNATURE

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
    from gravbench.metrics.overall import overall

    value = overall(text_edit=means[TEXT], teds=means[TEDS], cdm=means[FORMULA_CDM]).exact
    return {} if value is None else {OVERALL: value}


def score_pages(
    records: Sequence[GenRecord],
    samples: Mapping[str, PageSample],
    *,
    known: Sequence[ScoreRecord] = (),
    cdm_scorer: CdmScorer | None = None,
) -> list[ScoreRecord]:
    """Scores of page records, sorted by sample, rep, arm and metric; equal Markdown of a page is scored once.

    A failed page is scored as an empty prediction. `known` are stored scores of the same scorer.
    """
    stored: dict[tuple[str, str], dict[str, ScoreRecord]] = {}
    for score in known:
        if score.task == "page":
            stored.setdefault((score.prediction_sha, score.reference_sha), {})[score.metric] = score
    fresh = _Fresh(samples, cdm_scorer)
    found: list[ScoreRecord] = []
    for record in records:
        if record.sample_id not in samples:
            raise NotComparableError(
                f"page {record.sample_id!r} of the run is not in the suite",
                hint="Score with the suite and the data the run was made on.",
            )
        reference_sha = samples[record.sample_id].image_sha256
        values = fresh.known(record, reference_sha, stored) or fresh.score(record)
        found += _records(record, reference_sha, values, cdm=cdm_scorer is not None)
    return sorted(found, key=lambda s: (s.sample_id, s.rep, s.arm, s.metric))


class _Fresh:
    """Scores what is not stored yet; remembers Markdown it has seen in this call."""

    def __init__(self, samples: Mapping[str, PageSample], cdm_scorer: CdmScorer | None) -> None:
        self._samples = samples
        self._cdm = cdm_scorer
        self._seen: dict[tuple[str, str], dict[str, Contribution]] = {}
        self._scorer: PageScorer | None = None

    def known(
        self,
        record: GenRecord,
        reference_sha: str,
        stored: Mapping[tuple[str, str], Mapping[str, ScoreRecord]],
    ) -> dict[str, Contribution] | None:
        found = stored.get((record.text_sha, reference_sha))
        if found is None or set(found) != set(PAGE_METRICS):
            return None
        if self._cdm is not None and found[FORMULA_CDM].reason == NO_CDM:
            return None
        return {name: (score.value, dict(score.counts)) for name, score in found.items()}

    def score(self, record: GenRecord) -> dict[str, Contribution]:
        from gravbench.omnidoc.page import PageScorer
        from gravbench.suites.omnidocbench import read_page

        key = (record.sample_id, record.text_sha)
        if key not in self._seen:
            self._scorer = self._scorer or PageScorer()
            sample = self._samples[record.sample_id]
            page = read_page(sample.entry, 0, source=sample.image_name)
            result = self._scorer.score(page, record.text if record.status == "ok" else None)
            self._seen[key] = contributions(page, result, self._cdm)
        return self._seen[key]


def contributions(
    page: Page, result: PageResult, cdm_scorer: CdmScorer | None = None
) -> dict[str, Contribution]:
    """What one scored page adds to each official average."""
    from gravbench.omnidoc.evaluation import add_cdm

    if cdm_scorer is not None:
        add_cdm(result.formulas, cdm_scorer)
    order: Contribution = (None, {})
    if result.order is not None and result.order.upper:
        edits = result.order.edits
        counts = {"edits": float(edits), "upper": float(result.order.upper)}
        order = (edits / result.order.upper, counts)
    return {
        TEXT: _distance([*result.text, *result.text_from_formulas]),
        FORMULA: _distance(result.formulas),
        FORMULA_CDM: _page_mean(result.formulas, "CDM", owner=page.owns_formula)
        if cdm_scorer is not None
        else (None, {}),
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
    record: GenRecord, reference_sha: str, values: Mapping[str, Contribution], *, cdm: bool
) -> list[ScoreRecord]:
    signatures = page_signatures()
    failed = record.status != "ok"
    why = f"{record.error.kind}: {record.error.message}" if record.error else None
    found = []
    for name in PAGE_METRICS:
        value, counts = values[name]
        reason = why if failed else None
        if value is None:
            reason = NO_CDM if name == FORMULA_CDM and not cdm else "the page has no such element"
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
