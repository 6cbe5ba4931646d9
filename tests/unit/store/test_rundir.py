import errno
from pathlib import Path

import pytest
from filelock import FileLock
from run_support import gen_record, run_identity

from gravbench.errors import DataError, EngineError, UsageError
from gravbench.store.files import RunLock
from gravbench.store.rundir import RunDirectory, complete_pairs, next_attempts
from gravbench.store.schema import PlanEntry

PLAN = tuple(
    PlanEntry(slot=slot, sample_id=sample, arm=arm)
    for slot, (sample, arm) in enumerate([("a", "ar"), ("a", "selfspec"), ("b", "selfspec"), ("b", "ar")])
)


def test_a_pair_counts_only_when_one_attempt_holds_all_arms() -> None:
    split = [
        gen_record(sample_id="a", arm="ar", attempt=1),
        gen_record(sample_id="b", arm="selfspec", attempt=1),
        gen_record(sample_id="b", arm="ar", attempt=2),
    ]
    assert complete_pairs(split, PLAN) == {}
    whole = [*split, gen_record(sample_id="b", arm="selfspec", attempt=2)]
    assert list(complete_pairs(whole, PLAN)) == [("b", 0)]


def test_last_complete_attempt_wins_and_a_later_half_does_not() -> None:
    records = [
        gen_record(sample_id="a", arm=arm, attempt=attempt, text=f"try {attempt}")
        for attempt, arms in ((1, ("ar", "selfspec")), (2, ("ar", "selfspec")), (3, ("ar",)))
        for arm in arms
    ]
    pair = complete_pairs(records, PLAN)["a", 0]
    assert {record.text for record in pair.values()} == {"try 2"}
    assert next_attempts(records) == {("a", 0): 3}


def test_generation_outside_the_plan_is_refused() -> None:
    with pytest.raises(DataError, match="not in the plan"):
        complete_pairs([gen_record(sample_id="stranger")], PLAN)


def test_differing_field_is_named_with_both_values() -> None:
    one, other = run_identity(seed=2), run_identity(seed=3)
    assert one.differing_field(one) is None
    assert one.differing_field(other) == "seed: 2 here, 3 in the folder"


def test_second_writer_is_refused_and_told_who_holds_the_folder(tmp_path: Path) -> None:
    refused = pytest.raises(UsageError, match="another run is writing here")
    with RunLock(tmp_path), refused, RunLock(tmp_path):
        pass
    with RunLock(tmp_path) as lock:
        assert lock.left_over is None


def test_a_file_system_that_does_not_answer_is_no_second_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def acquire(*_: FileLock, timeout: float, poll_interval: float) -> None:
        assert timeout > poll_interval
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    monkeypatch.setattr(FileLock, "acquire", acquire)
    with pytest.raises(EngineError, match="Connection timed out"), RunLock(tmp_path):
        pass


def test_lock_of_a_dead_owner_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text('{"host": "gone", "pid": 1}')
    with RunLock(tmp_path) as lock:
        assert lock.left_over == {"host": "gone", "pid": 1}


def test_folder_without_manifest_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no run here"):
        RunDirectory(tmp_path).manifest()


def test_only_our_own_leftovers_make_a_folder_usable(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    assert not RunDirectory(tmp_path).holds_foreign_files()
    (tmp_path / "thesis.tex").touch()
    assert RunDirectory(tmp_path).holds_foreign_files()
