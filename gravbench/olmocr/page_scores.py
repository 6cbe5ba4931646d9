"""olmOCR-Bench as a suite's scorer: tests of a page, and pass rates that weigh a page by its tests.

A category's mean over pages, weighted by the page's tests, is its official pass rate. The mean of the eight
official categories is the official overall; tests of files of other names stand in one column of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gravbench.olmocr.bench import PUBLIC_CATEGORIES, baseline_last
from gravbench.olmocr.page import Rules, library_versions
from gravbench.scorers.contract import Answer, Metric, Note, Sample, Score, Scored, Scorer

NAME = "olmocr-bench-0.4.27"
RULES = Rules.RELEASE
LABELS = {
    "arxiv_math.jsonl": "arXiv math",
    "headers_footers.jsonl": "headers",
    "long_tiny_text.jsonl": "tiny text",
    "multi_column.jsonl": "columns",
    "old_scans.jsonl": "old scans",
    "old_scans_math.jsonl": "scans math",
    "table_tests.jsonl": "tables",
    "baseline": "baseline",
}
OVERALL, TESTS, OTHER = "olmocr_overall", "olmocr_tests", "olmocr_other"
PLACE = ("number", "category")
"""What a suite's page adds to a test: its place in the bench, and who counts it."""
NO_TEST = "the page has no such test"
STOPS = "the official program stops here and calls the whole folder FAILED"


def metric_of_category(category: str) -> str:
    """`old_scans.jsonl` -> `olmocr_old_scans`; files of other names share `olmocr_other`."""
    return f"olmocr_{category.removesuffix('.jsonl')}" if category in PUBLIC_CATEGORIES else OTHER


def _metric(name: str, label: str, what: str) -> Metric:
    return Metric(
        name=name,
        label=label,
        direction="higher",
        definition=f"Passed / all tests {what}, 0 to 1; a test passes in more than half of the repeats, and "
        "those of a failed page fail.",
        signature=f"{name}|rules:{RULES.value}|agg:tests|v:1",
        tasks=("page",),
    )


CATEGORIES = tuple(metric_of_category(name) for name in PUBLIC_CATEGORIES)
METRICS = (
    _metric(TESTS, "all tests", "of the run, whatever their category"),
    *(_metric(metric_of_category(name), LABELS[name], f"of {name}") for name in PUBLIC_CATEGORIES),
    _metric(OTHER, "other", "in files that the public data does not have"),
    Metric(
        name=OVERALL,
        label="Overall",
        unit="points",
        direction="higher",
        range=(0.0, 100.0),
        definition="Mean of the pass rates of the eight official categories, in percent; none without all.",
        signature=f"{OVERALL}|parts:8-categories|rules:{RULES.value}|v:1",
        tasks=("page",),
        parts=CATEGORIES,
        parts_needed=len(CATEGORIES),
    ),
)


@dataclass(frozen=True, slots=True)
class _Tally:
    """One category of one page: tests, those passed, and a note for each that was not."""

    tests: int
    passed: int
    notes: tuple[Note, ...]
    unscored: str | None = None


