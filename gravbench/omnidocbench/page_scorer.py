"""One page: Markdown in, rows out (OmniDocBench v1.6, end to end without rendering).

No clock decides anything here. Work is counted and turned into seconds of the official pure Python code on an
ordinary core; from a twentieth of an official limit on the place is reported, because the official workers
share one interpreter (13 threads by default) and machines differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gravbench.errors import GravbenchError
from gravbench.metrics.edit_distance import edit_distance
from gravbench.metrics.repetition import Repetition, Surplus, find_repetition, measure_surplus
from gravbench.metrics.table_html import normalize_html_table
from gravbench.metrics.table_markup import RefusedMarkupError, over_limit
from gravbench.omnidocbench.formula_assignments import RESCUED, candidate_pool
from gravbench.omnidocbench.formula_candidates import collapse, sanitized
from gravbench.omnidocbench.formula_stage import FormulaStage
from gravbench.omnidocbench.formula_text import matrix_variants
from gravbench.omnidocbench.ground_truth import FORMULA, TEXT_CATEGORIES, Element, Page
from gravbench.omnidocbench.lines import (
    IGNORED_CATEGORIES,
    OrderRow,
    PredictedLines,
    Row,
    SourceKey,
    inline_last,
    predicted,
    predicted_lines,
    reading_order,
    split_predictions,
    truth_items,
    truth_lines,
)
from gravbench.omnidocbench.markdown_blocks import PredictionCrashError
from gravbench.omnidocbench.markdown_items import Converters, extract_items
from gravbench.omnidocbench.quick_match import (
    QUICK_MATCH,
    SIMPLE_MATCH,
    quick_match,
    simple_match,
)
from gravbench.omnidocbench.span_repair import compare_mixed_as_text, repair_spans
from gravbench.omnidocbench.table_conversion import Conversion, LatexTables, convert_pipe_tables
from gravbench.omnidocbench.table_match import predicted_tables, score_tables
from gravbench.omnidocbench.text import Normalizer, clean

if TYPE_CHECKING:
    from gravbench.metrics.teds import TedsResult

_CJK = re.compile(r"[\u4e00-\u9fff]")
_TAG = re.compile(r"<[^>]*>")
_MIXED = ("html_table", "latex_table", "formula_rescue")
"""Categories that stay out of hybrid matching."""
_SCORED_TEXT = frozenset(TEXT_CATEGORIES) - IGNORED_CATEGORIES
_FORMULA_OR_NONE = ("equation_inline", "equation_isolated", "")
_SURROGATE_HINTS = (
    *("=", "≈", "≠", "≤", "≥", "÷", "×", "+", "-", "/", "%", "^", "_", "\\frac", "\\div", "\\times"),
    *("\\sum", "\\int", "\\(", "\\)", "\\[", "\\]", "$"),
)


@dataclass(frozen=True, slots=True)
class PageResult:
    """Everything one page contributes."""

    image: str
    text: tuple[Row, ...]
    text_from_formulas: tuple[Row, ...]
    """Formula rows matched to something else; they are scored as text, behind all other text rows."""
    formulas: tuple[Row, ...]
    tables: tuple[Row, ...]
    order: OrderRow | None
    surplus: Surplus
    repetition: Repetition
    latex_tables: int
    """LaTeX tables in the prediction."""
    unconverted_latex_tables: int
    clock_limits: tuple[ClockLimit, ...]
    errors: tuple[str, ...]
    """Table pairs that score 0 because the official scorer fails on them, with its exception."""
    unconverted: tuple[Conversion, ...] = ()
    """Why each LaTeX table that counts as empty does so, in page order."""
    oversized: tuple[str, ...] = ()
    """Predicted tables that are more than is read here and count as empty: which, and why."""
    crash: str | None = None
    """Why the page is scored as empty: what ends the official scorer on it, or an error of ours."""
    unreadable: bool = False
    """The prediction file could not be read; the page is scored as empty."""
    internal_error: bool = False
    """`crash` is an error of this scorer: exception, place and text."""
    formula_trees: tuple[float | None, ...] = ()
    """Tree score of each formula row, where they were asked for; no official value."""


def _attach_cdm_fields(row: Row) -> None:
    """The spellings CDM compares; a near match by text with CJK stands in for a formula."""
    variants = matrix_variants(row.gt, row.pred)
    if variants.truth:
        row.cdm["gt_cdm"] = variants.truth
    if variants.alternative:
        row.cdm["pred_cdm_alt"] = variants.alternative
    if row.pred_category in _FORMULA_OR_NONE:
        return
    text = collapse(row.pred)
    if not text or len(text) > 240 or row.distance > 0.35 or not _CJK.search(row.gt + text):
        return
    if any(hint in text for hint in _SURROGATE_HINTS) or (row.distance <= 0.28 and len(text) <= 80):
        raw = row.pred.strip()
        row.cdm["pred_cdm"] = raw
        alternative = sanitized(row.pred)
        if alternative not in ("", raw):
            row.cdm.setdefault("pred_cdm_alt", alternative)
        row.cdm.setdefault("gt_cdm", row.gt)


def _measure(rows: Sequence[Row]) -> None:
    """Edit distance of each row from the texts that are compared."""
    for row in rows:
        gt, pred = row.compared
        row.upper = max(len(gt), len(pred))
        if row.upper:
            row.edits = edit_distance(gt, pred)
            row.metric["Edit_dist"] = row.edits / row.upper


def _order_row(rows: Sequence[Row], image: str) -> OrderRow | None:
    return reading_order([(row.gt_position, row.pred_position) for row in rows], image)


def _surplus(
    lines: PredictedLines, matched: set[int], formulas: set[SourceKey], tables: Sequence[tuple[str, bool]]
) -> Surplus:
    """Text by hybrid row, display formulas also by formula row, tables by table row.

    Inline formulas and rescue candidates are part of the text they stand in and do not count again.
    """
    pieces = [
        (len(norm), number in matched or origin.source in formulas)
        for number, (norm, origin) in enumerate(zip(lines.norm, lines.origins, strict=True))
        if not origin.item.is_inline and origin.item.kind not in RESCUED
    ]
    pieces += [(len(clean(_TAG.sub("", table))), is_matched) for table, is_matched in tables]
    return measure_surplus(pieces)


def _apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Rows of text-like truth, ignored categories left out, and rows of formulas."""
    text = [row for row in rows if row.gt_category in _SCORED_TEXT]
    return text, [row for row in rows if row.gt_category == FORMULA]


