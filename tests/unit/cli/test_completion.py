"""What a shell is told, and what a script can read of a run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.cli import run_command
from gravbench.cli.app import run_command_line
from gravbench.cli.parameters import VALUES, completer
from gravbench.options import RunOptions, declared_options
from gravbench.runner.run import Outcome

TOY = ("run", "--suite", "smoke", "--backend", "toy", "--limit", "2")


@pytest.mark.parametrize(
    ("parameter", "typed", "value"),
    [
        ("suite", "crops-m", "crops-mini"),
        ("strategies", "self", "selfspec"),
        ("layout", "white", "whitespace"),
        ("dtype", "bf", "bfloat16"),
    ],
)
def test_values_that_begin_with_what_was_typed_are_completed(parameter: str, typed: str, value: str) -> None:
    complete = completer(parameter)
    assert complete is not None
    assert value in complete(typed)
    assert complete("no-such-value") == []


def test_what_has_no_list_of_values_is_not_completed() -> None:
    assert completer("seed") is None


def test_completed_options_exist() -> None:
    names = {name for name, _, _ in declared_options()} | {"name", "vary"}
    assert set(VALUES) <= names


def test_shell_asks_and_is_answered(tmp_path: Path) -> None:
    asks = {
        "_GRAVBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "gravbench run --layout whi",
        "COMP_CWORD": "3",
    }
    command = "import sys; sys.argv[0] = 'gravbench'; from gravbench.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=child_environment() | asks,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["whitespace"], done.stderr


def test_quiet_run_prints_its_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line([*TOY, "--quiet", "--out", "my run"]) == 0
    assert capsys.readouterr() == ("my run\n", "")


@pytest.mark.parametrize(
    ("verb", "more"), [("run", ["--quiet"]), ("run", ["--json"]), ("sweep", ["--blocks", "4", "--quiet"])]
)
def test_warnings_are_said_where_no_table_shows_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    more: list[str],
) -> None:
    plain = run_command.run_plan

    def warned(options: RunOptions, *, quiet: bool) -> Outcome:
        outcome = plain(options, quiet=quiet)
        return replace(
            outcome,
            summary=outcome.summary.model_copy(update={"warnings": ("3 tensors are read by nothing",)}),
        )

    monkeypatch.setattr(run_command, "run_plan", warned)
    assert run_command_line([verb, *TOY[1:], *more, "--out", str(tmp_path / "r")]) == 0
    assert "warning: 3 tensors are read by nothing\n" in capsys.readouterr().err


@pytest.mark.parametrize("verb", [[], ["suites"]])
def test_without_a_verb_help_is_printed_and_no_error(
    verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(verb) == 2
    printed = capsys.readouterr()
    assert "Usage: gravbench" in printed.out + printed.err
    assert "error" not in printed.err


@pytest.mark.parametrize("verb", [["--help"], ["run", "--help"], ["suites", "list", "--help"]])
def test_help_names_no_type_beside_a_flag(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(verb) == 0
    assert "bool" not in capsys.readouterr().out.lower()


def test_columns_are_honoured(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    widths = []
    for columns in ("60", "140"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run_command_line(["suites", "list"]) == 0
        widths.append(max(map(len, capsys.readouterr().out.splitlines())))
    assert widths[0] <= 60 < widths[1] <= 140
