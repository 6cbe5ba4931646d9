"""A data folder and prediction folders, from files to the document."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gravbench.cli.app import build_app
from gravbench.errors import DataError, UsageError
from gravbench.olmocr import renderers, scoring
from gravbench.olmocr.bench import PUBLIC_CATEGORIES, Bench, Booked, expected_file, read_bench, read_candidate
from gravbench.olmocr.document import Document, ScoreOptions, encode, run_scoring
from gravbench.olmocr.page import Rules
from gravbench.olmocr.records import BaselineTest
from gravbench.olmocr.rendering import CachedRenderer, Rejected, Rendered, Rendering, Span
from gravbench.olmocr.scoring import official_interval
from gravbench.processes import side_by_side

GOLDEN = Path(__file__).parents[2] / "golden" / "olmocr" / "bench"
PAGES = {"a.pdf": "The tide rises and $x^2$ falls.", "deep/b.pdf": "| h | k |\n|---|---|\n| 1 | 2 |"}
TESTS = [
    {"pdf": "a.pdf", "page": 1, "id": "t1", "type": "present", "text": "tide rises"},
    {"pdf": "a.pdf", "page": 1, "id": "t2", "type": "math", "math": "{x}^{2}"},
    {"pdf": "deep/b.pdf", "page": 1, "id": "t3", "type": "table", "cell": "2", "up": "k"},
]


def _bench(folder: Path, tests: list[dict] = TESTS, pages: dict[str, str] = PAGES) -> Path:
    data = folder / "data"
    data.mkdir()
    (data / "mixed.jsonl").write_text("\n".join(map(json.dumps, tests)), encoding="utf-8")
    for name in pages:
        path = data / "pdfs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    return data


def _predict(folder: Path, pages: dict[str, str], repeat: int = 1) -> Path:
    for name, text in pages.items():
        path = folder / expected_file(name, 1).replace("*", str(repeat))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def _score(data: Path, *predictions: Path, **options: object) -> Document:
    return run_scoring(ScoreOptions(data=data, predictions=predictions, **options))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _no_pdf_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files here are PDFs by name only."""
    monkeypatch.setitem(__import__("sys").modules, "pypdfium2", None)


def test_a_perfect_folder_scores_one_with_an_automatic_baseline_test_for_each_pdf(tmp_path: Path) -> None:
    document = _score(_bench(tmp_path), _predict(tmp_path / "mine", PAGES))
    (candidate,) = document.candidates
    assert (candidate.official.status, candidate.official.overall) == ("ok", 1.0)
    assert document.categories == {"mixed.jsonl": 3, "baseline": 2}
    assert [test.id for test in candidate.tests][-2:] == ["a.pdf_baseline", "deep/b.pdf_baseline"]
    assert "rules:0.4.27" in document.signature and "katex:0.16.21" in document.signature


def test_one_missing_page_fails_the_candidate_officially_and_its_tests_here(tmp_path: Path) -> None:
    document = _score(_bench(tmp_path), _predict(tmp_path / "mine", {"a.pdf": PAGES["a.pdf"]}))
    (candidate,) = document.candidates
    assert (candidate.official.status, candidate.official.overall) == ("failed", 0.0)
    assert candidate.official.categories["mixed.jsonl"].passed == 0
    assert candidate.ours.name == "overall, errors counted as failed"
    assert candidate.ours.overall == pytest.approx((2 / 3 + 1 / 2) / 2)
    (fault,) = candidate.faults
    assert (fault.pdf, fault.file, fault.tests) == ("deep/b.pdf", "deep/b_pg1_repeat*.md", 2)
    assert candidate.pdfs_without_files == ["deep/b.pdf"]


