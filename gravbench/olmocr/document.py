"""A whole scoring: data folder and prediction folders in, one JSON document out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from gravbench.errors import UsageError
from gravbench.olmocr.bench import Bench, candidate_folders, read_bench, read_candidate
from gravbench.olmocr.math_tests import Equations
from gravbench.olmocr.page import Rules, UnscoredError, library_versions
from gravbench.olmocr.renderers import open_renderer
from gravbench.olmocr.rendering import Renderer
from gravbench.olmocr.scoring import (
    ROUNDS,
    Evaluation,
    Interval,
    Outcome,
    PageCounts,
    Scorer,
    mean_of_rates,
    official_interval,
    page_interval,
    paired_interval,
)

SCHEMA = 1
SCORER_VERSION = 1
"""Raised when a verdict or a number may change."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TestResult(_Record):
    """One test: passes of its repeats, and why it did not pass."""

    __test__ = False

    id: str
    pdf: str
    page: int | str
    type: str
    category: str
    passed: bool
    passes: int
    repeats: int
    error: str | None
    unscored: str | None
    why: str | None
    detail: str
    file: str | None


class PageFault(_Record):
    """A page that the official program counts as an error for each of its tests."""

    pdf: str
    page: int | str
    fault: str
    file: str | None
    tests: int


class Rate(_Record):
    passed: int
    tests: int
    rate: float | None
    """0 to 1, higher is better; None without tests."""


class TypeRate(_Record):
    average: float | None
    """Mean over tests of the share of repeats that passed, 0 to 1; an error counts 0.

    None when all are unscored.
    """
    tests: int


class Official(_Record):
    """The official program's numbers. A candidate with any error has 0 in all categories."""

    status: str
    """`ok`, `failed` (errors) or `not scored` (a tool is missing)."""
    overall: float | None
    """Mean of category rates, 0 to 1; None when not scored."""
    interval: Interval | None
    categories: dict[str, Rate]
    types: dict[str, TypeRate]
    mean_over_tests: float | None
    errors: int


class Ours(_Record):
    """Pages with errors counted as failed, unscored tests left out; the interval draws whole PDFs."""

    name: str
    overall: float | None
    interval: Interval | None
    official_kind_interval: Interval | None
    """The official bootstrap of these verdicts, where the official status is not `ok`."""
    categories: dict[str, Rate]


class Notes(_Record):
    """What a reader must know beside the score."""

    files: int
    empty_files: list[str]
    near_empty_files: list[str]
    tests_decided_by_short_pages: list[str]
    equations_by_delimiter: dict[str, int]
    rejected_equations: int
    rejected_examples: dict[str, str]
    files_with_escaped_underscores: int
    files_with_latex_tables: int


class CandidateResult(_Record):
    name: str
    official: Official
    ours: Ours
    faults: list[PageFault]
    pdfs_without_files: list[str]
    tests: list[TestResult]
    notes: Notes


class Difference(_Record):
    """Second minus first candidate, over the same PDFs."""

    first: str
    second: str
    overall: float
    interval: Interval


class Document(_Record):
    schema_version: int
    label: str
    """What the score may be called: the benchmark's name only for all of its tests."""
    signature: str
    tools: dict[str, str]
    pages_counted: bool
    categories: dict[str, int]
    seed: int
    candidates: list[CandidateResult]
    differences: list[Difference]


def signature(rules: str, renderer: str, versions: Mapping[str, str], *, baseline: bool, seed: int) -> str:
    """Every choice that can move a number, in fixed order."""
    libraries = ",".join(f"{name}-{version}" for name, version in sorted(versions.items()))
    tests = "all" if baseline else "no-baseline"
    made = f"rules:{rules}|math:{renderer}|libs:{libraries}|tests:{tests}"
    return f"olmocr-bench|{made}|ci:bootstrap-{ROUNDS}-seed{seed}|v:{SCORER_VERSION}"


def _rates(categories: Mapping[str, tuple[int, int]]) -> dict[str, Rate]:
    return {
        name: Rate(passed=passed, tests=total, rate=passed / total if total else None)
        for name, (passed, total) in categories.items()
    }


