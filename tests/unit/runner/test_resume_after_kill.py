import multiprocessing
import random
import time
from pathlib import Path

from run_support import FakeBackend, clockless, run_fake

from gravbench.store.rundir import RunDirectory, finished_pairs

SAMPLES = 24


def work(folder: Path) -> None:
    run_fake(folder, samples=SAMPLES, backend=FakeBackend(sleep_s=0.001))


def test_killed_at_random_moments_and_resumed_ends_in_the_same_bytes(tmp_path: Path) -> None:
    run_fake(tmp_path / "calm", samples=SAMPLES)
    rng = random.Random(4)
    context = multiprocessing.get_context("fork")
    killed = 0
    for _ in range(12):
        worker = context.Process(target=work, args=(tmp_path / "hunted",))
        worker.start()
        time.sleep(rng.uniform(0.02, 0.09))
        worker.kill()
        worker.join()
        killed += worker.exitcode == -9
    assert killed >= 3
    outcome = run_fake(tmp_path / "hunted", samples=SAMPLES)
    assert clockless(tmp_path / "hunted") == clockless(tmp_path / "calm")
    run = RunDirectory(tmp_path / "hunted")
    for arms in finished_pairs(run, run.manifest()).values():
        assert len({record.session_id for record in arms.values()}) == 1
    assert outcome.summary.n_samples == SAMPLES


def test_torn_line_at_every_cut_of_the_last_record_is_recovered(tmp_path: Path) -> None:
    run_fake(tmp_path / "calm", samples=3)
    expected = clockless(tmp_path / "calm")
    shard = tmp_path / "calm" / "gen" / "000.jsonl"
    whole = shard.read_bytes()
    last = len(whole.splitlines(keepends=True)[-1])
    for cut in (1, 2, last // 2, last - 1, last):
        shard.write_bytes(whole[:-cut])
        (tmp_path / "calm" / "summary.json").unlink()
        run_fake(tmp_path / "calm", samples=3)
        assert clockless(tmp_path / "calm") == expected


def test_clockless_export_shows_no_clock_session_or_slot(tmp_path: Path) -> None:
    run_fake(tmp_path / "a", samples=3)
    run_fake(tmp_path / "b", samples=3)
    data = clockless(tmp_path / "a")
    assert data == clockless(tmp_path / "b")
    for word in (b"_ns", b"session", b"attempt", b"slot", b"run_id", b"utc"):
        assert word not in data


def test_a_file_half_written_at_the_kill_is_gone_after_the_resume(tmp_path: Path) -> None:
    run_fake(tmp_path / "a", samples=3)
    (tmp_path / "a" / "summary.json").unlink()
    (tmp_path / "a" / "gen" / "000.jsonl").write_bytes(b"")
    left = [tmp_path / "a" / ".summary.json.123.tmp", tmp_path / "a" / "gen" / ".x.md.77.tmp"]
    for path in left:
        path.write_text("half")
    run_fake(tmp_path / "a", samples=3)
    assert not any(path.exists() for path in left)