@dataclass
class OlmocrScorer(Scorer):
    """Release rules, KaTeX without a browser; its renderings are kept on this machine."""

    name: str = field(default=NAME, init=False)
    metrics = METRICS

    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        return self.score_all([(sample, answers)])[0]

    def score_all(self, batch: Sequence[tuple[Sample, Sequence[Answer]]]) -> list[list[list[Score]]]:
        """Every repeat gets the scores of all of them: a test passes when more than half of them pass it."""
        from gravbench.olmocr.math_tests import Equations
        from gravbench.olmocr.renderers import open_renderer
        from gravbench.olmocr.rendering import default_cache_file

        renderer = open_renderer(chromium=False, cache=default_cache_file())
        equations = Equations(renderer, RULES)
        try:
            found = [self._page(sample, answers, equations) for sample, answers in batch]
        finally:
            renderer.close()
        return [[scores] * len(answers) for scores, (_, answers) in zip(found, batch, strict=True)]

    def signatures(self) -> dict[str, str]:
        from gravbench.olmocr.renderers import open_renderer

        math = open_renderer(chromium=False, cache=None).signature
        tools = ",".join(f"{name}-{version}" for name, version in library_versions().items())
        return {name: f"{own}|math:{math}|libs:{tools}" for name, own in super().signatures().items()}

    def aggregate(self, scores: Iterable[Scored]) -> dict[str, float]:
        """Pass rates, and the overall where all eight categories are there."""
        rates = super().aggregate(scores)
        parts = [rates[name] for name in CATEGORIES if name in rates]
        return rates | ({OVERALL: 100 * sum(parts) / len(parts)} if len(parts) == len(CATEGORIES) else {})

    def remarks(self, scored: Sequence[tuple[Sample, Sequence[Scored]]], *, seed: int) -> Iterator[str]:
        """The official interval of the overall: tests drawn within categories, pages not kept together."""
        from gravbench.olmocr.scoring import official_interval

        if OVERALL not in self.aggregate(score for _, scores in scored for score in scores):
            return
        verdicts: list[tuple[int, str, bool]] = []
        for sample, scores in scored:
            dead = any(score.value == 0 and not score.notes for score in scores)
            lost = {note.element for score in scores for note in score.notes}
            verdicts += [
                (row["number"], row["category"], not dead and _element(row) not in lost)
                for row in _rows(sample)
            ]
        splits: dict[str, list[float]] = {}
        for _, category, passed in sorted(verdicts):
            splits.setdefault(category, []).append(float(passed))
        low, high = official_interval([splits[name] for name in sorted(splits, key=baseline_last)], seed=seed)
        yield (
            f"official interval of Overall, 95 %, single tests drawn within categories, seed {seed}: "
            f"{100 * low:.2f} to {100 * high:.2f}"
        )

    def _page(self, sample: Sample, answers: Sequence[Answer], equations: Any) -> list[Score]:
        rows: dict[str, list[Mapping[str, Any]]] = {}
        for row in _rows(sample):
            rows.setdefault(metric_of_category(row["category"]), []).append(row)
        dead = all(answer.failed for answer in answers)
        pages = _Pages(answers)
        tallies = {
            name: _Tally(len(own), 0, ()) if dead else _tally(own, pages, equations)
            for name, own in rows.items()
        }
        tallies[TESTS] = _Tally(
            sum(t.tests for t in tallies.values()),
            sum(t.passed for t in tallies.values()),
            (),
            next((t.unscored for t in tallies.values() if t.unscored), None),
        )
        return [_score(metric.name, tallies.get(metric.name)) for metric in METRICS if not metric.parts]


class _Pages:
    """The texts of every repeat; a failed one passes nothing."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        from gravbench.olmocr.page import PageText

        self.repeats = len(answers)
        self.texts = [PageText(answer.text, RULES) for answer in answers if not answer.failed]


def _tally(rows: Sequence[Mapping[str, Any]], pages: _Pages, equations: Any) -> _Tally:
    passed, notes, unscored = 0, list[Note](), None
    for row in rows:
        count, why, missing = _run(row, pages, equations)
        unscored = unscored or missing
        if count > pages.repeats / 2:
            passed += 1
        elif missing is None:
            notes.append(Note(element=_element(row), value=0.0, reason=why))
    return _Tally(len(rows), passed, tuple(notes), unscored)


def _run(row: Mapping[str, Any], pages: _Pages, equations: Any) -> tuple[int, str, str | None]:
    """Repeats that passed, why the first that did not failed, and the tool that is missing."""
    from gravbench.olmocr.page import OverLimitError, PageError, UnscoredError
    from gravbench.olmocr.records import read_test
    from gravbench.olmocr.scoring import run_test

    test = read_test({key: value for key, value in row.items() if key not in PLACE}, RULES)
    count, why = 0, "a repeat failed" if len(pages.texts) < pages.repeats else ""
    for page in pages.texts:
        try:
            verdict = run_test(test, page, equations)
        except UnscoredError as error:
            return 0, "", str(error)
        except PageError as error:
            why = why or f"{error}; {STOPS}"
        except OverLimitError as error:
            why = why or f"over a limit: {error}"
        else:
            count += verdict.passed
            why = why or ("" if verdict.passed else f"{verdict.why}: {verdict.detail}")
    return count, why, None


def _score(metric: str, tally: _Tally | None) -> Score:
    if tally is None or tally.unscored is not None:
        return Score(metric=metric, value=None, reason=NO_TEST if tally is None else tally.unscored)
    counts = {"passed": float(tally.passed), "weight": float(tally.tests)}
    return Score(metric=metric, value=tally.passed / tally.tests, counts=counts, notes=tally.notes)


def _rows(sample: Sample) -> list[dict[str, Any]]:
    truth = sample.truth
    tests = truth.get("tests") if isinstance(truth, Mapping) else None
    return [dict(row) for row in tests] if isinstance(tests, list) else []


def _element(row: Mapping[str, Any]) -> str:
    return f"{row['type']} {row['id']}"
