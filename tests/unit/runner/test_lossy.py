"""A lossy strategy is never called identical, and its quality stands where its speed does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gravbench.analysis.loaded import load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.cli.app import run_command_line
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
