"""Every recorded verdict and number of the official scorer, and that the check itself can fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gravbench.errors import DataError
from gravbench.olmocr import renderers
from gravbench.olmocr.renderers import find_chromium
from gravbench.olmocr.verification import holds_olmocr_results, verify_olmocr
from gravbench.recorded_results import KindReport

GOLDEN = Path(__file__).parents[2] / "golden" / "olmocr"


def _counts(reports: dict[str, KindReport]) -> dict[str, tuple[int, int, int]]:
    return {kind: (report.passed, report.failed, report.not_run) for kind, report in reports.items()}


def test_all_recorded_results_of_both_states_of_the_rules_are_met() -> None:
    reports = verify_olmocr(GOLDEN)
    assert {kind: report.mismatches for kind, report in reports.items() if report.mismatches} == {}
    counts = _counts(reports)
    assert all(passed and not failed and not skipped for passed, failed, skipped in counts.values())
    assert counts["math_pairs"] == counts["math_pairs (main)"] == (600, 0, 0)
    functions = ("present", "absent", "order", "table", "math", "baseline")
    assert sum(counts[kind][0] for kind in functions) == 606
    assert counts["bench"] == counts["bench (main)"] == (4, 0, 0)


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium here")
def test_chromium_renders_the_recorded_equations(tmp_path: Path) -> None:
    lines = (GOLDEN / "helper_cases.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if '"kind": "katex_render"' in line]
    (tmp_path / "helper_cases.jsonl").write_text("".join(kept), encoding="utf-8")
    pairs = (GOLDEN / "math_pairs.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "math_pairs.jsonl").write_text("".join(pairs[::10]), encoding="utf-8")
    counts = _counts(verify_olmocr(tmp_path, chromium=True))
    assert counts == {"katex_render": (36, 0, 0), "math_pairs": (60, 0, 0), "math_pairs (main)": (60, 0, 0)}


def test_without_a_javascript_engine_math_is_not_run_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renderers, "engine_missing", lambda: "no engine today")
    reports = verify_olmocr(GOLDEN)
    assert not any(report.failed for report in reports.values())
    assert reports["math_pairs"].not_run == 600
    assert reports["math_pairs"].reasons == ["no engine today"]
    assert reports["math"].not_run and reports["math"].passed  # equal as text, or no equation at all
    assert reports["bench"].not_run == 4


@pytest.mark.parametrize(
    ("name", "place", "change"),
    [
        (
            "function_cases.jsonl",
            0,
            lambda case: case["expected"].update(passed=not case["expected"]["passed"]),
        ),
        ("math_pairs.jsonl", 3, lambda case: case.update(same=not case["same"])),
        ("helper_cases.jsonl", 0, lambda case: case.update(expected=case["expected"] + " ")),
    ],
)
def test_a_doctored_case_fails(tmp_path: Path, name: str, place: int, change) -> None:
    line = (GOLDEN / name).read_text(encoding="utf-8").splitlines()[place]
    case = json.loads(line)
    change(case)
    (tmp_path / name).write_text(json.dumps(case) + "\n", encoding="utf-8")
    assert any(report.failed for report in verify_olmocr(tmp_path).values())


def test_a_doctored_bench_fails(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "bench", tmp_path / "bench")
    recorded = json.loads((GOLDEN / "bench_expected.json").read_bytes())
    recorded["release_0_4_27"]["candidates"]["noisy_ocr"]["ci_seed0"][0] += 1e-9
    (tmp_path / "bench_expected.json").write_text(json.dumps(recorded), encoding="utf-8")
    counts = _counts(verify_olmocr(tmp_path))
    assert counts == {"bench": (3, 1, 0), "bench (main)": (4, 0, 0)}


def test_a_folder_of_other_results_is_not_taken_for_these(tmp_path: Path) -> None:
    assert not holds_olmocr_results(GOLDEN.parent / "omnidoc")
    with pytest.raises(DataError, match="no recorded results of olmOCR-Bench"):
        verify_olmocr(tmp_path)
