"""Official scores of pages, page by page, so that means, intervals and paired tests can be redone from them.

Every value is what the page contributes to an official average: the plain mean of a metric's values over the
pages that have one is the official number (OmniDocBench v1.6: `ALL_page_avg` of edit distances, page `ALL` of
TEDS and CDM, where a page that owns a table or formula without a row counts 0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gravbench.omnidocbench.page_metrics import (
    FORMULA,
    FORMULA_CDM,
    MARKDOWN_METRICS,
    MARKDOWN_NAMES,
    METRICS,
    ORDER,
    OVERALL,
    SCORER,
    TEDS,
    TEDS_S,
    TEXT,
    overall,
)
from gravbench.scorers.contract import Answer, Note, Sample, Score, Scored, Scorer

if TYPE_CHECKING:
    from gravbench.omnidocbench.cdm.rows import Cdm
    from gravbench.omnidocbench.cdm.score import CdmResult
    from gravbench.omnidocbench.ground_truth import Page
    from gravbench.omnidocbench.lines import Row
    from gravbench.omnidocbench.page_scorer import PageResult

Key = tuple[str, str | None]
"""(sample id, Markdown; `None` where the page failed)."""
NO_ELEMENT = "the page has no such element"


@dataclass
class OmniDocBenchScorer(Scorer):
    """Scores Markdown of pages by the official rules; a failed page is scored as an empty prediction.

    Formulas of all pages are rendered together. `cdm` is found when first needed; without its tools, CDM is
    unscored with the reason.
    """

    cdm: Cdm | None = None
    name: str = field(default=SCORER, init=False)
    metrics = METRICS

    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        return self.score_all([(sample, answers)])[0]

    def score_all(self, batch: Sequence[tuple[Sample, Sequence[Answer]]]) -> list[list[list[Score]]]:
        from gravbench.omnidocbench.evaluation import add_cdm
        from gravbench.omnidocbench.ground_truth import read_page
        from gravbench.omnidocbench.page_scorer import PageScorer

        renderer, scorer = self.renderer(), PageScorer()
        available = renderer.status.available
        results: dict[Key, tuple[Page, PageResult]] = {}
        for sample, answers in batch:
            page: Page | None = None
            for answer in answers:
                key = _key(sample, answer)
                if key not in results:
                    page = page or read_page(_annotation(sample), 0, source=_image_name(sample))
                    results[key] = page, scorer.score(page, key[1])
        reasons: Mapping[int, CdmResult] = {}
        if available:
            rows = [row for _, result in results.values() for row in result.formulas]
            add_cdm(rows, renderer.score)
            found = zip(rows, renderer.results, strict=True)
            reasons = {id(row): outcome for row, outcome in found if outcome.reason}
        unrendered = None if available else unavailable(renderer)
        scores = {
            key: scores_of(*result, unrendered=unrendered, reasons=reasons) for key, result in results.items()
        }
        return [[scores[_key(sample, answer)] for answer in answers] for sample, answers in batch]

    def signatures(self) -> dict[str, str]:
        static = super().signatures()
        status = self.renderer().status
        if status.available:
            static[FORMULA_CDM] = rendered_signature(static[FORMULA_CDM], str(status.signature))
        return static

    def aggregate(self, scores: Iterable[Scored]) -> dict[str, float]:
        """The means, and Overall where all three of its parts are there."""
        means = super().aggregate(scores)
        if any(part not in means for part in (TEXT, TEDS, FORMULA_CDM)):
            return means
        value = overall(text_edit=means[TEXT], teds=means[TEDS], cdm=means[FORMULA_CDM]).exact
        return means if value is None else {**means, OVERALL: value}

    def renderer(self) -> Cdm:
        """CDM with its shared cache, or the reason why this machine cannot render formulas."""
        if self.cdm is None:
            from gravbench.omnidocbench.cdm.rows import find_cdm
            from gravbench.omnidocbench.result_cache import default_cache_dir

            self.cdm = find_cdm(default_cache_dir())
        return self.cdm


class MarkdownPageScorer(Scorer):
    """Pages whose truth is Markdown: matched as OmniDocBench matches, under names of its own, without CDM and
    without an Overall. Pipe tables of answers become HTML first, as those of the truth did."""

    name = "markdown-pages"
    metrics = MARKDOWN_METRICS

    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        from gravbench.omnidocbench.ground_truth import read_page
        from gravbench.omnidocbench.page_scorer import PageScorer
        from gravbench.omnidocbench.table_conversion import with_html_tables

        page, scorer = read_page(_annotation(sample), 0, source=_image_name(sample)), PageScorer()
        unrendered = Note(element="page", reason="formulas are not rendered")
        found = []
        for answer in answers:
            result = scorer.score(page, None if answer.failed else with_html_tables(answer.text))
            scores = scores_of(page, result, unrendered=unrendered)
            named = [(MARKDOWN_NAMES[s.metric][0], s) for s in scores if s.metric in MARKDOWN_NAMES]
            found.append([replace(score, metric=name) for name, score in named])
        return found


def scores_of(
    page: Page,
    result: PageResult,
    *,
    unrendered: Note | None = None,
    reasons: Mapping[int, CdmResult] | None = None,
) -> list[Score]:
    """What one scored page adds to each official average. `unrendered` says why there is no CDM at all;
    `reasons` why a formula row, by its `id`, did not render."""
    crash = _crash_notes(result)
    order: tuple[float | None, dict[str, float]] = (None, {})
    if result.order is not None and result.order.upper:
        edits = result.order.edits
        counts = {"edits": float(edits), "upper": float(result.order.upper)}
        order = (edits / result.order.upper, counts)
    text, formula = _distance([*result.text, *result.text_from_formulas]), _distance(result.formulas)
    tables = [_page_mean(result.tables, name, owner=page.owns_table) for name in (TEDS_ROW, TEDS_S_ROW)]
    table_notes = (*_table_notes(result), *crash)
    return [
        _score(TEXT, *text, notes=crash),
        _score(FORMULA, *formula, notes=crash),
        _cdm_score(page, result, unrendered, reasons or {}),
        _score(TEDS, *tables[0], notes=table_notes),
        _score(TEDS_S, *tables[1], notes=table_notes),
        _score(ORDER, *order, notes=crash),
    ]


MACHINE_STEP = "Mend the TeX installation (gravbench doctor) and score again."
TEDS_ROW, TEDS_S_ROW = "TEDS", "TEDS_structure_only"


def _score(
    metric: str, value: float | None, counts: dict[str, float], *, notes: Iterable[Note] = ()
) -> Score:
    reason = NO_ELEMENT if value is None else None
    return Score(metric=metric, value=value, counts=counts, reason=reason, notes=tuple(notes))


def _cdm_score(
    page: Page, result: PageResult, unrendered: Note | None, reasons: Mapping[int, CdmResult]
) -> Score:
    if unrendered is not None:
        return Score(metric=FORMULA_CDM, value=None, reason=f"{unrendered.reason}; {unrendered.next_step}")
    notes = _formula_notes(result, reasons)
    return _score(
        FORMULA_CDM, *_page_mean(result.formulas, "CDM", owner=page.owns_formula), notes=notes
    )  # fmt: skip


def notes_of(result: PageResult, reasons: Mapping[int, CdmResult]) -> list[Note]:
    """All notes of a page; `reasons` as in `scores_of`."""
    return [*_crash_notes(result), *_table_notes(result), *_formula_notes(result, reasons)]


def _crash_notes(result: PageResult) -> tuple[Note, ...]:
    return () if result.crash is None else (Note(element="page", reason=f"scored as empty: {result.crash}"),)


def _formula_notes(result: PageResult, reasons: Mapping[int, CdmResult]) -> list[Note]:
    return [
        Note(
            element=f"formula {row.gt_idx[0]}",
            value=row.metric["CDM"],
            reason=str(reasons[id(row)].reason),
            next_step=MACHINE_STEP if reasons[id(row)].machine else "",
            machine=reasons[id(row)].machine,
        )
        for row in result.formulas
        if id(row) in reasons and row.gt_idx
    ]


_TEDS_FAULTS = {
    "ValueError": "a colspan or rowspan is no whole number (ValueError)",
    "ZeroDivisionError": "both tables are empty (ZeroDivisionError)",
    "ParserError": "nothing to parse (ParserError)",
    "NodeBudget": "too many nodes, it would run into its time limit",
}


def _table_notes(result: PageResult) -> list[Note]:
    """Tables that the official scorer fails on, that it cannot convert, or that it might have given up on."""
    notes = [
        Note(
            element=element,
            value=0.0,
            reason=f"the official scorer fails on this pair: {_TEDS_FAULTS.get(why, why)}",
        )
        for element, _, why in (error.partition(": ") for error in result.errors)
    ]
    notes += [
        Note(
            element=f"predicted LaTeX table {number}",
            value=0.0,
            reason=f"not converted, counts as empty: {found.reason}",
            next_step=found.next_step,
            machine=not found.final,
        )
        for number, found in enumerate(result.unconverted)
    ]
    notes += [
        Note(element=element, value=0.0, reason=f"not read, counts as empty: {why}")
        for element, _, why in (found.partition(": ") for found in result.oversized)
    ]
    return notes


def _distance(rows: Sequence[Row]) -> tuple[float | None, dict[str, float]]:
    """Sum of edits / sum of longer sides of one page."""
    edits = sum(row.edits or 0 for row in rows)
    upper = sum(row.upper for row in rows)
    counts = {"edits": float(edits), "upper": float(upper), "rows": float(len(rows))}
    return (edits / upper if upper else None), counts


def _page_mean(
    rows: Sequence[Row], metric: str, *, owner: bool
) -> tuple[float | None, dict[str, float]]:  # fmt: skip
    """Mean over the page's rows; 0 for a page that owns such an element and has no row."""
    values = [row.metric[metric] for row in rows if metric in row.metric]
    counts = {"sum": float(sum(values)), "rows": float(len(values))}
    if values:
        return sum(values) / len(values), counts
    return (0.0 if owner else None), counts


def rendered_signature(own: str, renderer: str) -> str:
    """CDM's signature with that of what renders its formulas."""
    return f"{renderer}|{own.removeprefix('cdm|')}"


def unavailable(renderer: Cdm) -> Note:
    """Why there is no CDM, and what to install."""
    status = renderer.status
    return Note(
        element="page", reason=f"CDM is not scored: {status.reason}", next_step=str(status.hint)
    )  # fmt: skip


def _key(sample: Sample, answer: Answer) -> Key:
    return sample.sample_id, None if answer.failed else answer.text


def _annotation(sample: Sample) -> dict[str, Any]:
    truth = sample.truth
    return dict(truth) if not isinstance(truth, str) else {}


def _image_name(sample: Sample) -> str:
    return str(getattr(sample, "image_name", sample.sample_id))
