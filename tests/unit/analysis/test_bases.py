"""Which `ar` arm a strategy is held against, all through summary, curve and analysis."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_support import run_fake
from verdict_support import make_run

from gravbench.analysis.comparison import compare_one, compare_runs
from gravbench.analysis.curve import curve_of, swept_strategies
from gravbench.analysis.run_analysis import AnalysisOptions, ArmAnalysis, analyse_run
from gravbench.analysis.summary import Summary
from gravbench.arms import canonical

OPTIONS = AnalysisOptions(resamples=200)
LONE = ("ar", "selfspec:batch=4")
PAIRED = ("ar", "selfspec", "ar:batch=4", "selfspec:batch=4")
MISSING = "selfspec:batch=4: no ar arm at batch size 4: speedups were not measured"


def summary_of(folder: Path, *strategies: str) -> Summary:
    return run_fake(folder / "r", samples=12, strategies=strategies).summary


def arms_of(folder: Path, *strategies: str) -> dict[str, ArmAnalysis]:
    return {arm.arm: arm for arm in analyse_run(make_run(folder, strategies=strategies), OPTIONS).arms}


def test_the_gain_of_batching_is_never_a_speedup_of_drafting(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, *LONE)
    found = summary.strategies["selfspec:batch=4"]
    assert (found.speedup, found.speed_base, found.base) == (None, None, "ar")
    assert found.identical_to_ar is not None and found.identical_to_ar.of == 12
    assert summary.warnings == (MISSING,)


def test_what_is_made_of_times_is_absent_without_ar_at_the_same_batch_size(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", strategies=LONE)
    analysis = analyse_run(run, OPTIONS)
    arm = analysis.arms[1]
    assert (arm.base, arm.speed_base) == ("ar", None)
    times = (arm.decode, arm.request, arm.page, arm.decode_identical, arm.cost_model, arm.amdahl)
    assert times == (None,) * 6
    assert (arm.drift, arm.steadiness, arm.outliers) == (None, None, ())
    assert arm.identity is not None and arm.identity.identical == 24
    assert arm.quality and arm.groups
    assert all(g.decode is None and g.identical == g.n and g.quality for g in arm.groups)
    assert MISSING in analysis.notes


def test_both_bases_are_recorded_and_named(tmp_path: Path) -> None:
    summary = summary_of(tmp_path, *PAIRED)
    named = {arm: (s.base, s.speed_base) for arm, s in summary.strategies.items()}
    assert named == {
        "ar": (None, None),
        "selfspec": (None, None),
        "ar:batch=4": ("ar", "ar"),
        "selfspec:batch=4": ("ar:batch=4", "ar:batch=4"),
    }
    assert not any("no ar arm" in warning for warning in summary.warnings)
    points = {point.strategy: point.speed_base for point in curve_of(summary).points}
    assert points == {"ar": None, "selfspec": "ar", "ar:batch=4": "ar", "selfspec:batch=4": "ar:batch=4"}


def test_a_run_with_no_arm_called_ar_has_bases_all_the_same(tmp_path: Path) -> None:
    arms = arms_of(tmp_path / "r", "ar:batch=4", "selfspec:batch=4", "selfspec")
    assert {name: (arm.base, arm.speed_base) for name, arm in arms.items()} == {
        "ar:batch=4": (None, None),
        "selfspec:batch=4": ("ar:batch=4", "ar:batch=4"),
        "selfspec": ("ar:batch=4", None),
    }


def test_shares_are_called_shares(tmp_path: Path) -> None:
    notes = analyse_run(make_run(tmp_path / "a", strategies=PAIRED), OPTIONS).notes
    (note,) = [note for note in notes if "not a latency" in note]
    assert note.startswith("ar:batch=4, selfspec:batch=4: ")
    assert not analyse_run(make_run(tmp_path / "b"), OPTIONS).notes


def test_the_null_between_runs_is_at_a_batch_size_of_both(tmp_path: Path) -> None:
    arms = ("ar:batch=4", "selfspec:batch=4")
    one, two = (make_run(tmp_path / name, strategies=arms) for name in "ab")
    found = compare_runs(one, two, OPTIONS)
    assert found.null is not None and found.null.compared == 24
    assert found.null_setting == "same setting, repeated, batch size 4"
    assert compare_one(one, OPTIONS).null is None


def test_ar_at_two_batch_sizes_is_no_null_between_runs(tmp_path: Path) -> None:
    one = make_run(tmp_path / "a")
    two = make_run(tmp_path / "b", strategies=("ar:batch=4", "selfspec"))
    found = compare_runs(one, two, OPTIONS)
    assert (found.null, found.null_setting) == (None, None)
    (arm,) = found.arms
    assert arm.speedup_ratio is None and arm.identity.identical == 24


def test_the_null_inside_a_run_needs_no_arm_called_ar(tmp_path: Path) -> None:
    found = compare_one(make_run(tmp_path / "r", strategies=("ar:batch=2", "ar:batch=8")), OPTIONS)
    assert found.null_setting == "same run, batch size 2 and 8"


@pytest.mark.parametrize("vary", ["selfspec", "selfspec:legacy=1", "selfspec:batch=2"])
def test_a_sweep_names_its_arms_canonically(vary: str) -> None:
    arms = swept_strategies(vary=(vary,), blocks=(4, 8), strategies=(), batches=(1, 4))
    assert [canonical(arm) for arm in arms] == list(arms)
