import errno
import os
from itertools import cycle
from pathlib import Path

import orjson
import pytest
from run_support import FakeBackend, QuietProgress, clockless, fake_samples, fake_suite, run_fake

from gravbench.analysis.comparison import compare_one
from gravbench.analysis.loaded import load_run, memory_words
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.errors import DataError, EngineError, NotComparableError, UsageError
from gravbench.provenance import ResidentMemory, capture, usable_cores
from gravbench.runner.run import rescore
from gravbench.runner.session import MemoryWatch
from gravbench.store.files import RunLock
from gravbench.store.rundir import RunDirectory


def test_run_leaves_a_complete_folder(tmp_path: Path) -> None:
    backend = FakeBackend()
    outcome = run_fake(tmp_path / "r", backend=backend)
    run = RunDirectory(tmp_path / "r")
    state = run.state()
    assert state is not None
    assert (state.phase, state.done, state.total, state.failed) == ("complete", 12, 12, 0)
    assert orjson.loads(run.summary_file.read_bytes())["n_samples"] == 6
    assert outcome.summary.strategies["selfspec"].quality == {
        "text_ned": 0.0,
        "table_teds": 1.0,
        "formula_ned": 0.0,
        "formula_tree": 1.0,
    }
    assert backend.closed
    assert not (tmp_path / "r" / "lock.json").exists()


def test_warm_up_is_one_unrecorded_request_per_task_and_arm(tmp_path: Path) -> None:
    backend = FakeBackend()
    run_fake(tmp_path / "r", backend=backend, samples=9)
    assert len(backend.calls) == 3 * 2 + 9 * 2
    assert len(RunDirectory(tmp_path / "r").generations()) == 18


def test_repeating_a_finished_run_generates_nothing(tmp_path: Path) -> None:
    first = run_fake(tmp_path / "r")
    again = FakeBackend()
    second = run_fake(tmp_path / "r", backend=again)
    assert again.calls == []
    assert second.summary == first.summary


