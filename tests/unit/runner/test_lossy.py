"""A lossy strategy is never called identical, and its quality stands where its speed does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gravbench.analysis.loaded import load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.cli.app import run_command_line
from gravbench.cli.summary_table import lossy_line
from gravbench.runner.engine import lossy_arms

LOSSY = "blockdiff:block=4"


def test_only_strategies_that_verify_nothing_exactly_are_lossy() -> None:
    arms = ("ar", "selfspec", "blockdiff", "blockdiff:batch=2", "hsd:texts=x", "hsd:tau=0.75,texts=x")
    assert lossy_arms(arms) == ("blockdiff", "blockdiff:batch=2", "hsd:tau=0.75,texts=x")


def test_its_equal_tokens_are_no_identity_but_its_quality_has_an_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table without errors: block diffusion gives every token of ar, and is lossy all the same."""
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"wrong_positions": []}))
    out = tmp_path / "run"
    arms = [part for arm in ("ar", LOSSY, "selfspec") for part in ("--strategy", arm)]
    asked = ["run", "--suite", "crops-mini", "--limit", "6", "--backend", "toy", "--model", str(table)]
    assert run_command_line([*asked, *arms, "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["strategies"]
    assert "identical_to_ar" not in found[LOSSY] and found[LOSSY]["lossy"] is True
    assert found["selfspec"]["identical_to_ar"]["share"] == 1 and "lossy" not in found["selfspec"]
    differences = found[LOSSY]["quality_difference"]
    assert differences and all(d["difference"] == d["changed"] == 0 for d in differences.values())
    assert "quality_difference" not in found["selfspec"]
    assert run_command_line(["score", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{LOSSY} is lossy; against ar, in points: " in shown
    analysed = {a.arm: a for a in analyse_run(load_run(out), AnalysisOptions(resamples=50)).arms}
    assert analysed[LOSSY].lossy and analysed[LOSSY].identity is None and analysed[LOSSY].quality
    assert analysed["selfspec"].identity is not None


def test_its_quality_stands_beside_its_speed_in_a_comparison_and_on_a_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    asked = ["--suite", "crops-mini", "--limit", "6", "--backend", "toy"]
    arms = ["--strategy", "ar", "--strategy", LOSSY]
    assert run_command_line(["run", *asked, *arms, "--out", str(out)]) == 0
    capsys.readouterr()
    assert run_command_line(["compare", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{LOSSY}: lossy by design, judged by quality." in shown and "nothing to hold" not in shown
    assert re.search(rf"{LOSSY}: crops Overall [+-]\d+\.\d+ points over ar", shown)
    curve = ["sweep", *asked, "--vary", "blockdiff", "--blocks", "4"]
    assert run_command_line([*curve, "--out", str(tmp_path / "curve")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{LOSSY} is lossy; against ar, in points: " in shown
    assert run_command_line([*curve, "--out", str(tmp_path / "curve"), "--json"]) == 0
    [_, point] = json.loads(capsys.readouterr().out)["points"]
    assert point["lossy"] is True and point["quality_difference"]


def test_a_lossy_speed_without_quality_says_so() -> None:
    assert "its quality against ar was not measured" in lossy_line(LOSSY, "ar", None, {}).plain


def test_two_lossy_runs_paired_by_hand_are_told_by_quality_and_never_by_equal_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their tokens are equal, and still neither the terminal nor JSON says so."""
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"wrong_positions": []}))
    asked = ["run", "--suite", "crops-mini", "--limit", "6", "--backend", "toy", "--model", str(table)]
    runs = [str(tmp_path / name) for name in ("a", "b")]
    other = "blockdiff:block=2"
    for out, arm in zip(runs, (LOSSY, other), strict=True):
        assert run_command_line([*asked, "--strategy", "ar", "--strategy", arm, "--out", out]) == 0
    by_hand = ["--base-arm", LOSSY, "--own-arm", other]
    capsys.readouterr()
    assert run_command_line(["compare", *runs, *by_hand]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    sentence = shown[shown.index("B against A, ") :].partition(" data of ")[0]
    assert "points; lossy" in sentence and "same text" not in sentence.partition("settings")[0]
    assert run_command_line(["compare", *runs, *by_hand, "--json"]) == 0
    [pair] = json.loads(capsys.readouterr().out)["arms"]
    assert pair["lossy"] is True and "identity" not in pair and pair["quality"]
    assert run_command_line(["compare", *runs, "--base-arm", "ar", "--own-arm", "ar"]) == 0
    assert "same text in 6 of 6" in " ".join(capsys.readouterr().out.split())


def test_a_report_of_one_lossy_strategy_in_two_runs_does_not_call_it_the_same_text(tmp_path: Path) -> None:
    asked = ["run", "--suite", "crops-mini", "--limit", "2", "--backend", "toy", "--strategy", LOSSY]
    runs = [str(tmp_path / name) for name in ("a", "b")]
    for out in runs:
        assert run_command_line([*asked, "--out", out]) == 0
    for kind, marked in (("page.html", "no: lossy by design"), ("page.md", "points; lossy")):
        assert run_command_line(["report", *runs, "--out", str(tmp_path / kind)]) == 0
        written = (tmp_path / kind).read_text(encoding="utf-8")
        assert marked in written and "same text in" not in written
        assert "have the same text in both runs" not in written
