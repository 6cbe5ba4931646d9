"""Looking at runs that are under way, cut short or damaged: nothing is changed, what is there is marked."""

import json
import shutil
from pathlib import Path

import pytest
from run_support import FakeBackend, run_fake

from gravbench.cli.app import run_command_line


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("status") / "run"
    run_fake(folder, samples=6)
    return folder


def looked_at(folder: Path, capfd: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = run_command_line(["status", str(folder), *options])
    return code, capfd.readouterr().out


def cut(source: Path, target: Path, *, lines: int, torn: bytes = b"", phase: str = "generating") -> Path:
    """A copy of a run with its first `lines` records, as a kill leaves it."""
    shutil.copytree(source, target)
    shutil.rmtree(target / "score")
    (target / "summary.json").unlink()
    shard = target / "gen" / "000.jsonl"
    shard.write_bytes(b"".join(shard.read_bytes().splitlines(keepends=True)[:lines]) + torn)
    state = json.loads((target / "state.json").read_text())
    (target / "state.json").write_text(json.dumps({**state, "phase": phase, "heartbeat_unix": 0}))
    return target


def test_a_run_cut_short_is_shown_as_partial_with_the_command_that_goes_on(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = cut(finished, tmp_path / "r", lines=7, torn=b'{"schema":')
    before = {p: p.read_bytes() for p in run.rglob("*") if p.is_file()}
    code, out = looked_at(run, capfd)
    assert code == 0
    assert "3 of 6 samples are whole" in " ".join(out.split())  # a long folder name breaks the line
    assert "it was probably killed" in " ".join(out.split())
    assert "PARTIAL: 3 of 6 samples, not scored" in out
    assert "000.jsonl: its last line is cut off" in out
    assert "to continue:" in out
    assert "--fresh" not in out
    assert "selfspec" in out.partition("PARTIAL")[2]
    assert {p: p.read_bytes() for p in run.rglob("*") if p.is_file()} == before


def test_a_damaged_line_is_named_and_the_others_are_shown(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = cut(finished, tmp_path / "r", lines=12, phase="complete")
    shard = run / "gen" / "000.jsonl"
    lines = shard.read_bytes().splitlines(keepends=True)
    lines[3] = b'{"schema":"gravbench.gen/1"}\n'
    shard.write_bytes(b"".join(lines))
    code, out = looked_at(run, capfd)
    assert (code, "000.jsonl:4" in out, "PARTIAL: 5 of 6 samples" in out) == (0, True, True)
    _, printed = looked_at(run, capfd, "--json")
    document = json.loads(printed)
    assert (document["whole"], document["samples"], document["partial"]) == (5, 6, True)
    assert len(document["unreadable"]) == 1
    assert document["summary"]["n_samples"] == 5


def test_a_finished_run_is_called_complete_and_one_before_its_first_sample_has_no_table(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _, out = looked_at(finished, capfd)
    assert "complete" in out
    assert "PARTIAL" not in out
    _, out = looked_at(cut(finished, tmp_path / "r", lines=1), capfd)
    assert "no sample is whole in every strategy yet" in out


def test_compare_of_a_run_with_too_many_failed_samples_is_exit_3_unless_allowed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = frozenset(f"text-{i:03d}" for i in range(0, 12, 3))
    run_fake(tmp_path / "r", samples=12, backend=FakeBackend(failing=failing), max_errors=_any())
    compare = ["compare", str(tmp_path / "r"), "--resamples", "100"]
    assert run_command_line(compare) == 3
    printed = capfd.readouterr()
    assert printed.out.startswith("FAILED samples: 4 of 12 in ar, 4 of 12 in selfspec; they score worst")
    said = " ".join(printed.err.split())
    assert "4 of 12 samples failed, more than --max-errors 1% allows" in said
    assert "text-000, text-003, text-006 and 1 more" in said
    assert run_command_line([*compare, "--max-errors", "4"]) == 0


def _any() -> object:
    from gravbench.options import ErrorLimit

    return ErrorLimit(count=99)