def type_rates(outcomes: Sequence[Outcome]) -> dict[str, TypeRate]:
    """Means by test type."""
    averages: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        found = averages[outcome.booked.test.type]
        if outcome.unscored is None:
            found.append(outcome.average)
    return {
        name: TypeRate(average=sum(found) / len(found) if found else None, tests=len(found))
        for name, found in sorted(averages.items())
    }


def official_numbers(evaluation: Evaluation, *, seed: int) -> Official:
    """What the official program would print, or the reason why that cannot be said."""
    failed = evaluation.failed_officially
    unscored = any(outcome.unscored is not None for outcome in evaluation.outcomes)
    categories = evaluation.categories(official=True)
    errors = len(evaluation.lost_pdfs) + sum(outcome.error is not None for outcome in evaluation.outcomes)
    overall: float | None = mean_of_rates(categories)
    interval: Interval | None = None
    mean: float | None = None
    if failed:
        status, overall, interval = "failed", 0.0, (0.0, 0.0)
    elif unscored:
        status, overall = "not scored", None
    else:
        status = "ok"
        interval = official_interval(evaluation.splits(), seed=seed)
        mean = sum(outcome.average for outcome in evaluation.outcomes) / len(evaluation.outcomes)
    return Official(
        status=status,
        overall=overall,
        interval=interval,
        categories=_rates(categories),
        types=type_rates(evaluation.outcomes),
        mean_over_tests=mean,
        errors=errors,
    )


def page_counts(evaluation: Evaluation) -> PageCounts:
    """Tests passed and scored by PDF and category, in the bench's orders."""
    pdfs = sorted({outcome.booked.test.pdf for outcome in evaluation.outcomes})
    rows = {name: number for number, name in enumerate(pdfs)}
    columns = {name: number for number, name in enumerate(evaluation.bench.categories)}
    passed, scored = np.zeros((2, len(rows), len(columns)))
    for outcome in evaluation.outcomes:
        if outcome.unscored is None:
            place = rows[outcome.booked.test.pdf], columns[outcome.booked.category]
            passed[place] += outcome.passed
            scored[place] += 1
    return PageCounts(passed, scored)


def our_numbers(evaluation: Evaluation, *, seed: int) -> Ours:
    """The score with errors counted as failed tests."""
    categories = evaluation.categories(official=False)
    unscored = sorted({outcome.booked.test.type for outcome in evaluation.outcomes if outcome.unscored})
    errors = any(outcome.error for outcome in evaluation.outcomes)
    name = "overall"
    if errors:
        name += ", errors counted as failed"
    if unscored:
        name += f", without {', '.join(unscored)}"
    overall = mean_of_rates(categories)
    interval = kind = None
    if overall is not None:
        interval = page_interval(page_counts(evaluation), seed=seed)
        if errors or unscored:
            kind = official_interval(evaluation.splits(), seed=seed)
    return Ours(
        name=name,
        overall=overall,
        interval=interval,
        official_kind_interval=kind,
        categories=_rates(categories),
    )


def _faults(outcomes: Sequence[Outcome]) -> list[PageFault]:
    """Errors by page and file, each once."""
    counts: dict[tuple[str, int | str, str, str | None], int] = {}
    for outcome in outcomes:
        if outcome.error is not None:
            test = outcome.booked.test
            key = (test.pdf, test.page, outcome.error, outcome.file)
            counts[key] = counts.get(key, 0) + 1
    return [
        PageFault(pdf=pdf, page=page, fault=fault, file=file, tests=tests)
        for (pdf, page, fault, file), tests in counts.items()
    ]


def _test_result(outcome: Outcome) -> TestResult:
    test = outcome.booked.test
    return TestResult(
        id=test.id,
        pdf=test.pdf,
        page=test.page,
        type=test.type,
        category=outcome.booked.category,
        passed=outcome.passed,
        passes=outcome.passes,
        repeats=outcome.repeats,
        error=outcome.error,
        unscored=outcome.unscored,
        why=outcome.why,
        detail=outcome.detail,
        file=outcome.file,
    )


