"""`import gravbench` is light, and its functions return what the command line prints."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_support import child_environment, run_fake

import gravbench
from gravbench.errors import UsageError

HEAVY = ("torch", "transformers", "pandas", "pydantic", "matplotlib", "scipy", "numpy")


def test_the_import_is_light_and_names_what_there_is() -> None:
    code = (
        f"import gravbench, sys; print([m for m in {HEAVY} if m in sys.modules], sorted(gravbench.__all__))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"[] {sorted(gravbench.__all__)}"
    assert all(getattr(gravbench, name) is not None for name in gravbench.__all__)
    assert all(name in (gravbench.__doc__ or "") for name in gravbench.__all__ if name != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gravbench.nothing


def test_a_run_of_the_toy_is_run_scored_compared_and_reported(tmp_path: Path) -> None:
    outcome = gravbench.run(
        "crops-mini", backend="toy", limit=6, out=tmp_path / "r", strategies=("ar", "selfspec")
    )
    assert gravbench.score(tmp_path / "r") == outcome.summary
    comparison = gravbench.compare(tmp_path / "r", resamples=200)
    assert [arm.arm for arm in comparison.base.arms] == ["ar", "selfspec"]
    page = gravbench.report([tmp_path / "r"], tmp_path / "page.html", resamples=200)
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_an_option_that_does_not_exist_is_a_usage_error_that_names_those_that_do() -> None:
    with pytest.raises(UsageError, match="run: sead: ") as caught:
        gravbench.run("smoke", sead=1)
    assert "seed" in (caught.value.hint or "")


def test_frames_hold_every_answer_score_and_round(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", samples=6, repeats=2)
    found = gravbench.frames(tmp_path / "r")
    assert len(found.answers) == 6 * 2 * 2
    counters = outcome.summary.strategies["selfspec"].counters
    drafted = found.answers[found.answers["arm"] == "selfspec"]
    assert drafted["tokens_out"].sum() == counters.tokens_out
    rounds = found.rounds.merge(drafted[["sample_id", "rep", "arm"]])
    assert (len(rounds), rounds["accepted"].sum()) == (counters.rounds, counters.draft_accepted)
    means = found.scores.groupby(["arm", "metric"])["value"].mean()
    for arm, strategy in outcome.summary.strategies.items():
        for metric, value in strategy.quality.items():
            assert means[arm, metric] == pytest.approx(value)
