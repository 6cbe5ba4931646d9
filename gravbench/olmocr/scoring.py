"""All tests of a bench against one candidate (verdicts per test, errors per page), and their pass rates: the
official interval, and one that keeps pages together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gravbench.imaging import is_within
from gravbench.olmocr.bench import Bench, Booked, Candidate, expected_file
from gravbench.olmocr.math_tests import Equations, run_math, wanted
from gravbench.olmocr.page import OverLimitError, PageError, PageText, UnscoredError, Verdict
from gravbench.olmocr.records import (
    BaselineTest,
    FootnoteTest,
    FormatTest,
    MathTest,
    OrderTest,
    TableTest,
    Test,
    TextTest,
)
from gravbench.olmocr.table_tests import run_table
from gravbench.olmocr.text_tests import run_baseline, run_footnote, run_format, run_order, run_text
from gravbench.processes import side_by_side

PDFS_AT_ONCE = 64
"""PDFs of a candidate that one process takes, and whose equations are rendered together."""
PARTS_PER_JOB = 3
"""A further process for so many times as many PDFs; with fewer, starting it takes what it saves."""


def run_test(test: Test, page: PageText, equations: Equations) -> Verdict:
    """The verdict, or PageError (the official program throws), OverLimitError, UnscoredError."""
    match test:
        case TextTest():
            return run_text(test, page)
        case OrderTest():
            return run_order(test, page)
        case TableTest():
            return run_table(test, page)
        case MathTest():
            return run_math(test, page, equations)
        case BaselineTest():
            return run_baseline(test, page)
        case FormatTest():
            return run_format(test, page)
        case FootnoteTest():
            return run_footnote(test, page)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A test over its page's files. `why` and `detail` are those of the first file that failed."""

    booked: Booked
    passes: int = 0
    repeats: int = 0
    error: str | None = None
    """The official program counts an error here, which fails its whole candidate."""
    unscored: str | None = None
    """A tool is missing; the test neither passed nor failed."""
    why: str | None = None
    detail: str = ""
    file: str | None = None
    """The file that `why` is about, or the file that was expected."""

    @property
    def average(self) -> float:
        return self.passes / self.repeats if self.repeats else 0.0

    @property
    def passed(self) -> bool:
        """More than half of the repeats; never with an error."""
        return self.error is None and self.average > 0.5


@dataclass(slots=True)
class FolderNotes:
    """What a reader must know about a folder of predictions beside its score."""

    files: int = 0
    empty: list[str] = field(default_factory=list)
    """Files of no byte."""
    near_empty: list[str] = field(default_factory=list)
    """Files without a letter or digit that are not empty: a blank alone makes `present` tests pass."""
    decided_by_short_pages: list[str] = field(default_factory=list)
    """Ids of present and absent tests whose page is shorter than their text less max_diffs."""
    equations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("\\(", "\\[", "$$", "$"), 0))
    """Equations by opening delimiter."""
    rejected: dict[str, str] = field(default_factory=dict)
    """Equations of pages whose tests asked for them, and that were not rendered, with the reason."""
    escaped_underscores: int = 0
    latex_tables: int = 0
    """Pages with a LaTeX table, which no table test reads."""

    def add(self, more: FolderNotes) -> None:
        """The notes of further files."""
        self.files += more.files
        self.empty += more.empty
        self.near_empty += more.near_empty
        self.decided_by_short_pages += more.decided_by_short_pages
        for opening, count in more.equations.items():
            self.equations[opening] += count
        self.rejected |= more.rejected
        self.escaped_underscores += more.escaped_underscores
        self.latex_tables += more.latex_tables

    def look_at(self, name: str, page: PageText, rejected: Mapping[str, str]) -> None:
        """One file; `rejected`: equations that its tests asked for in vain."""
        self.files += 1
        raw = page.raw
        if not raw:
            self.empty.append(name)
        elif not any(map(str.isalnum, raw)):
            self.near_empty.append(name)
        if "\\_" in raw:
            self.escaped_underscores += 1
        if "\\begin{tabular}" in raw:
            self.latex_tables += 1
        for opening, found in page.delimited:
            self.equations[opening] += len(found)
            self.rejected.update((each, rejected[each]) for each in found if each in rejected)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Outcomes in the bench's order. `lost_pdfs`: PDFs without any file, each an error of its own."""

    bench: Bench
    candidate: Candidate
    outcomes: tuple[Outcome, ...]
    lost_pdfs: tuple[str, ...]
    notes: FolderNotes

    @property
    def failed_officially(self) -> bool:
        return bool(self.lost_pdfs) or any(outcome.error for outcome in self.outcomes)

    def categories(self, *, official: bool) -> dict[str, tuple[int, int]]:
        """Category -> passed, all. Officially nothing is passed by a candidate with errors.

        Else errors count as failed and unscored tests are left out.
        """
        counts = {name: [0, 0] for name in self.bench.categories}
        zero = official and self.failed_officially
        for outcome in self.outcomes:
            if outcome.unscored is not None:
                continue
            pair = counts[outcome.booked.category]
            pair[0] += outcome.passed and not zero
            pair[1] += 1
        return {name: (pair[0], pair[1]) for name, pair in counts.items()}

    def splits(self) -> list[list[float]]:
        """Verdicts of each category, in the bench's order."""
        found: dict[str, list[float]] = {name: [] for name in self.bench.categories}
        for outcome in self.outcomes:
            if outcome.unscored is None:
                found[outcome.booked.category].append(float(outcome.passed))
        return list(found.values())


