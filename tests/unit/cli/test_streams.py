"""Closed standard streams: the command does its work and says nothing where nobody listens."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_support import child_environment

RUN = "run --suite smoke --backend toy --limit 2"


def shell(command: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("gravbench", f"'{sys.executable}' -m gravbench", 1)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=child_environment(),
    )


@pytest.mark.parametrize("command", ["suites list", "suites list --json", "--version", "--help"])
def test_closed_stdout_is_no_error(command: str, tmp_path: Path) -> None:
    done = shell(f"gravbench {command} >&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_closed_stderr_keeps_the_exit_code_and_prints_nothing_elsewhere(tmp_path: Path) -> None:
    done = shell("gravbench suites show nowhere 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


def test_with_all_streams_closed_a_run_is_whole_and_holds_only_records(tmp_path: Path) -> None:
    done = shell(f"gravbench {RUN} --out r <&- >&- 2>&-", tmp_path)
    assert done.returncode == 0
    again = shell("gravbench export r --clockless", tmp_path)
    assert again.returncode == 0, again.stderr
    for file in (tmp_path / "r").glob("*/*.jsonl"):
        assert all(line.startswith("{") for line in file.read_text().splitlines())


@pytest.mark.parametrize("command", ["--help", "run --help", "suites --help", "suites list", "--version"])
def test_a_reader_that_left_before_the_first_line_makes_no_error(command: str, tmp_path: Path) -> None:
    done = shell(f"(gravbench {command}; echo $? >code) | true; echo rest", tmp_path)
    assert (done.stdout, done.stderr) == ("rest\n", "")
    assert (tmp_path / "code").read_text() == "0\n"
