"""Odd places for output and data: one line that names the place, the exit code, and no litter."""

import os
from pathlib import Path

import pytest

from gravbench.cli.app import run_command_line

TOY = ("run", "--suite", "smoke", "--backend", "toy", "--limit", "3", "--quiet")


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--out", "file"), 2, "error: file: is a file, expected a folder"),
        (("--out", "file/run"), 2, "error: file: is a file, expected a folder, so file/run cannot be made"),
        (("--out", "file/a/b"), 2, "error: file: is a file, expected a folder, so file/a/b cannot be made"),
        (
            ("--suite", "omnidoc16", "--data", "file"),
            5,
            "error: file: is a file, expected a folder with OmniDocBench.json and images/",
        ),
        (
            ("--suite", "omnidoc16", "--data", "file/x"),
            5,
            "error: file/x: no such folder, expected a folder with OmniDocBench.json",
        ),
        (("--suite", "omnidoc16", "--data", "nowhere"), 5, "error: nowhere: no such folder"),
        (("--suite", "omnidoc16", "--data", "data"), 5, "OmniDocBench.json: not found"),
    ],
)
def test_a_file_where_a_folder_belongs(
    options: tuple[str, ...], code: int, said: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = tree(here)
    assert run_command_line([*TOY, *options]) == code
    lines = capfd.readouterr().err.splitlines()
    assert said in lines[0]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]
    assert tree(here) == before


@pytest.mark.parametrize("options", [("--out", "shut/run"), ("--out", "shut"), ()])
def test_a_read_only_folder(
    options: tuple[str, ...], here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shut = here / "shut"
    shut.mkdir()
    if not options:
        monkeypatch.chdir(shut)
    shut.chmod(0o555)
    if os.access(shut, os.W_OK):
        pytest.skip("this user may write anywhere")
    assert run_command_line([*TOY, *options]) == 2
    assert "not writable" in capfd.readouterr().err


def test_a_runs_folder_that_is_a_file(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (here / "runs").write_text("mine")
    assert run_command_line(TOY) == 2
    assert "runs: is a file, expected a folder" in capfd.readouterr().err


@pytest.mark.parametrize("out", [(), ("--out", "new"), ("--out", "new/deep"), ("--out", "new", "--fresh")])
def test_a_run_that_never_starts_leaves_nothing_behind(out: tuple[str, ...], here: Path) -> None:
    before = tree(here)
    assert run_command_line(["run", "--suite", "smoke", "--model", "nowhere", *out, "--quiet"]) == 4
    assert tree(here) == before


def test_a_fresh_run_that_never_starts_leaves_the_old_one_in_its_place(here: Path) -> None:
    assert run_command_line([*TOY, "--out", "run"]) == 0
    before = tree(here)
    failing = ["run", "--suite", "smoke", "--model", "nowhere", "--out", "run", "--fresh", "--quiet"]
    assert run_command_line(failing) == 4
    assert tree(here) == before


def test_an_empty_folder_of_the_user_stays(here: Path) -> None:
    (here / "mine").mkdir()
    assert run_command_line(["run", "--suite", "smoke", "--model", "nowhere", "--out", "mine"]) == 4
    assert (here / "mine").is_dir()


@pytest.mark.parametrize("name", ["gen/001.jsonl", "gen/000.jsonl", "events.jsonl"])
def test_a_folder_where_records_belong_is_named(
    name: str, here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([*TOY, "--out", "run"]) == 0
    place = here / "run" / name
    if place.exists():
        place.rename(here / "kept")
    place.mkdir()
    assert run_command_line([*TOY, "--out", "run"]) in (2, 5)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith(f"error: run/{name}: ")
    assert len(lines) == 2


def test_a_damaged_line_is_named_with_a_cure_that_loses_one_sample(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([*TOY, "--out", "run"]) == 0
    shard = here / "run" / "gen" / "000.jsonl"
    lines = shard.read_bytes().splitlines(keepends=True)
    shard.write_bytes(b"".join([lines[0], b"\0" * 40 + b"\n", *lines[2:4], b"{}\n", *lines[5:]]))
    for verb in ([*TOY, "--out", "run"], ["score", "run"], ["export", "run", "--clockless"]):
        assert run_command_line(verb) == 5
        error, hint = capfd.readouterr().err.splitlines()
        assert error.startswith("error: run/gen/000.jsonl:2: ")
        assert error.endswith("; unreadable too: 5")
        assert "delete the line" in hint
    shard.write_bytes(b"".join([lines[0], *lines[2:4], *lines[5:]]))
    assert run_command_line([*TOY, "--out", "run"]) == 0
    assert shard.read_bytes().startswith(b"".join([lines[0], *lines[2:4], *lines[5:]]))
    assert run_command_line(["score", "run"]) == 0


def test_damaged_scores_are_made_again(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*TOY, "--out", "run"]) == 0
    (scores,) = (here / "run" / "score").glob("*/all.jsonl")
    whole = scores.read_bytes()
    scores.write_bytes(b"junk\n" + whole)
    assert run_command_line(["export", "run", "--clockless"]) == 5
    assert "gravbench score" in capfd.readouterr().err
    assert run_command_line(["score", "run"]) == 0
    assert scores.read_bytes() == whole
