"""CDM behind the page scorer: a value where the tools are whole, a loud reason where they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cdm_support import golden_cases
from system_packages import needs_tex

from gravbench.cli.doctor_command import check_cdm
from gravbench.cli.omnidoc_output import report_notes
from gravbench.cli.omnidoc_report import ScoreOptions, run_scoring
from gravbench.omnidocbench.cdm.rows import Cdm, find_cdm, spelling_of
from gravbench.omnidocbench.cdm.score import CdmToolStatus
from gravbench.omnidocbench.ground_truth import read_annotations

BROKEN = CdmToolStatus(False, "an identical pair scores 0.0", "apt-get install ghostscript", ("ghostscript",))
PAGE = {
    "page_info": {
        "page_no": 0,
        "height": 100,
        "width": 100,
        "image_path": "a.png",
        "page_attribute": {"language": "english"},
    },
    "layout_dets": [
        {
            "category_type": "equation_isolated",
            "poly": [0, 0, 1, 0, 1, 1, 0, 1],
            "ignore": False,
            "order": 1,
            "anno_id": 1,
            "latex": "$$a+b=c$$",
        },
    ],
    "extra": {"relation": []},
}


@pytest.fixture
def options(tmp_path: Path) -> ScoreOptions:
    gt = tmp_path / "OmniDocBench.json"
    gt.write_text(json.dumps([PAGE]))
    assert read_annotations(gt)
    predictions = tmp_path / "pred"
    predictions.mkdir()
    (predictions / "a.md").write_text("$$a+b=d$$\n")
    return ScoreOptions(gt, predictions, 1)


def test_without_tools_cdm_is_missing_by_name_and_says_what_to_install(options: ScoreOptions) -> None:
    document = run_scoring(options, cdm=Cdm(BROKEN, options.predictions))
    assert document["summary"]["overall_notebook"] is None
    assert "display_formula.CDM" in document["summary"]["overall_missing"]
    assert document["cdm"] == {
        "available": False,
        "reason": "an identical pair scores 0.0",
        "hint": "apt-get install ghostscript",
        "missing_packages": ["ghostscript"],
    }
    notes = "\n".join(report_notes(document))
    assert "No Overall" in notes
    assert "CDM is not scored: an identical pair scores 0.0. apt-get install ghostscript" in notes


def test_doctor_warns_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gravbench.omnidocbench.cdm.score.check_tools", lambda: BROKEN)
    check = check_cdm()
    assert (check.status, check.hint) == ("warn", "apt-get install ghostscript")
    assert "Overall cannot be scored" in check.message


@needs_tex
def test_with_tools_the_page_gets_its_cdm_and_failures_their_reason(
    options: ScoreOptions, tmp_path: Path
) -> None:
    document = run_scoring(options, cdm=find_cdm(tmp_path / "cache"))
    assert document["rows"]["display_formula"][0]["metric"]["CDM"] == 0.8
    assert document["cdm"]["failed"] == []
    (options.predictions / "a.md").write_text("$$a+b=\\sqrt{d$$\n")
    again = run_scoring(options, cdm=find_cdm(tmp_path / "cache"))
    assert again["rows"]["display_formula"][0]["metric"]["CDM"] == 0.0
    failed = again["cdm"]["failed"][0]
    assert (failed["img_id"], failed["flags"]) == ("a.png", ["raw-pred"])
    assert failed["reason"].startswith("pred: ")


def test_cases_are_checked_as_far_as_the_machine_goes(tmp_path: Path) -> None:
    case = next(case for case in golden_cases() if case["tag"] == "cjk-err")
    found = Cdm(BROKEN, tmp_path).check(case)
    expected = case["expected"]
    assert found == {name: expected[name] for name in ("gt_stripped", "pred_stripped", "gt_tok", "pred_tok")}
    assert spelling_of(case) == (expected["gt_stripped"], expected["pred_stripped"], None)