def test_a_bad_colspan_fails_the_candidate_officially_and_names_the_file(tmp_path: Path) -> None:
    broken = {**PAGES, "deep/b.pdf": '<table><tr><td colspan="all">2</td></tr></table>'}
    (candidate,) = _score(_bench(tmp_path), _predict(tmp_path / "mine", broken)).candidates
    assert candidate.official.status == "failed"
    (fault,) = candidate.faults
    assert fault.file == "deep/b_pg1_repeat1.md" and "colspan" in fault.fault
    assert candidate.ours.categories["mixed.jsonl"].passed == 2


def test_a_file_that_is_not_utf8_is_a_fault_of_its_page(tmp_path: Path) -> None:
    folder = _predict(tmp_path / "mine", PAGES)
    (folder / "a_pg1_repeat1.md").write_bytes(b"\xff\xfe tide")
    (candidate,) = _score(_bench(tmp_path), folder).candidates
    assert candidate.official.status == "failed"
    assert "cannot be read" in candidate.faults[0].fault


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = _predict(tmp_path / "mine", PAGES)
    (tmp_path / "outside.md").write_text("tide")
    (folder / "a_pg1_repeat1.md").unlink()
    (folder / "a_pg1_repeat1.md").symlink_to(tmp_path / "outside.md")
    (candidate,) = _score(_bench(tmp_path), folder).candidates
    assert candidate.official.status == "failed"
    assert "leads out of the folder" in candidate.faults[0].fault


def test_a_test_file_behind_a_link_out_of_the_folder_is_refused_unless_named_or_a_blob(
    tmp_path: Path,
) -> None:
    def linked(data: Path, target: Path) -> Path:
        target.parent.mkdir(exist_ok=True)
        (data / "mixed.jsonl").rename(target)
        (data / "mixed.jsonl").symlink_to(target)
        return data

    (tmp_path / "one").mkdir()
    outside = linked(_bench(tmp_path / "one"), tmp_path / "elsewhere.jsonl")
    with pytest.raises(DataError, match=r"mixed.jsonl: leads out of .*data by a link"):
        read_bench(outside, Rules.RELEASE)
    assert len(read_bench(outside / "mixed.jsonl", Rules.RELEASE).tests) == 5
    (tmp_path / "snapshots" / "revision").mkdir(parents=True)
    snapshot = linked(_bench(tmp_path / "snapshots" / "revision"), tmp_path / "blobs" / "abc")
    assert len(read_bench(snapshot, Rules.RELEASE).tests) == 5


def test_a_pdf_behind_a_link_out_of_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "pypdfium2", raising=False)
    pytest.importorskip("pypdfium2")
    data = _bench(tmp_path)
    (data / "pdfs" / "a.pdf").rename(tmp_path / "a.pdf")
    (data / "pdfs" / "a.pdf").symlink_to(tmp_path / "a.pdf")
    with pytest.raises(DataError, match=r"a.pdf: leads out of .*pdfs by a link"):
        read_bench(data, Rules.RELEASE)


def test_half_of_two_repeats_is_not_passed_and_two_of_three_are(tmp_path: Path) -> None:
    data, folder = _bench(tmp_path), tmp_path / "mine"
    _predict(folder, PAGES)
    _predict(folder, {**PAGES, "a.pdf": "nothing of it"}, repeat=2)
    (candidate,) = _score(data, folder).candidates
    assert {test.id: test.passed for test in candidate.tests}["t1"] is False
    assert candidate.official.types["present"].average == 0.5
    _predict(folder, PAGES, repeat=3)
    (candidate,) = _score(data, folder).candidates
    assert {test.id: (test.passed, test.passes) for test in candidate.tests}["t1"] == (True, 2)


def test_without_a_javascript_engine_math_is_unscored_and_no_official_overall_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renderers, "engine_missing", lambda: "no engine today")
    (candidate,) = _score(_bench(tmp_path), _predict(tmp_path / "mine", PAGES)).candidates
    assert (candidate.official.status, candidate.official.overall) == ("not scored", None)
    assert candidate.ours.name == "overall, without math"
    assert candidate.ours.overall == 1.0
    (test,) = (test for test in candidate.tests if test.type == "math")
    assert (test.unscored, test.passed, test.error) == ("no engine today", False, None)