@dataclass(frozen=True, slots=True)
class _Part:
    """Some PDFs of one candidate: outcomes by their place in the bench, and what the files were like."""

    outcomes: Mapping[int, Outcome]
    notes: FolderNotes


class Scorer:
    """Tests of one bench, run on candidates; a process renders an equation once for all of them."""

    def __init__(self, bench: Bench, candidates: Sequence[Candidate], equations: Equations) -> None:
        self._bench, self._candidates, self._equations = bench, candidates, equations
        self._by_pdf: dict[str, list[int]] = {}
        for number, booked in enumerate(bench.tests):
            self._by_pdf.setdefault(booked.test.pdf, []).append(number)
        self._pdfs = list(self._by_pdf)

    def score(self, *, jobs: int) -> list[Evaluation]:
        """Never raises for what a page holds. Jobs are processes; the results do not depend on them."""
        chunks = [
            self._pdfs[start : start + PDFS_AT_ONCE] for start in range(0, len(self._pdfs), PDFS_AT_ONCE)
        ]
        parts = [(candidate, chunk) for candidate in self._candidates for chunk in chunks]
        scored = side_by_side(self._score, parts, jobs=min(jobs, len(parts) // PARTS_PER_JOB))
        return [
            self._evaluation(candidate, scored[number * len(chunks) : (number + 1) * len(chunks)])
            for number, candidate in enumerate(self._candidates)
        ]

    def _evaluation(self, candidate: Candidate, parts: Sequence[_Part]) -> Evaluation:
        outcomes: dict[int, Outcome] = {}
        notes = FolderNotes()
        for part in parts:
            outcomes.update(part.outcomes)
            notes.add(part.notes)
        lost = tuple(pdf for pdf in self._bench.pdfs if not candidate.of_pdf(pdf))
        ordered = tuple(outcomes[number] for number in range(len(self._bench.tests)))
        return Evaluation(self._bench, candidate, ordered, lost, notes)

    def _score(self, part: tuple[Candidate, Sequence[str]]) -> _Part:
        """All tests of some PDFs."""
        candidate, chunk = part
        outcomes: dict[int, Outcome] = {}
        notes = FolderNotes()
        pages = {pdf: self._read(candidate, pdf) for pdf in chunk}
        asked = self._asked(candidate, pages)
        self._equations.prepare(equation for own in asked.values() for equation in own)
        for pdf in chunk:
            for name, page in pages[pdf].items():
                if isinstance(page, PageText):
                    rejected = self._equations.rejected
                    own = asked.get((pdf, name), {})
                    notes.look_at(name, page, {each: rejected[each] for each in own if each in rejected})
            for number in self._by_pdf[pdf]:
                outcomes[number] = self._test(self._bench.tests[number], candidate, pages[pdf], notes)
        return _Part(outcomes, notes)

    def _read(self, candidate: Candidate, pdf: str) -> dict[str, PageText | str]:
        """Files of a PDF; a file that cannot be read is a message."""
        pages: dict[str, PageText | str] = {}
        root = candidate.folder.resolve()
        for name in candidate.of_pdf(pdf):
            if not is_within((root / name).resolve(), root):
                pages[name] = "cannot be read: it leads out of the folder by a link"
                continue
            try:
                text = (candidate.folder / name).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                pages[name] = f"cannot be read: {error}"
            else:
                pages[name] = PageText(text, self._bench.rules)
        return pages

    def _asked(
        self, candidate: Candidate, pages: Mapping[str, Mapping[str, PageText | str]]
    ) -> dict[tuple[str, str], dict[str, None]]:
        """Equations that the tests of a PDF's file need rendered, in their order."""
        asked: dict[tuple[str, str], dict[str, None]] = {}
        for pdf, files in pages.items():
            for number in self._by_pdf[pdf]:
                test = self._bench.tests[number].test
                if isinstance(test, MathTest):
                    for name in candidate.of_page(pdf, test.page):
                        page = files[name]
                        if isinstance(page, PageText):
                            asked.setdefault((pdf, name), {}).update(dict.fromkeys(wanted(test, page)))
        return asked

    def _test(
        self, booked: Booked, candidate: Candidate, pages: Mapping[str, PageText | str], notes: FolderNotes
    ) -> Outcome:
        test = booked.test
        names = candidate.of_page(test.pdf, test.page)
        if not names:
            expected = expected_file(test.pdf, test.page)
            return Outcome(booked, error="no prediction of this page", file=expected)
        passes = 0
        error = unscored = first = None
        for name in names:
            page = pages[name]
            found: Verdict | str
            try:
                found = page if isinstance(page, str) else run_test(test, page, self._equations)
            except PageError as raised:
                found = f"the official program stops: {raised}"
            except OverLimitError as raised:
                found = f"over a limit: {raised}"
            except UnscoredError as raised:
                unscored = str(raised)
                continue
            if isinstance(found, str):
                error = error or (found, name)
                continue
            passes += found.passed
            if not found.passed and first is None:
                first = (found, name)
            if isinstance(test, TextTest) and isinstance(page, PageText) and _is_short(page, test):
                notes.decided_by_short_pages.append(test.id)
        if error is not None:
            return Outcome(booked, passes, len(names), error=error[0], file=error[1])
        if unscored is not None:
            return Outcome(booked, unscored=unscored)
        if first is None:
            return Outcome(booked, passes, len(names))
        verdict, name = first
        return Outcome(booked, passes, len(names), why=verdict.why, detail=verdict.detail, file=name)


def _is_short(page: PageText, test: TextTest) -> bool:
    """The page holds something, yet less than the test's text needs: then it is looked for in that text."""
    return bool(page.raw) and len(page.text) < len(test.text) - test.max_diffs


ROUNDS = 1000
LEVEL = 0.95

Interval = tuple[float, float]


def official_interval(
    splits: Sequence[Sequence[float]], *, seed: int, rounds: int = ROUNDS, level: float = LEVEL
) -> Interval:
    """Percentile bootstrap of the mean of category means; each category is resampled to its own size.

    The official function with its generator seeded: numpy's legacy one, per round and category one draw of
    indices.
    """
    arrays = [np.asarray(split, dtype=float) for split in splits if len(split)]
    if not arrays:
        return 0.0, 0.0
    generator = np.random.RandomState(seed)
    means = np.empty((rounds, len(arrays)))
    for number in range(rounds):
        for column, values in enumerate(arrays):
            size = len(values)
            means[number, column] = values.take(generator.randint(0, size, size=size)).sum() / size
    return _percentiles(means.mean(axis=1), level)


def _percentiles(values: NDArray[np.float64], level: float) -> Interval:
    outside = (1.0 - level) / 2 * 100
    low, high = np.percentile(values, [outside, 100.0 - outside])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class PageCounts:
    """Tests passed and tests scored, [pdfs, categories].

    Row order is that of the PDF names it was made for.
    """

    passed: NDArray[np.float64]
    scored: NDArray[np.float64]


def page_interval(counts: PageCounts, *, seed: int, rounds: int = ROUNDS, level: float = LEVEL) -> Interval:
    """Percentile bootstrap that draws whole PDFs: tests of one page succeed and fail together."""
    return _percentiles(_resampled(counts, seed=seed, rounds=rounds), level)


def paired_interval(
    first: PageCounts, second: PageCounts, *, seed: int, rounds: int = ROUNDS, level: float = LEVEL
) -> Interval:
    """Interval of the difference second minus first of two candidates, drawn with the same PDFs for both."""
    drawn = [_resampled(counts, seed=seed, rounds=rounds) for counts in (first, second)]
    return _percentiles(drawn[1] - drawn[0], level)


def _resampled(counts: PageCounts, *, seed: int, rounds: int) -> NDArray[np.float64]:
    """Mean of category rates in each round.

    A category of which a round drew no test is left out of its mean.
    """
    n = len(counts.passed)
    generator = np.random.default_rng(seed)
    weights = generator.multinomial(n, np.full(n, 1.0 / n), size=rounds).astype(float)  # [rounds, pdfs]
    passed, scored = weights @ counts.passed, weights @ counts.scored  # [rounds, categories]
    present = scored > 0
    rates = np.divide(passed, scored, out=np.zeros_like(passed), where=present)
    return np.asarray(rates.sum(axis=1) / np.maximum(present.sum(axis=1), 1))


def mean_of_rates(categories: Mapping[str, tuple[int, int]]) -> float | None:
    """Plain mean of passed / all over categories with tests; None without any."""
    rates = [passed / total for passed, total in categories.values() if total]
    return sum(rates) / len(rates) if rates else None
