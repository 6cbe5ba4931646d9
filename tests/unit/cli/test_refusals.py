"""Odd but possible arguments get one line and their exit code."""

from pathlib import Path

import pytest

from gravbench.cli.entry import run_command_line

TOY = ("run", "--suite", "smoke", "--backend", "toy", "--limit", "3", "--quiet")


def test_fresh_in_the_run_folder_itself_sets_it_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run_command_line([*TOY, "--out", "."]) == 0
    assert run_command_line([*TOY, "--out", ".", "--fresh"]) == 0
    assert (tmp_path / "run.old-1" / "summary.json").is_file()
    assert (tmp_path / "run" / "summary.json").is_file()


def test_a_name_too_long_for_the_disk_is_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*TOY, "--out", str(tmp_path / ("x" * 300))]) == 2
    assert "not writable" in capfd.readouterr().err


def test_a_strategy_in_capitals_gets_its_suggestion(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*TOY, "--strategy", "SELFSPEC"]) == 2
    assert "selfspec" in capfd.readouterr().err


def test_export_of_a_run_with_lost_scores_names_the_cure(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line([*TOY, "--out", str(tmp_path / "r")]) == 0
    (scores,) = (tmp_path / "r" / "score").glob("*/*.jsonl")
    scores.write_bytes(b"".join(scores.read_bytes().splitlines(keepends=True)[:2]))
    assert run_command_line(["export", str(tmp_path / "r"), "--clockless"]) == 3
    assert "gravbench score" in capfd.readouterr().err
    assert run_command_line(["score", str(tmp_path / "r")]) == 0
    assert run_command_line(["export", str(tmp_path / "r"), "--clockless"]) == 0
