"""A whole scoring: data folder and prediction folders in, one document out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import UsageError
from gravbench.olmocr.bench import Bench, candidate_folders, read_bench, read_candidate
from gravbench.olmocr.document import (
    SCHEMA,
    Document,
    candidate_result,
    differences,
    signature,
)
from gravbench.olmocr.math_tests import Equations
from gravbench.olmocr.renderers import ChromiumRenderer, KatexRenderer
from gravbench.olmocr.rendering import CachedRenderer, Renderer
from gravbench.olmocr.rules import Rules, UnscoredError, library_versions
from gravbench.olmocr.scoring import Evaluation, Scorer


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


def open_renderer(*, chromium: bool, cache: Path | None) -> Renderer:
    """The renderer of math tests; what it lacks shows when it is asked."""
    renderer: Renderer = ChromiumRenderer() if chromium else KatexRenderer()
    return CachedRenderer(renderer, cache) if cache is not None else renderer


def without_baseline(bench: Bench) -> Bench:
    """The bench less every test of type baseline, wherever it stands."""
    kept = tuple(booked for booked in bench.tests if booked.test.type != "baseline")
    if not kept:
        raise UsageError("--skip-baseline: no other test is left", hint="Leave the option out.")
    return Bench(bench.name, kept, bench.pdfs, bench.rules, bench.pages_counted)


def run_scoring(options: ScoreOptions) -> Document:
    """Score all candidates; the first is the one that the others are compared with."""
    renderer = open_renderer(chromium=options.chromium, cache=options.cache)
    try:
        return score_bench(options, renderer)
    finally:
        renderer.close()


def score_bench(options: ScoreOptions, renderer: Renderer) -> Document:
    """The same with a renderer of the caller, which stays open; further jobs begin with one as it is now."""
    bench = read_bench(options.data, options.rules)
    if options.skip_baseline:
        bench = without_baseline(bench)
    candidates = [read_candidate(folder) for folder in options.predictions or candidate_folders(options.data)]
    if not candidates:
        raise UsageError(
            f"--data {options.data}: no folder of predictions beside pdfs/",
            hint="Name one with --predictions.",
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
    baseline = not options.skip_baseline
    return Document(
        schema_version=SCHEMA,
        label=bench.label,
        signature=signature(options.rules.value, rendered_by, versions, baseline=baseline, seed=options.seed),
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
