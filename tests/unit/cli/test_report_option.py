"""`run` and `compare` write their report in the same command; `--where` takes the samples of one value."""

from pathlib import Path
from typing import Any

import pytest

from gravbench.cli.app import run_command_line
from gravbench.store.rundir import RunDirectory

TOY = ("run", "--suite", "smoke", "--backend", "toy", "--quiet")


def test_run_and_compare_write_the_page_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []

    def write_report(runs: tuple[Path, ...], *, out: Path, **given: Any) -> None:
        out.write_text("page")
        asked.append({**given, "runs": runs, "out": out})

    monkeypatch.setattr("gravbench.cli.report_command.write_report", write_report)
    run, page = tmp_path / "r", tmp_path / "page.html"
    words = ["--limit", "2", "--seed", "3", "--out", str(run), "--report", str(page)]
    assert run_command_line([*TOY, *words]) == 0
    assert capsys.readouterr().out.strip() == str(run)
    words = ["compare", str(run), "--resamples", "200", "--seed", "7", "--report", str(page)]
    assert run_command_line(words) == 0
    assert f"written: {page} (4 bytes)" in capsys.readouterr().out
    assert [(one["runs"], one["out"], one["resamples"], one["seed"]) for one in asked] == [
        ((run,), page, 10_000, 3),
        ((run,), page, 200, 7),
    ]


@pytest.mark.parametrize("place", [".", "page.txt"])
def test_a_page_that_cannot_be_written_is_refused_before_the_run(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line([*TOY, "--out", "r", "--report", place]) == 2
    assert ".html" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_where_keeps_the_samples_of_one_value_and_is_part_of_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*TOY, "--strategy", "ar", "--where", "task=table"]
    assert run_command_line([*words, "--out", str(tmp_path / "r")]) == 0
    manifest = RunDirectory(tmp_path / "r").manifest()
    assert len(manifest.plan) == 4
    assert {entry.sample_id.partition("-")[0] for entry in manifest.plan} == {"table"}
    assert manifest.identity.where == "task=table"
    for wrong, said in (("task=none", "values of task: "), ("colour=red", "keys: "), ("task", "KEY=VALUE")):
        assert run_command_line([*TOY, "--where", wrong, "--out", str(tmp_path / "w")]) == 2
        assert said in capsys.readouterr().err
