import subprocess
import sys
from pathlib import Path

import pytest
from run_support import child_environment

import gravbench
from gravbench.cli import app as app_module
from gravbench.cli.app import run_command_line
from gravbench.errors import DataError

HEAVY = ("torch", "transformers", "pandas", "matplotlib", "scipy", "numpy")


def modules_loaded_by(*arguments: str, cwd: Path) -> set[str]:
    """Top-level modules in memory after one command in a fresh interpreter."""
    script = (
        "import sys; from gravbench.cli.app import run_command_line; "
        f"code = run_command_line({list(arguments)!r}); "
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules})); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        env=child_environment(),
    )
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("--version",)])
def test_help_and_version_load_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    assert modules_loaded_by(*arguments, cwd=tmp_path).isdisjoint(HEAVY)


def test_suites_list_needs_no_model_stack(tmp_path: Path) -> None:
    assert modules_loaded_by("suites", "list", cwd=tmp_path).isdisjoint({"torch", "transformers", "pandas"})


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["--version"]) == 0
    assert capsys.readouterr().out == f"gravbench {gravbench.__version__}\n"


def test_python_m_gravbench_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gravbench", "rum"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=child_environment(),
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: No such command 'rum'")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "--suite", "smok", "--backend", "toy"], 2, "smoke"),
        (
            ["run", "--suite", "smoke", "--strategy", "selfspek", "--backend", "toy"],
            2,
            "did you mean 'selfspec'",
        ),
        (["run", "--suite", "smoke", "--strategy", "ar", "--strategy", "ar"], 2, "given twice"),
        (["run", "--suite", "smoke", "--strategy", "selfspec:block=0", "--backend", "toy"], 2, "block"),
        (["run", "--suite", "smoke", "--strategy", "selfspec:block=9999", "--backend", "toy"], 2, "cache"),
        (["run", "--suite", "smoke", "--backend", "toi"], 2, "toy"),
        (["run", "--suite", "smoke", "--model", "nowhere"], 4, "nowhere"),
        (["run", "--suite", "smoke", "--backend", "toy", "--out", "/dev/null/x"], 2, "/dev/null: is a file"),
        (["run", "--suite", "smoke", "--backend", "toy", "--max-errors", "some"], 2, "--max-errors"),
        (["run", "--suite", "smoke", "--backend", "toy", "--limit", "0"], 2, "--limit"),
        (["run", "--suite", "smoke", "--backend", "toy", "--seed", "-1"], 2, "--seed"),
        (["run", "--suite", "smoke", "--backend", "toy", "--threads", "0"], 2, "--threads"),
        (["run"], 2, "--suite"),
        (["run", "--suite"], 2, "--suite"),
        (["frobnicate"], 2, "frobnicate"),
        (["score", "nowhere"], 2, "no run here"),
        (["export", "nowhere", "--clockless"], 2, "no run here"),
        (["export", "nowhere"], 2, "--clockless"),
        (["suites", "show", "crops-mimi"], 2, "crops-mini"),
    ],
)
def test_bad_input_is_one_clear_line_and_its_exit_code(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(arguments) == code
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert lines[0].startswith("error: ")
    assert len(lines) <= 2
    assert all(line.startswith("hint: ") for line in lines[1:])
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_unexpected_error_is_one_line_and_debug_shows_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("gravbench.cli.app.build_app", lambda _: broken)
    assert run_command_line(["run"]) == 4
    plain = capsys.readouterr().err
    assert plain.splitlines()[0] == "error: internal error: KeyError: 'lost'"
    assert "--debug" in plain
    assert run_command_line(["run", "--debug"]) == 4
    assert "Traceback" in capsys.readouterr().err


def test_error_with_line_breaks_stays_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise DataError("first\nsecond", hint="do\nthis")

    monkeypatch.setattr("gravbench.cli.app.build_app", lambda _: broken)
    assert run_command_line([]) == 5
    assert capsys.readouterr().err == "error: first second\nhint: do this\n"


def test_every_verb_has_help() -> None:
    places = [*app_module.VERBS.values(), *app_module.SUITES_VERBS.values()]
    assert all(app_module.load_verb(place).__doc__ for place in places)


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["--debug", "omnidoc", "--gt", "run"], {"omnidoc"}),
        (["suites", "list"], {"suites"}),
        (["--version"], set()),
        (["--help"], None),
        ([], None),
        (["rnu"], None),
    ],
)
def test_only_the_verb_that_runs_is_loaded(arguments: list[str], needed: set[str] | None) -> None:
    assert app_module.verbs_needed(arguments, {}) == needed
    assert app_module.verbs_needed(arguments, {"_GRAVBENCH_COMPLETE": "complete_bash"}) is None
