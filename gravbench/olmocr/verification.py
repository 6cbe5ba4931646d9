"""Recorded official results of olmOCR-Bench, checked kind by kind, in both states of the rules.

Files: `function_cases.jsonl`, `helper_cases.jsonl`, `math_pairs.jsonl`, `bench_expected.json` with `bench/`;
each may be missing. Kinds of the newer state are named `KIND (main)`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rapidfuzz import fuzz

from gravbench.errors import DataError
from gravbench.olmocr.document import CandidateResult, ScoreOptions, score_bench
from gravbench.olmocr.math_tests import Equation, Equations, bare_mathml, contained
from gravbench.olmocr.near_matches import near_matches
from gravbench.olmocr.page import PageError, PageText, Rules, TestRecordError, UnscoredError, normalize
from gravbench.olmocr.records import known_types, read_test
from gravbench.olmocr.renderers import open_renderer
from gravbench.olmocr.rendering import ZERO_WIDTH, Rejected, Renderer, Rendering
from gravbench.olmocr.scoring import official_interval, run_test
from gravbench.olmocr.table_tests import html_graphs, markdown_graphs
from gravbench.olmocr.tables import html_tables, markdown_tables
from gravbench.olmocr.text_tests import end_repeats
from gravbench.recorded_results import KindReport, differences, read_cases

TOLERANCE = 1e-12
CENTRE_TOLERANCE_PX = 0.5
FUNCTIONS, HELPERS, PAIRS, BENCH = (
    "function_cases.jsonl",
    "helper_cases.jsonl",
    "math_pairs.jsonl",
    "bench_expected.json",
)
STATES = {Rules.RELEASE: "release_0_4_27", Rules.MAIN: "main_2026_03_25"}
"""Names of the states in `bench_expected.json`."""

Case = Mapping[str, Any]
Reports = dict[str, KindReport]


def holds_olmocr_results(folder: Path) -> bool:
    """Whether a folder has cases of these kinds."""
    if any((folder / name).is_file() for name in (HELPERS, PAIRS, BENCH)):
        return True
    path = folder / FUNCTIONS
    if not path.is_file():
        return False
    with path.open(encoding="utf-8") as lines:
        try:
            first = json.loads(next(lines, "null"))
        except ValueError:
            return False
    return isinstance(first, dict) and first.get("kind") in known_types(Rules.MAIN)


def verify_olmocr(folder: Path, *, chromium: bool = False) -> Reports:
    """Reports by kind; equations in the system's Chromium or by KaTeX alone.

    Nothing is read from the cache.
    """
    if not holds_olmocr_results(folder):
        raise DataError(
            f"{folder}: no recorded results of olmOCR-Bench in it",
            hint=f"Name a folder with {FUNCTIONS}, {HELPERS}, {PAIRS} or {BENCH}.",
        )
    reports: Reports = {}
    renderer = open_renderer(chromium=chromium, cache=None)
    try:
        equations = {rules: Equations(renderer, rules) for rules in Rules}
        if (folder / FUNCTIONS).is_file():
            _check_functions(read_cases(folder / FUNCTIONS, ("test", "content")), equations, reports)
        if (folder / HELPERS).is_file():
            _check_helpers(read_cases(folder / HELPERS), renderer, reports)
        if (folder / PAIRS).is_file():
            _check_pairs(_read_pairs(folder / PAIRS), renderer, reports)
        if (folder / BENCH).is_file():
            _check_bench(folder, renderer, reports)
    finally:
        renderer.close()
    return reports


def _report(reports: Reports, kind: str, rules: Rules = Rules.RELEASE) -> KindReport:
    return reports.setdefault(kind if rules is Rules.RELEASE else f"{kind} (main)", KindReport())


def _read_pairs(path: Path) -> list[Case]:
    """Pairs have no kind."""
    pairs: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            pair = json.loads(line)
            pair["id"], pair["reference"], pair["hypothesis"], pair["same"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}: line {number}: not a pair: {error}",
                hint="Each line has id, reference, hypothesis and same.",
            ) from error
        pairs.append(pair)
    return pairs


def _check_functions(cases: list[Any], equations: Mapping[Rules, Equations], reports: Reports) -> None:
    for each in equations.values():
        each.prepare(
            equation
            for case in cases
            if case["kind"] == "math"
            for equation in (
                case["test"]["math"],
                *PageText(case["content"], Rules.RELEASE).equations(ignore_dollars=False),
            )
        )
    for case in cases:
        for rules in Rules:
            report = _report(reports, str(case["kind"]), rules)
            expected = case["expected"]
            if rules is Rules.MAIN:
                expected = case.get("expected_main", _verdict_of(expected))
            try:
                found = _run_function(case, rules, equations[rules])
            except UnscoredError as error:
                report.skip(str(error))
            except TestRecordError as error:
                report.add(str(case["id"]), [f"the test is refused: {error.message}"])
            else:
                if rules is Rules.MAIN:
                    found = {key: value for key, value in found.items() if key in expected or key == "why"}
                report.add(str(case["id"]), differences(expected, found, "expected", tolerance=TOLERANCE))


def _verdict_of(expected: Case) -> Case:
    """What stays the same in the newer state where nothing is recorded.

    The verdict, not the numbers behind it.
    """
    return {key: value for key, value in expected.items() if key in ("passed", "why", "raises")}


def _run_function(case: Case, rules: Rules, equations: Equations) -> dict[str, Any]:
    test = read_test({"pdf": "a.pdf", "page": 1, "id": "a", **case["test"]}, rules)
    try:
        verdict = run_test(test, PageText(case["content"], rules), equations)
    except PageError as error:
        return {"raises": error.official}
    found: dict[str, Any] = {"passed": verdict.passed, **verdict.facts}
    found.pop("equation", None)
    if verdict.why is not None:
        found["why"] = verdict.why
    return found


def _load(case: Case, rules: Rules) -> str:
    try:
        read_test(case["test"], rules)
    except TestRecordError as error:
        return error.official
    return "ok"


def _tables(case: Case, rules: Rules) -> dict[str, Any]:
    content = case["content"]
    if rules is Rules.MAIN:
        graphs = {"markdown": markdown_graphs(content), "html": html_graphs(content)}
        return {name: [graph.to_record() for graph in found] for name, found in graphs.items()}
    try:
        tables = {"markdown": markdown_tables(content), "html": html_tables(content)}
    except PageError as error:
        return {"error": error.official}
    return {name: [table.to_record() for table in found] for name, found in tables.items()}


def _bootstrap(case: Case, rules: Rules) -> list[float]:
    del rules
    scores, start, splits = case["scores"], 0, []
    for size in case["splits"] or [len(case["scores"])]:
        splits.append(scores[start : start + size])
        start += size
    options = {"seed": case["seed"], "rounds": case["n_bootstrap"]}
    return list(official_interval(splits, level=case["ci_level"], **options))


def _near(case: Case, rules: Rules) -> list[list[int]]:
    del rules
    found = near_matches(case["needle"], case["text"], case["max_l_dist"])
    return [[match.start, match.end, match.distance] for match in found]


def _repeats(case: Case, rules: Rules) -> list[int]:
    del rules
    return end_repeats(case["text"])


def _ratios(case: Case, rules: Rules) -> dict[str, float]:
    del rules
    a, b = case["a"], case["b"]
    return {"ratio": fuzz.ratio(a, b), "partial_ratio": fuzz.partial_ratio(a, b)}


HELPER_CHECKS: dict[str, Callable[[Case, Rules], Any]] = {
    "normalize": lambda case, rules: normalize(case["text"], rules),
    "ngram_repeats": _repeats,
    "ratio": _ratios,
    "near_matches": _near,
    "parse_tables": _tables,
    "load_test": _load,
    "bootstrap": _bootstrap,
}


def _check_helpers(cases: list[Any], renderer: Renderer, reports: Reports) -> None:
    formulas = [case for case in cases if case["kind"] == "katex_render"]
    _check_renderings(formulas, renderer, reports)
    for case in cases:
        kind = str(case["kind"])
        if kind == "katex_render":
            continue
        check = HELPER_CHECKS.get(kind)
        if check is None:
            known = ", ".join(sorted((*HELPER_CHECKS, "katex_render")))
            _report(reports, kind).add(str(case["id"]), [f"unknown kind; known are {known}"])
            continue
        for rules in Rules:
            if rules is Rules.MAIN and "expected_main" not in case:
                continue
            expected = case["expected_main"] if rules is Rules.MAIN else case["expected"]
            lines = differences(expected, check(case, rules), "expected", tolerance=TOLERANCE)
            _report(reports, kind, rules).add(str(case["id"]), lines)


def _check_renderings(cases: list[Any], renderer: Renderer, reports: Reports) -> None:
    if not cases:
        return
    report = _report(reports, "katex_render")
    try:
        rendered = renderer.render([case["math"] for case in cases])
    except UnscoredError as error:
        for _ in cases:
            report.skip(str(error))
        return
    for case, rendering in zip(cases, rendered, strict=True):
        report.add(str(case["id"]), _rendering_differences(case["expected"], rendering))


def _rendering_differences(expected: Case, rendering: Rendering) -> list[str]:
    """MathML equal, span texts equal, centres within half a pixel of the recorded ones."""
    if isinstance(rendering, Rejected):
        return [] if expected["error"] else [f"expected.error: expected false, found {rendering.reason}"]
    if expected["error"]:
        return ["expected.error: expected true, found a rendering"]
    lines = differences(expected["mathml"], bare_mathml(rendering, Rules.RELEASE), "expected.mathml")
    spans = [span for span in rendering.spans if span.text.strip() and span.text.strip() != ZERO_WIDTH]
    lines += differences(expected["spans"], [span.text.strip() for span in spans], "expected.spans")
    if not lines and spans:
        centres = [[span.x - spans[0].x, span.y - spans[0].y] for span in spans]
        lines += differences(expected["centres"], centres, "expected.centres", tolerance=CENTRE_TOLERANCE_PX)
    return lines


def _check_pairs(pairs: list[Case], renderer: Renderer, reports: Reports) -> None:
    asked = list(dict.fromkeys(pair[side] for pair in pairs for side in ("reference", "hypothesis")))
    try:
        rendered = dict(zip(asked, renderer.render(asked), strict=True))
    except UnscoredError as error:
        for _ in pairs:
            _report(reports, "math_pairs").skip(str(error))
        return
    for rules in Rules:
        equations = {text: Equation(rendering, rules) for text, rendering in rendered.items()}
        report = _report(reports, "math_pairs", rules)
        for pair in pairs:
            path = contained(equations[pair["reference"]], equations[pair["hypothesis"]])
            expected = {"same": pair["same"], **({"path": pair["path"]} if "path" in pair else {})}
            found = {"same": path is not None, **({"path": path} if path is not None else {})}
            report.add(str(pair["id"]), differences(expected, found))


def _check_bench(folder: Path, renderer: Renderer, reports: Reports) -> None:
    try:
        recorded = json.loads((folder / BENCH).read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / BENCH}: cannot be read: {error}") from error
    for rules, name in STATES.items():
        if name not in recorded:
            continue
        expected = recorded[name]["candidates"]
        names = tuple(folder / "bench" / candidate for candidate in expected)
        document = score_bench(ScoreOptions(data=folder / "bench", predictions=names, rules=rules), renderer)
        report = _report(reports, "bench", rules)
        for candidate in document.candidates:
            if lacking := sorted({test.unscored for test in candidate.tests if test.unscored}):
                report.skip("; ".join(lacking))
                continue
            wanted = dict(expected[candidate.name])
            wanted["errors"] = len(wanted["errors"])
            found = official_record(candidate)
            report.add(candidate.name, differences(wanted, found, "expected", tolerance=TOLERANCE))


def official_record(candidate: CandidateResult) -> dict[str, Any]:
    """A candidate in the recorded layout; errors as their number."""
    official = candidate.official
    tests = [] if official.status == "failed" else candidate.tests
    return {
        "status": official.status,
        "errors": official.errors,
        "overall": official.overall,
        "mean_over_tests": official.mean_over_tests,
        "n_tests": len(candidate.tests),
        "by_category": {name: [rate.passed, rate.tests] for name, rate in official.categories.items()},
        "by_type": {name: [rate.average, rate.tests] for name, rate in official.types.items()},
        "ci_seed0": None if official.interval is None else list(official.interval),
        "category_order": list(official.categories),
        "tests": {test.id: test.passed for test in tests},
        "partial": {test.id: [test.passes, test.repeats] for test in tests if test.passes < test.repeats},
    }