def test_near_empty_pages_are_named_beside_the_score(tmp_path: Path) -> None:
    blank = dict.fromkeys(PAGES, "\n")
    (candidate,) = _score(_bench(tmp_path), _predict(tmp_path / "mine", blank)).candidates
    assert candidate.notes.near_empty_files == ["a_pg1_repeat1.md", "deep/b_pg1_repeat1.md"]
    assert candidate.notes.tests_decided_by_short_pages == ["t1"]
    assert {test.id: test.passed for test in candidate.tests}["t1"] is True


def test_two_folders_are_compared_over_the_same_pdfs(tmp_path: Path) -> None:
    data = _bench(tmp_path)
    first = _predict(tmp_path / "first", PAGES)
    second = _predict(tmp_path / "second", PAGES)
    (difference,) = _score(data, first, second).differences
    assert (difference.overall, difference.interval) == (0.0, (0.0, 0.0))
    with pytest.raises(UsageError, match="same name"):
        _score(data, first, first)


def test_results_do_not_depend_on_the_run_and_intervals_follow_the_seed() -> None:
    folders = [GOLDEN / "noisy_ocr", GOLDEN / "plain_text"]
    once = _score(GOLDEN, *folders)
    assert once == _score(GOLDEN, *folders)
    other = _score(GOLDEN, *folders, seed=1)
    assert once.candidates[0].official.interval != other.candidates[0].official.interval
    assert once.candidates[0].official.overall == other.candidates[0].official.overall


def test_any_number_of_processes_gives_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "PDFS_AT_ONCE", 2)
    monkeypatch.setattr(scoring, "PARTS_PER_JOB", 1)
    started: list[int] = []

    def counted(*given: Any, jobs: int) -> list[Any]:
        started.append(jobs)
        return side_by_side(*given, jobs=jobs)

    monkeypatch.setattr(scoring, "side_by_side", counted)
    folders = tuple(GOLDEN / name for name in ("noisy_ocr", "incomplete"))
    assert encode(_score(GOLDEN, *folders, jobs=2)) == encode(_score(GOLDEN, *folders))
    assert started == [2, 1]


def test_the_interval_of_no_verdict_is_zero_and_of_equal_ones_a_point() -> None:
    assert official_interval([], seed=0) == official_interval([[]], seed=0) == (0.0, 0.0)
    assert official_interval([[1.0] * 5, [0.0] * 3], seed=3) == (0.5, 0.5)