def _unmatched(page: Page, reason: str) -> PageResult:
    """Every block of the ground truth as it stands, with nothing against it."""

    def row(number: int, element: Element) -> Row:
        return Row(
            gt_idx=(number,),
            pred_idx=(),
            gt=element.content,
            pred="",
            norm_gt=element.content,
            norm_pred="",
            gt_position=(element.order,),
            pred_position=None,
            gt_category=element.category,
            pred_category="",
            gt_attribute=(element.attribute,),
            distance=1.0,
            image=page.image,
        )

    text, _ = _apart([row(number, element) for number, element in enumerate(page.mixed)])
    formulas = [row(number, element) for number, element in enumerate(page.formulas)]
    tables = [row(number, element) for number, element in enumerate(page.tables)]
    for table in tables:
        table.metric = {"TEDS": 0.0, "TEDS_structure_only": 0.0}
    rows = [*text, *formulas, *tables]
    _measure(rows)
    return PageResult(
        image=page.image,
        text=tuple(text),
        text_from_formulas=(),
        formulas=tuple(formulas),
        tables=tuple(tables),
        order=_order_row(rows, page.image),
        surplus=measure_surplus([]),
        repetition=find_repetition(""),
        latex_tables=0,
        unconverted_latex_tables=0,
        clock_limits=(),
        errors=(),
        crash=reason,
        internal_error=True,
    )


@dataclass(frozen=True, slots=True)
class ScorerSetup:
    """What a user may choose of the page scorer."""

    match: str = QUICK_MATCH
    latex_cache: Path | None = None
    """Folder where converted LaTeX tables are kept; None: for this process only."""


QUICK = ScorerSetup()