def candidate_result(evaluation: Evaluation, *, seed: int) -> CandidateResult:
    """One candidate's part of the document."""
    notes = evaluation.notes
    return CandidateResult(
        name=evaluation.candidate.name,
        official=official_numbers(evaluation, seed=seed),
        ours=our_numbers(evaluation, seed=seed),
        faults=_faults(evaluation.outcomes),
        pdfs_without_files=list(evaluation.lost_pdfs),
        tests=[_test_result(outcome) for outcome in evaluation.outcomes],
        notes=Notes(
            files=notes.files,
            empty_files=notes.empty,
            near_empty_files=notes.near_empty,
            tests_decided_by_short_pages=list(dict.fromkeys(notes.decided_by_short_pages)),
            equations_by_delimiter=notes.equations,
            rejected_equations=len(notes.rejected),
            rejected_examples=dict(list(notes.rejected.items())[:5]),
            files_with_escaped_underscores=notes.escaped_underscores,
            files_with_latex_tables=notes.latex_tables,
        ),
    )


def differences(evaluations: Sequence[Evaluation], *, seed: int) -> list[Difference]:
    """Every candidate against the first, with errors counted as failed."""
    first, *others = evaluations
    before = mean_of_rates(first.categories(official=False))
    found = []
    for other in others:
        after = mean_of_rates(other.categories(official=False))
        if before is None or after is None:
            continue
        interval = paired_interval(page_counts(first), page_counts(other), seed=seed)
        names = first.candidate.name, other.candidate.name
        found.append(Difference(first=names[0], second=names[1], overall=after - before, interval=interval))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """`predictions` empty: every folder beside `pdfs/`. `cache` None: renderings are not kept.

    `jobs`: processes at most. Formulas in Chromium go with one: the browser is several by itself.
    """

    data: Path
    predictions: tuple[Path, ...] = ()
    rules: Rules = Rules.RELEASE
    chromium: bool = False
    skip_baseline: bool = False
    seed: int = 0
    cache: Path | None = None
    jobs: int = 1


def without_baseline(bench: Bench) -> Bench:
    """The bench less every test of type baseline, wherever it stands."""
    kept = tuple(booked for booked in bench.tests if booked.test.type != "baseline")
    if not kept:
        raise UsageError("--skip-baseline: no other test is left", hint="Leave the option out.")
    return Bench(bench.name, kept, bench.pdfs, bench.rules, bench.pages_counted)


def run_scoring(options: ScoreOptions) -> Document:
    """Score all candidates; the first is the one that the others are compared with."""
    with closing(open_renderer(chromium=options.chromium, cache=options.cache)) as renderer:
        return score_bench(options, renderer)


def score_bench(options: ScoreOptions, renderer: Renderer) -> Document:
    """The same with a renderer of the caller, which stays open; further jobs begin with one as it is now."""
    bench = read_bench(options.data, options.rules)
    if options.skip_baseline:
        bench = without_baseline(bench)
    candidates = [read_candidate(folder) for folder in options.predictions or candidate_folders(options.data)]
    if not candidates:
        raise UsageError(
            f"--data {options.data}: no folder of predictions beside pdfs/", hint="Give --predictions DIR."
        )
    if len({candidate.name for candidate in candidates}) < len(candidates):
        raise UsageError(
            "--predictions: two folders have the same name",
            hint="The folder's name is the candidate's; rename one.",
        )
    scorer = Scorer(bench, candidates, Equations(renderer, options.rules))
    return _document(scorer.score(jobs=1 if options.chromium else options.jobs), renderer, options)


def _document(evaluations: Sequence[Evaluation], renderer: Renderer, options: ScoreOptions) -> Document:
    bench = evaluations[0].bench
    versions = library_versions()
    try:
        rendered_by = renderer.signature
    except UnscoredError as error:
        rendered_by = f"none ({error})"
    return Document(
        schema_version=SCHEMA,
        label=bench.label,
        signature=signature(
            options.rules.value, rendered_by, versions, baseline=not options.skip_baseline, seed=options.seed
        ),
        tools={**versions, "math": rendered_by},
        pages_counted=bench.pages_counted,
        categories=bench.categories,
        seed=options.seed,
        candidates=[candidate_result(evaluation, seed=options.seed) for evaluation in evaluations],
        differences=differences(evaluations, seed=options.seed),
    )


def encode(document: Document) -> bytes:
    """The document as it is written: keys in order, one final line end."""
    return document.model_dump_json(indent=1).encode() + b"\n"
