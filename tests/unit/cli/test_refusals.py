"""Odd but possible arguments get one line and their exit code."""

import re
from pathlib import Path

import pytest
from page_support import entry, write_folder

from gravbench.cli.app import run_command_line

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "gravity-tyny", "--backend", "transformers"), "did you mean 'gravity-tiny'"),
        (("--suite", "pages-mini", "--layout", "pp-doclayout-v3", "--layout-model", "/nonexist"),
         "/nonexist: no such folder"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_there_is_named_with_a_next_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert run_command_line([*TOY, *arguments, "--out", str(tmp_path / "r")]) == 4
    error = capfd.readouterr().err
    assert said in error
    assert "hint: " in error


def bad_pages(folder: Path) -> Path:
    """Four pages without an image, the first of a name that would turn the terminal red."""
    pages = [entry(name) for name in ("a\x1b[31m.png", "b.png", "c.png", "d.png")]
    write_folder(folder, [*pages, entry("good.png")])
    for image in (folder / "images").iterdir():
        if image.name != "good.png":
            image.unlink()
    return folder


def test_the_first_failed_samples_are_printed_with_their_reasons(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bad_pages(tmp_path / "data")
    run = [
        "run",
        "--suite",
        "omnidoc16",
        "--data",
        str(data),
        "--backend",
        "toy",
        "--out",
        str(tmp_path / "r"),
    ]
    assert run_command_line(run) == 3
    out, err = capfd.readouterr()
    said = " ".join(out.split())
    assert "warning: 4 of 5 samples failed" in said
    unbroken = "".join(said.split())  # a long folder name is broken anywhere
    assert re.search(r"warning:b:\S+/data/images/b\.png:imagenotfound\.Restoretheimage\.", unbroken)
    assert "warning: d:" not in said
    assert "ms per page that was read, by stage" in said
    assert "The first: a__31m-" in err
    assert "\x1b" not in out + err


def test_verify_writes_out_control_characters_and_counts_one_fault_as_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data = bad_pages(tmp_path / "data")
    assert run_command_line(["suites", "verify", "omnidoc16", "--data", str(data)]) == 5
    out = capfd.readouterr().out
    assert r"fault: a\x1b[31m.png: page_info.image_path" in out
    assert "\x1b" not in out
    assert out.endswith("4 faults\n")
    assert run_command_line(["suites", "verify", "omnidoc16", "--data", str(data), "--json"]) == 5
    one = write_one_bad(tmp_path / "one")
    capfd.readouterr()
    assert run_command_line(["suites", "verify", "omnidoc16", "--data", str(one)]) == 5
    assert capfd.readouterr().out.endswith("\n1 fault\n")


def write_one_bad(folder: Path) -> Path:
    write_folder(folder, [entry("a.png"), entry("b.png", [])])
    return folder
