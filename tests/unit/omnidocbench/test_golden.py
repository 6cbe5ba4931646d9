from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from omnidoc_cases import GOLDEN

from gravbench.omnidocbench import recorded_functions
from gravbench.omnidocbench.ground_truth import read_annotations, read_pages
from gravbench.omnidocbench.recorded_functions import tree_differences
from gravbench.omnidocbench.verification import Tools, run_differences, score_run, verify
from gravbench.recorded_results import KindReport, differences

WITHOUT_TOOLS = Tools(latexml=False)


@pytest.fixture(scope="module")
def reports() -> dict[str, KindReport]:
    return verify(GOLDEN, WITHOUT_TOOLS)


def test_every_case_that_needs_no_program_agrees_with_the_official_scorer(
    reports: dict[str, KindReport],
) -> None:
    assert [line for report in reports.values() for line in report.mismatches] == []
    passed = {kind: report.passed for kind, report in reports.items() if report.passed}
    assert passed == {
        "text_norm": 40,
        "formula_norm": 31,
        "table_teds": 40,
        "md_extract": 23,
        "formula_split": 9,
        "reading_order": 15,
        "table_assign": 6,
        "cdm_spelling": 30,
        "table_trees (apted, zss)": 20,
        "pages": 21,
    }


def test_cases_without_their_tools_are_not_run_and_say_why(reports: dict[str, KindReport]) -> None:
    assert reports["latex_table"].not_run == 4
    assert reports["md_extract"].not_run == 1
    assert reports["latex_table"].passed == reports["latex_table"].failed == 0
    assert "LaTeXML" in reports["latex_table"].reasons[0]
    assert reports["pages_rendered"].not_run == 4


def test_a_doctored_case_fails(tmp_path: Path) -> None:
    case = json.loads((GOLDEN / "function_cases.jsonl").read_text(encoding="utf-8").splitlines()[4])
    case["expected"]["norm_pred"] += "x"
    (tmp_path / "function_cases.jsonl").write_text(json.dumps(case), encoding="utf-8")
    report = verify(tmp_path, WITHOUT_TOOLS)[case["kind"]]
    assert (report.passed, report.failed) == (0, 1)
    assert case["id"] in report.mismatches[0]


def test_a_doctored_page_run_fails() -> None:
    pages = read_pages(read_annotations(GOLDEN / "pages" / "gt.json"), source="gt.json")
    predictions = json.loads((GOLDEN / "pages" / "pred" / "noise.json").read_bytes())
    expected = json.loads((GOLDEN / "pages" / "expected" / "noise.json").read_bytes())
    name = sorted(predictions)[0]
    assert run_differences(expected, score_run(pages, predictions, None), cdm=False) == []
    predictions[name] = predictions[name][:-40]
    assert run_differences(expected, score_run(pages, predictions, None), cdm=False) != []


def test_numbers_differ_from_a_billionth_on() -> None:
    assert differences({"a": [1.0]}, {"a": [1.0 + 9e-10]}) == []
    assert differences({"a": [1.0]}, {"a": [1.0 + 2e-9]}) != []
    assert differences({"a": 1}, {"a": "1"}) != []


def test_a_tree_distance_that_apted_and_zss_do_not_find_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [json.loads(line) for line in (GOLDEN / "function_cases.jsonl").read_text("utf-8").splitlines()]
    case = next(case for case in cases if case["kind"] == "table_teds" and tree_differences(case) is not None)
    assert tree_differences(case) == []
    ours = recorded_functions.teds_pair
    monkeypatch.setattr(recorded_functions, "teds_pair", lambda a, b: replace(ours(a, b), teds=0.123))
    assert [line.split(" ")[-1] for line in tree_differences(case) or ()] == ["apted", "zss"]