def test_baseline_tests_can_be_left_out_wherever_they_stand() -> None:
    document = _score(GOLDEN, GOLDEN / "noisy_ocr", skip_baseline=True)
    overall = document.candidates[0].official.overall
    assert overall is not None and f"{100 * overall:.1f}" == "82.9"
    assert "tests:no-baseline" in document.signature


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not a JSON object"),
        ('{"type": "heading"}', "type: 'heading' is not a test type of rules 0.4.27"),
        ('{"pdf": "a.pdf", "page": 1, "id": "t", "type": "math"}', "line 1: math: missing"),
        ('{"pdf": "a.pdf", "page": 1, "id": "t", "type": "present", "text": "**"}', "only blanks"),
    ],
)
def test_a_test_that_cannot_be_loaded_is_named_by_file_line_and_field(
    tmp_path: Path, line: str, message: str
) -> None:
    (tmp_path / "mixed.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=r"mixed\.jsonl") as error:
        read_bench(tmp_path, Rules.RELEASE)
    assert message in error.value.message


def test_an_id_may_stand_once_in_a_file_and_twice_in_two(tmp_path: Path) -> None:
    data = _bench(tmp_path)
    (data / "other.jsonl").write_text(json.dumps(TESTS[0]), encoding="utf-8")
    assert read_bench(data, Rules.RELEASE).categories == {"mixed.jsonl": 2, "other.jsonl": 2, "baseline": 2}
    (data / "other.jsonl").write_text(f"{json.dumps(TESTS[0])}\n" * 2, encoding="utf-8")
    with pytest.raises(DataError, match="'t1' stands in line 1 too"):
        read_bench(data, Rules.RELEASE)


def test_a_page_s_files_are_those_whose_name_holds_its_number(tmp_path: Path) -> None:
    (tmp_path / "x_pg1_pg2_repeat1.md").touch()
    candidate = read_candidate(tmp_path)
    assert candidate.of_page("x_pg1.pdf", 1) == candidate.of_page("x_pg1.pdf", 2) == ("x_pg1_pg2_repeat1.md",)
    assert candidate.of_page("x_pg1.pdf", 3) == ()


def test_only_the_whole_public_data_has_the_benchmark_s_name() -> None:
    test = BaselineTest(pdf="a.pdf", page=1, id="t", type="baseline")
    booked = [Booked(test, name) for name, count in PUBLIC_CATEGORIES.items() for _ in range(count)]
    assert Bench("data", tuple(booked), (), Rules.RELEASE).label == "olmOCR-Bench"
    assert Bench("data", tuple(booked[1:]), (), Rules.RELEASE).label.startswith(
        "data: 8 categories, 8412 tests"
    )


class _Counting:
    """A renderer that rejects `bad` and counts what it is asked."""

    def __init__(self, signature: str) -> None:
        self.signature = signature
        self.asked: list[str] = []

    def render(self, equations) -> list[Rendering]:
        self.asked += equations
        return [
            Rejected("bad") if each == "bad" else Rendered(f"<mi>{each}</mi>", (Span(each, 1.5, 2.0, 3.0),))
            for each in equations
        ]

    def close(self) -> None: ...


def test_the_cache_keeps_successes_by_tool_version_and_survives_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "cache.sqlite"
    first = _Counting("one")
    rendered = CachedRenderer(first, path).render(["a", "bad"])
    again = _Counting("one")
    assert CachedRenderer(again, path).render(["a", "bad"]) == rendered
    assert again.asked == ["bad"]
    newer = _Counting("two")
    CachedRenderer(newer, path).render(["a"])
    assert newer.asked == ["a"]
    path.write_bytes(b"not a database" * 100)
    late = _Counting("one")
    assert CachedRenderer(late, path).render(["a", "bad"]) == rendered
    assert late.asked == ["a", "bad"]


def test_the_verb_prints_and_writes_the_same_scores(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    arguments = ["olmocr", "--data", str(GOLDEN), "--predictions", str(GOLDEN / "incomplete"), "--no-cache"]
    shown = CliRunner().invoke(build_app(), [*arguments, "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert "FAILED (errors)" in shown.output and "letters/letter_two_pg2_repeat*.md" in shown.output
    written = Document.model_validate_json(out.read_bytes())
    printed = CliRunner().invoke(build_app(), [*arguments, "--json"])
    assert json.loads(printed.output)["candidates"][0]["ours"] == json.loads(
        written.candidates[0].ours.model_dump_json()
    )


def test_verify_scorer_knows_these_results_by_their_kinds(tmp_path: Path) -> None:
    line = (GOLDEN.parent / "function_cases.jsonl").read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "function_cases.jsonl").write_text(line, encoding="utf-8")
    result = CliRunner().invoke(build_app(), ["verify-scorer", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["kinds"]["present"]["passed"] == 1
    case = json.loads(line)
    case["expected"]["passed"] = not case["expected"]["passed"]
    (tmp_path / "function_cases.jsonl").write_text(json.dumps(case), encoding="utf-8")
    assert CliRunner().invoke(build_app(), ["verify-scorer", str(tmp_path)]).exit_code == 1
