from pathlib import Path

import pytest
from run_support import FakeBackend
from verdict_support import Line, doctored, make_run, with_identity, with_scaled_times

from gravbench.analysis.comparison import compare_one, compare_runs
from gravbench.analysis.loaded import LoadedRun, load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.errors import NotComparableError

OPTIONS = AnalysisOptions(resamples=200)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> LoadedRun:
    return make_run(tmp_path_factory.mktemp("compare") / "run")


def test_run_against_itself_changes_nothing(base: LoadedRun) -> None:
    found = compare_runs(base, base, OPTIONS)
    for arm in found.arms:
        assert (arm.identity.identical, arm.identity.compared) == (24, 24)
        assert {d.difference for d in arm.quality.values()} == {0.0}
        assert {i.value for i in arm.counters.values()} == {1.0}
    assert (found.settings, found.environment, found.not_comparable) == ((), (), ())
    assert found.null is not None
    assert (found.null.identical, found.null_setting) == (24, "same setting, repeated")


def test_other_threads_make_the_null_another_setting(base: LoadedRun, tmp_path: Path) -> None:
    found = compare_runs(base, make_run(tmp_path / "r", threads=2), OPTIONS)
    assert found.null_setting == "other threads"
    assert [d.field for d in found.settings] == ["threads"]


def test_ar_at_another_batch_size_is_the_null_of_a_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", strategies=("ar", "selfspec:batch=4", "ar:batch=4", "ar:batch=2"))
    found = compare_one(run, OPTIONS)
    assert found.null is not None
    assert (found.null.identical, found.null.compared) == (24, 24)
    assert found.null_setting == "same run, batch size 1 and 4"
    bases = {arm.arm: arm.base for arm in found.base.arms}
    assert bases == {"ar": None, "selfspec:batch=4": "ar:batch=4", "ar:batch=4": "ar", "ar:batch=2": "ar"}


def test_other_weights_have_no_null(base: LoadedRun, tmp_path: Path) -> None:
    found = compare_runs(base, make_run(tmp_path / "r", backend=FakeBackend(digest="n" * 64)), OPTIONS)
    assert (found.null, [d.field for d in found.settings]) == (None, ["model_digest"])


def test_unlike_samples_are_refused_and_forced_with_a_banner(base: LoadedRun, tmp_path: Path) -> None:
    fewer = make_run(tmp_path / "r", samples=6)
    with pytest.raises(NotComparableError, match="18 samples missing"):
        compare_runs(base, fewer, OPTIONS)
    forced = compare_runs(base, fewer, OPTIONS, force=True)
    assert forced.not_comparable
    assert forced.arms[0].n == 6


def test_forced_runs_without_a_common_sample_are_refused(base: LoadedRun, tmp_path: Path) -> None:
    make_run(tmp_path / "r", samples=1)
    with_identity(tmp_path / "r", suite="other")
    lone = load_run(tmp_path / "r")
    empty = LoadedRun(name="empty", manifest=lone.manifest, units=(), scores={}, facts={})
    with pytest.raises(NotComparableError, match="no sample in common"):
        compare_runs(base, empty, OPTIONS, force=True)


def test_strategies_can_be_paired_by_hand(base: LoadedRun, tmp_path: Path) -> None:
    own = make_run(tmp_path / "r", strategies=("ar", "selfspec:block=4"))
    found = compare_runs(base, own, OPTIONS, arms=[("selfspec", "selfspec:block=4")])
    (arm,) = found.arms
    assert (arm.identity.identical, arm.counters) == (24, {})
    with pytest.raises(NotComparableError, match="no strategy 'nope'"):
        compare_runs(base, own, OPTIONS, arms=[("nope", "ar")])


def test_runs_without_a_common_strategy_say_how_to_pair_them(base: LoadedRun, tmp_path: Path) -> None:
    with pytest.raises(NotComparableError) as error:
        compare_runs(base, make_run(tmp_path / "r", strategies=("selfspec:block=4",)), OPTIONS)
    assert "--base-arm" in (error.value.hint or "")


def test_headline_is_the_ratio_of_sums_and_scale_free(base: LoadedRun, tmp_path: Path) -> None:
    def thrice(line: Line) -> Line:
        return with_scaled_times(line, 3)

    arm = analyse_run(base, OPTIONS).arms[1]
    scaled = analyse_run(doctored(Path(base.name), tmp_path / "r", edit=thrice), OPTIONS).arms[1]
    assert arm.decode is not None
    assert scaled.decode is not None
    assert arm.decode.value == arm.decode.base_ns / arm.decode.own_ns
    fields = ("value", "low", "high", "geometric_mean", "median", "p10", "p90")
    for field in fields:
        assert getattr(scaled.decode, field) == pytest.approx(getattr(arm.decode, field))


def test_drifting_run_leaves_the_speedup_ratio_without_limits(base: LoadedRun, tmp_path: Path) -> None:
    """The drafting arm slows down to half its speed over the run."""

    def slower(line: Line) -> Line:
        factor = 1 + line["slot"] / 48 if line["arm"] == "selfspec" else 1
        return with_scaled_times(line, factor)

    still = compare_runs(base, base, OPTIONS).arms[1]
    moved = compare_runs(base, doctored(Path(base.name), tmp_path / "r", edit=slower), OPTIONS).arms[1]
    assert still.speedup_ratio is not None and still.speedup_ratio.low is not None
    assert still.speedup_ratio_note is None
    assert moved.speedup_ratio is not None and moved.speedup_ratio.low is None
    assert moved.speedup_ratio_note == "no interval: own drifted or was not steady"


def test_groups_cover_every_sample_once_per_kind(base: LoadedRun) -> None:
    arm = analyse_run(base, OPTIONS).arms[1]
    for kind in ("task", "length"):
        assert sum(row.n for row in arm.groups if row.kind == kind) == 24


def test_single_sample_has_figures_without_intervals(tmp_path: Path) -> None:
    found = compare_one(make_run(tmp_path / "r", samples=1), OPTIONS)
    arm = found.base.arms[1]
    assert arm.decode is not None
    assert (arm.decode.low, arm.decode.n_pairs) == (None, 1)


def test_run_in_which_everything_failed_has_no_figures(tmp_path: Path) -> None:
    ids = frozenset(f"{task}-{i:03d}" for i in range(3) for task in ("text", "table", "formula"))
    arm = compare_one(
        make_run(tmp_path / "r", samples=3, backend=FakeBackend(failing=ids)), OPTIONS
    ).base.arms[1]
    assert (arm.failed, arm.decode, arm.counters, arm.acceptance) == (3, None, {}, None)
    assert arm.identity is not None
    assert arm.identity.share is None


def test_run_without_accepted_tokens_is_described(tmp_path: Path) -> None:
    arm = compare_one(make_run(tmp_path / "r", backend=FakeBackend(accepted=0)), OPTIONS).base.arms[1]
    assert arm.counters["accepted_draft"].value == 0.0
    assert arm.acceptance is not None
    assert set(arm.acceptance.histogram) == {0}


def test_run_without_ar_is_described_alone(tmp_path: Path) -> None:
    found = compare_one(make_run(tmp_path / "r", strategies=("selfspec",)), OPTIONS)
    arm = found.base.arms[0]
    assert (arm.identity, arm.decode, arm.quality) == (None, None, {})
    assert arm.counters["tau_round"].value > 1
