"""Rescore and regenerate are exact; blessing writes the same bytes for the same run."""

import json
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from run_support import FakeBackend, fake_samples, fake_suite
from verdict_support import SAMPLES, Line, bless, make_run, quick_policy

from gravbench.errors import NotComparableError
from gravbench.gate.bless import (
    bless_changes,
    check_blessable,
    command_of,
    provenance_text,
)
from gravbench.gate.exact import judge_regenerated, rescore
from gravbench.gate.reference import Reference, as_generation
from gravbench.records import Times
from gravbench.scorers.scoring import open_scorers
from gravbench.store.schema import GenRecord, ScoreRecord
from gravbench.suites.manifest import suite_digest


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Reference]:
    folder = tmp_path_factory.mktemp("exact")
    return folder / "run", bless(make_run(folder / "run"), folder / "reference")


def score(records: Sequence[GenRecord]) -> list[ScoreRecord]:
    return open_scorers(["crops"]).score(records, fake_samples(SAMPLES))


def rescored(reference: Reference, scorer=score, suite_sha: str | None = None):  # type: ignore[no-untyped-def]
    return rescore(reference, scorer, scorer_id="crops", suite_sha=suite_sha or suite_digest(fake_suite()))


def test_rescoring_unchanged_code_is_equal(base: tuple[Path, Reference]) -> None:
    assert rescored(base[1]).exit_code == 0


@pytest.mark.parametrize("change", [{"value": 1e-15}, {"counts": {"edits": 1.0}}, {"signature": "ned|v:2"}])
def test_any_change_of_a_score_fails(base: tuple[Path, Reference], change: Line) -> None:
    def drifted(records: Sequence[GenRecord]) -> list[ScoreRecord]:
        first, *others = score(records)
        return [first.model_copy(update=change), *others]

    report = rescored(base[1], drifted)
    assert report.exit_code == 1
    assert "1 of 24 samples" in report.verdicts[0].explanation


def test_score_that_this_machine_cannot_make_is_missing(base: tuple[Path, Reference]) -> None:
    """As without TeX: neither a pass nor a regression."""
    report = rescored(base[1], lambda records: score(records)[1:])
    assert ({v.status for v in report.verdicts}, report.exit_code) == ({"missing"}, 3)


def test_rescoring_on_another_suite_is_not_comparable(base: tuple[Path, Reference]) -> None:
    report = rescored(base[1], suite_sha="f" * 64)
    assert (report.exit_code, report.verdicts) == (3, ())


def test_regenerated_run_must_be_equal_to_the_last_counter(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    policy = quick_policy()
    again = make_run(tmp_path / "again", seed=7)
    assert judge_regenerated(again, base[1], policy).exit_code == 0
    other = judge_regenerated(make_run(tmp_path / "b", backend=FakeBackend(accepted=4)), base[1], policy)
    assert [v.rule for v in other.verdicts if v.status == "fail"] == ["regenerate.counters"]
    different = FakeBackend(different=frozenset({"text-000"}))
    changed = judge_regenerated(make_run(tmp_path / "c", backend=different), base[1], policy)
    assert [v.rule for v in changed.verdicts if v.status == "fail"] == ["regenerate.outputs"]


def test_regenerated_run_of_other_samples_is_not_comparable(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    assert judge_regenerated(make_run(tmp_path / "r", samples=6), base[1], quick_policy()).exit_code == 3


def test_blessing_another_run_of_the_same_plan_changes_no_data(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    again = bless(make_run(tmp_path / "again"), tmp_path / "reference")
    for path in sorted(base[1].folder.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (again.folder / path.relative_to(base[1].folder)).read_bytes(), path


def test_stored_prediction_is_the_record_without_its_clocks(base: tuple[Path, Reference]) -> None:
    arm = base[1].arms["selfspec"]
    for key in arm.predictions:
        record = as_generation(arm, key)
        assert record.counters is not None
        assert record.times == Times()


def test_first_blessing_is_new_and_the_second_says_no_change(
    base: tuple[Path, Reference], tmp_path: Path
) -> None:
    run = make_run(tmp_path / "r")
    assert all(change.new for change in bless_changes(run, None))
    assert [change.lines for change in bless_changes(run, base[1])] == [("no change",), ("no change",)]


def test_diff_names_tokens_counters_scores_and_settings(base: tuple[Path, Reference], tmp_path: Path) -> None:
    backend = FakeBackend(accepted=4, different=frozenset({"text-000"}), digest="n" * 64)
    changes = {c.arm: c for c in bless_changes(make_run(tmp_path / "r", backend=backend, seed=3), base[1])}
    text = "\n".join(changes["selfspec"].lines)
    for word in ("model_digest", "seed: 0 -> 3", "tokens of 1 of 24", "text-000", "tau_round", "text_ned"):
        assert word in text


def test_strategy_given_up_is_named(base: tuple[Path, Reference], tmp_path: Path) -> None:
    changes = {c.arm: c for c in bless_changes(make_run(tmp_path / "r", strategies=("ar",)), base[1])}
    assert "not in this run" in changes["selfspec"].lines[0]


def test_run_with_failed_samples_is_not_blessed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", backend=FakeBackend(failing=frozenset({"text-000"})))
    with pytest.raises(NotComparableError, match="1 samples failed"):
        check_blessable(run)


def test_tolerances_survive_the_next_blessing(base: tuple[Path, Reference], tmp_path: Path) -> None:
    shutil.copytree(base[1].folder, tmp_path / "reference" / "fake")
    kept = tmp_path / "reference" / "fake" / "selfspec" / "tolerances.toml"
    kept.write_text("[rules.loops]\nallowed = 3\n")
    bless(make_run(tmp_path / "r"), tmp_path / "reference")
    assert tomllib.loads(kept.read_text())["rules"]["loops"]["allowed"] == 3


def test_provenance_is_toml_whatever_the_reason_says(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r")
    reason = 'quotes " \\ and \x7f, tab \t, émoji \U0001f600, # not a comment'
    found = tomllib.loads(provenance_text(run, reason=reason, who="ä", date="2020-01-01T00:00:00+00:00"))
    assert (found["reason"], found["who"]) == (reason, "ä")
    assert found["command"].startswith("gravbench run --suite fake --strategy ar --strategy selfspec")


def test_nothing_written_names_a_folder_of_this_machine(tmp_path: Path) -> None:
    folder = bless(make_run(tmp_path / "r"), tmp_path / "reference").folder
    for path in folder.rglob("*"):
        if path.is_file():
            assert str(tmp_path) not in path.read_text()


def test_command_leaves_defaults_out(tmp_path: Path) -> None:
    identity = make_run(tmp_path / "r").manifest.identity.model_copy(
        update={"suite": "s", "strategies": ("ar",), "seed": 4, "backend": "transformers"}
    )
    assert command_of(identity, model="gravity-tiny") == "gravbench run --suite s --strategy ar --seed 4"


def test_run_json_is_sorted_and_readable(base: tuple[Path, Reference]) -> None:
    text = (base[1].folder / "ar" / "run.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