class PageScorer:
    """Scores pages one after the other; remembers normalised texts, nothing of a page's result."""

    def __init__(self, setup: ScorerSetup = QUICK) -> None:
        self._normalizer = Normalizer()
        self._latex = LatexTables(setup.latex_cache)
        self._match = simple_match if setup.match == SIMPLE_MATCH else quick_match
        self.converters = Converters(self._normalizer.plain, self._latex.html, convert_pipe_tables)
        self._at = "page"

    def score(self, page: Page, markdown: str | None, *, crash: str | None = None) -> PageResult:
        """Rows of one page. `markdown` None: no prediction, scored as an empty one.

        A prediction that would crash the official scorer is scored as an empty one, with the reason. So is
        one that an error of this scorer stops; only faults of the ground truth are raised.
        """
        if markdown is None or crash is not None:
            return self._score(page, "", crash)
        try:
            return self._score(page, markdown, None)
        except GravbenchError:
            raise
        except (PredictionCrashError, RefusedMarkupError) as error:
            return self._score(page, "", f"the official scorer fails on its {self._at}: {error}")
        except Exception as error:  # whatever one page holds, the others keep their scores
            return self._worst(page, f"{type(error).__name__} in its {self._at}: {error}")

    def _worst(self, page: Page, reason: str) -> PageResult:
        """The page as an empty prediction scores; row by row by hand if even that fails."""
        try:
            return replace(self._score(page, "", reason), internal_error=True)
        except GravbenchError:
            raise
        except Exception:
            return _unmatched(page, reason)

    def _score(self, page: Page, markdown: str, crash: str | None) -> PageResult:
        self._at = "Markdown"
        items = extract_items(markdown, self.converters)
        self._at = "text"
        mixed = [item for category, found in items.items() if category not in _MIXED for item in found]
        lines = predicted_lines(
            split_predictions([predicted(item) for item in inline_last(mixed)]), self._normalizer
        )
        match = self._match(truth_lines(truth_items(page.mixed), self._normalizer), lines, page.image)
        matched = {number for row in match.rows for number in row.pred_idx}
        for row in match.rows:
            compare_mixed_as_text(row, self._normalizer)
        repair_spans(match.rows, mixed, self._normalizer)
        text, formulas = _apart(match.rows)
        self._at = "formulas"
        formula_truth = truth_lines(truth_items(page.formulas), self._normalizer)
        stage = FormulaStage(formula_truth, candidate_pool(items), self._normalizer, page.image)
        best = stage.best(formulas)
        formulas = list(best.rows) if best else []
        for row in formulas:
            _attach_cdm_fields(row)
        self._at = "tables"
        scored = score_tables(page, items)
        tables = [row for row, _ in scored]
        self._at = "page"
        used = {number for row in tables for number in row.pred_idx}
        order = _order_row([*text, *formulas, *tables], page.image)
        unplaced = [
            row for row in formulas if row.pred_category not in _FORMULA_OR_NONE and "pred_cdm" not in row.cdm
        ]
        formulas = [row for row in formulas if row not in unplaced]
        _measure([*text, *formulas, *unplaced, *tables])
        windows = match.official_windows + stage.official_windows
        searched = match.searched and stage.searched
        latex = [item for found in items.values() for item in found if item.kind.startswith("latex")]
        return PageResult(
            image=page.image,
            text=tuple(text),
            text_from_formulas=tuple(unplaced),
            formulas=tuple(formulas),
            tables=tuple(tables),
            order=order,
            surplus=_surplus(
                lines,
                matched,
                best.sources if best else set(),
                [(table.content, number in used) for number, table in enumerate(predicted_tables(items))],
            ),
            repetition=find_repetition(markdown),
            latex_tables=len(latex),
            unconverted_latex_tables=len(items.get("latex_table", ())),
            unconverted=tuple(self._latex.convert(item.content) for item in items.get("latex_table", ())),
            oversized=tuple(
                f"predicted table {number}: {why}"
                for number, table in enumerate(items.get("html_table", ()))
                if (why := over_limit(table.content)) is not None and not normalize_html_table(table.content)
            ),
            clock_limits=(
                *matching_limits(page.image, windows, searched=searched),
                *(limit for row, teds in scored for limit in teds_limits(page.image, row.gt_idx[0], teds)),
            ),
            errors=tuple(f"table {row.gt_idx[0]}: {teds.raises}" for row, teds in scored if teds.raises),
            crash=crash,
        )


MERGING_LIMIT_S = 300.0
TEDS_LIMIT_S = 120.0
REPORTED_SHARE = 0.05
_SECONDS_PER_WINDOW = 4e-7
_SECONDS_PER_NODE_PAIR = 6e-5


@dataclass(frozen=True, slots=True)
class ClockLimit:
    """One such place: the limit, what the official code would about have needed, what it does beyond."""

    page: str
    stage: str
    limit_s: float
    estimated_s: float
    otherwise: str

    def to_record(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "stage": self.stage,
            "limit_s": self.limit_s,
            "estimated_s": round(self.estimated_s, 1),
            "otherwise": self.otherwise,
        }


def _reported(limit: ClockLimit) -> list[ClockLimit]:
    return [limit] if limit.estimated_s >= REPORTED_SHARE * limit.limit_s else []


def matching_limits(page: str, official_windows: int, *, searched: bool) -> list[ClockLimit]:
    """The merging search of a page, from the windows it reads; one we left out is always reported."""
    seconds = official_windows * _SECONDS_PER_WINDOW
    limit = ClockLimit(page, "prediction_merging", MERGING_LIMIT_S, seconds, "chunked assignment")
    if not searched:
        return [replace(limit, stage="prediction_merging (left out here: beyond the work budget)")]
    return _reported(limit)


def teds_limits(page: str, table: int, teds: TedsResult) -> list[ClockLimit]:
    """TEDS and TEDS-S of one table pair, from its numbers of nodes."""
    seconds = teds.nodes_gt * teds.nodes_pred * _SECONDS_PER_NODE_PAIR
    return _reported(ClockLimit(page, f"teds of table {table}", TEDS_LIMIT_S, seconds, "score 0"))