def test_unfinished_run_under_the_root_is_continued_and_a_finished_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_fake(None, runs_root=tmp_path, backend=FakeBackend(raises=KeyboardInterrupt(), raise_at=10))
    progress = QuietProgress()
    resumed = run_fake(None, runs_root=tmp_path, progress=progress)
    assert resumed.resumed
    assert resumed.summary.sessions == 2
    assert len(list(tmp_path.iterdir())) == 1
    run_fake(None, runs_root=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_fresh_starts_a_new_run_and_keeps_the_old_one(tmp_path: Path) -> None:
    run_fake(tmp_path / "r")
    before = (tmp_path / "r" / "gen" / "000.jsonl").read_bytes()
    outcome = run_fake(tmp_path / "r", fresh=True, seed=3)
    assert not outcome.resumed
    assert (tmp_path / "r.old-1" / "gen" / "000.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seed": 9}, "seed"),
        ({"limit": 3}, "limit"),
        ({"strategies": ("ar",)}, "strategies"),
        ({"threads": 2}, "threads"),
    ],
)
def test_other_plan_in_the_folder_is_refused_by_field(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    run_fake(tmp_path / "r")
    before = (tmp_path / "r" / "manifest.json").read_bytes()
    with pytest.raises(UsageError, match=f"another plan; {field}:"):
        run_fake(tmp_path / "r", **change)  # type: ignore[arg-type]
    assert (tmp_path / "r" / "manifest.json").read_bytes() == before


def test_other_model_in_the_folder_is_refused(tmp_path: Path) -> None:
    run_fake(tmp_path / "r")
    with pytest.raises(UsageError, match="model_digest"):
        run_fake(tmp_path / "r", backend=FakeBackend(digest="n" * 64))


def test_live_run_in_the_folder_is_refused_before_the_model_opens(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    backend = FakeBackend()
    with RunLock(tmp_path / "r"), pytest.raises(UsageError, match="another run is writing here"):
        run_fake(tmp_path / "r", backend=backend)
    assert not backend.closed


def test_foreign_folder_file_and_device_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    for out in (tmp_path, tmp_path / "thesis.tex", Path("/dev/null/x")):
        with pytest.raises(UsageError):
            run_fake(out)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_failed_samples_stay_in_the_denominator(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", samples=6, backend=FakeBackend(failing=frozenset({"text-000"})))
    for strategy in outcome.summary.strategies.values():
        assert strategy.failed == 1
        assert strategy.quality["text_ned"] == 0.5
        assert strategy.counters.samples == 5
    assert outcome.summary.failed_samples == 1
    assert outcome.too_many_errors
    assert any("1 of 6 samples failed" in warning for warning in outcome.summary.warnings)
    record = next(r for r in RunDirectory(tmp_path / "r").generations() if r.sample_id == "text-000")
    assert record.error is not None
    assert (record.error.kind, record.error.message) == ("ImageError", "does not decode")


def test_defect_of_the_engine_costs_one_sample_and_leaves_its_traceback(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", backend=FakeBackend(broken=frozenset({"text-003"})))
    assert outcome.summary.failed_samples == 1
    assert "defect in the engine" in (tmp_path / "r" / "events.jsonl").read_text()


def test_answer_that_contradicts_its_counters_is_an_invalid_record(tmp_path: Path) -> None:
    class Liar(FakeBackend):
        def generate(self, request, decode):  # type: ignore[no-untyped-def]
            generation = super().generate(request, decode)
            if request.sample_id != "text-000":
                return generation
            return generation.model_copy(update={"token_ids": (*generation.token_ids, 7)})

    outcome = run_fake(tmp_path / "r", backend=Liar())
    assert outcome.summary.strategies["ar"].failed == 1
    statuses = {r.status for r in RunDirectory(tmp_path / "r").generations() if r.sample_id == "text-000"}
    assert statuses == {"invalid_record"}


def test_out_of_memory_stops_the_engine_and_can_be_continued(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="out of memory"):
        run_fake(tmp_path / "r", backend=FakeBackend(raises=MemoryError(), raise_at=12))
    state = RunDirectory(tmp_path / "r").state()
    assert state is not None
    assert state.phase == "failed"
    assert run_fake(tmp_path / "r").summary.n_samples == 6


def test_full_disk_loses_nothing_and_the_same_command_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, budget = os.write, [30_000]

    def small_disk(descriptor: int, data: bytes) -> int:
        budget[0] -= len(data)
        if budget[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", small_disk)
    with pytest.raises(EngineError, match="No space left on device"):
        run_fake(tmp_path / "r", samples=12)
    monkeypatch.undo()
    kept = RunDirectory(tmp_path / "r").generations()
    assert 0 < len(kept) < 24
    assert run_fake(tmp_path / "r", samples=12).summary.n_samples == 12
    assert RunDirectory(tmp_path / "r").generations()[: len(kept)] == kept


def test_damaged_record_is_named_and_not_skipped(tmp_path: Path) -> None:
    run_fake(tmp_path / "r")
    shard = tmp_path / "r" / "gen" / "000.jsonl"
    lines = shard.read_bytes().splitlines(keepends=True)
    shard.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    with pytest.raises(DataError, match=r"000\.jsonl:2"):
        run_fake(tmp_path / "r")


def test_rescoring_gives_the_same_summary_without_a_model(tmp_path: Path) -> None:
    first = run_fake(tmp_path / "r")
    (tmp_path / "r" / "summary.json").unlink()
    again = rescore(tmp_path / "r", fake_suite(), fake_samples(6))
    assert again == first.summary


def test_rescoring_needs_the_same_suite_and_a_finished_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_fake(tmp_path / "r", backend=FakeBackend(raises=KeyboardInterrupt(), raise_at=10))
    with pytest.raises(NotComparableError, match="incomplete"):
        rescore(tmp_path / "r", fake_suite(), fake_samples(6))
    with pytest.raises(NotComparableError, match="digest"):
        rescore(tmp_path / "r", fake_suite(version=2), fake_samples(6))


def test_drafts_at_their_floor_are_called_out(tmp_path: Path) -> None:
    floor = run_fake(tmp_path / "floor", backend=FakeBackend(accepted=0))
    assert any("acceptance is at its floor" in warning for warning in floor.summary.warnings)
    healthy = run_fake(tmp_path / "healthy", backend=FakeBackend(accepted=3))
    assert healthy.summary.warnings == ()


def test_differing_output_is_counted_and_called_out(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", backend=FakeBackend(different=frozenset({"text-000"})))
    identity = outcome.summary.strategies["selfspec"].identical_to_ar
    assert identity is not None
    assert (identity.n, identity.of) == (5, 6)
    assert any("1 of 6 outputs have other tokens" in warning for warning in outcome.summary.warnings)


def test_one_arm_alone_measures_no_speedup(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", strategies=("selfspec:block=8",))
    (strategy,) = outcome.summary.strategies.values()
    assert strategy.speedup is None
    assert strategy.identical_to_ar is None
    assert any("no `ar` arm" in warning for warning in outcome.summary.warnings)


def test_three_arms_are_compared_with_ar(tmp_path: Path) -> None:
    outcome = run_fake(tmp_path / "r", strategies=("selfspec:block=4", "ar", "selfspec:block=8"))
    assert list(outcome.summary.strategies) == ["selfspec:block=4", "ar", "selfspec:block=8"]
    assert all(
        strategy.speedup is not None and strategy.speedup.decode is not None
        for name, strategy in outcome.summary.strategies.items()
        if name != "ar"
    )


def test_manifest_records_where_data_was_and_no_other_variable() -> None:
    captured = capture({"GRAVBENCH_DATA": "/d", "OMP_NUM_THREADS": "7", "SECRET_TOKEN": "s"})
    assert captured["variables"] == {"GRAVBENCH_DATA": "/d", "OMP_NUM_THREADS": "7"}


def test_a_run_uses_the_cores_it_may_and_no_more_than_openmp_is_told() -> None:
    cores = usable_cores({})
    assert 1 <= cores <= (os.cpu_count() or 1)
    assert usable_cores({"OMP_NUM_THREADS": "1"}) == 1
    for nothing in ("", "0", "many", "4,2", str(cores + 1)):
        assert usable_cores({"OMP_NUM_THREADS": nothing}) == cores


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="no VmHWM on this system")
def test_the_mark_of_resident_memory_rises_with_use_and_begins_anew() -> None:
    memory = ResidentMemory()
    held = bytearray(os.urandom(1) * 64_000_000)
    high = memory.peak_bytes()
    del held
    memory.begin()
    low = memory.peak_bytes()
    assert high is not None and low is not None and high - low > 50_000_000


def test_peak_memory_of_each_arm_is_the_highest_of_its_answers(tmp_path: Path) -> None:
    backend = FakeBackend(device_peaks=cycle([1, 7_000_000, 1, 9_000_000]))
    summary = run_fake(tmp_path / "r", backend=backend).summary
    for strategy in summary.strategies.values():
        assert strategy.peak_memory is not None
        assert strategy.peak_memory.device_bytes == 9_000_000
    assert summary.peak_memory is not None
    assert "9 MB on the device" in summary.peak_memory
    compared = compare_one(load_run(tmp_path / "r"), AnalysisOptions(resamples=100)).base
    assert compared.peak_memory == summary.peak_memory
    assert b"peak" not in clockless(tmp_path / "r")


def test_what_cannot_be_measured_is_absent_with_its_reason(tmp_path: Path) -> None:
    memory = ResidentMemory(tmp_path)
    assert memory.peak_bytes() is None
    assert memory.described == f"not measured: {tmp_path}/clear_refs: No such file or directory"
    assert MemoryWatch(process=memory, device=lambda: None).end() is None
    words = memory_words({"peak_memory": memory.described}, {"ar": None})
    assert words == memory.described
    assert memory_words({"imports": {}}, {"mineru": None}) is None


def test_a_run_older_than_the_measurement_of_memory_is_read_and_says_so(tmp_path: Path) -> None:
    run_fake(tmp_path / "r")
    run = RunDirectory(tmp_path / "r")
    manifest = orjson.loads(run.manifest_file.read_bytes())
    del manifest["protocol"]["peak_memory"]
    run.manifest_file.write_bytes(orjson.dumps(manifest))
    shard = run.path / "gen" / "000.jsonl"
    lines = [orjson.loads(line) for line in shard.read_bytes().splitlines()]
    for line in lines:
        del line["peak_memory"]
    shard.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    summary = rescore(tmp_path / "r", fake_suite(), fake_samples(6))
    assert summary.strategies["ar"].peak_memory is None
    assert summary.peak_memory == "not recorded: the run is older than this measurement"
