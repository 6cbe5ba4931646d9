"""The worked examples of CONTRIBUTING.md are a package that installs, and its commands run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = re.findall(r'```(?:python|toml) title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
CHECKS = re.search(r"## Checks.*?```text\n(.*?)```", PAGE, re.DOTALL)
INSTALL = ("install", "-q", "--no-deps", "--no-index", "--no-build-isolation")


def called(*words: str, cwd: Path, site: Path) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join((str(ROOT), str(site)))
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, "PYTHONPATH": places},
    )  # fmt: skip


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The examples written out as the page names them, and where pip has installed them."""
    project, site = tmp_path_factory.mktemp("little"), tmp_path_factory.mktemp("site")
    for name, text in FILES:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    for words in (("make_suite.py",), ("-m", "pip", *INSTALL, "--target", str(site), str(project))):
        done = called(*words, cwd=project, site=site)
        assert done.returncode == 0, done.stderr
    return project, site


def test_a_strategy_a_backend_a_scorer_and_a_suite_are_shown() -> None:
    shown = {"little/strategy.py", "little/backend.py", "little/scorer.py", "make_suite.py"}
    assert shown <= {name for name, _ in FILES}
    assert len(COMMANDS) == 3


def test_the_examples_install_and_their_commands_run(places: tuple[Path, Path]) -> None:
    project, site = places
    printed = {}
    for command in COMMANDS:
        words = shlex.split(command)
        assert words[0] == "gravbench"
        done = called("-m", *words, cwd=project, site=site)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        printed[words[1]] = done.stdout
    assert "PARROT" in printed["run"]
    assert "1/1 (100.0%)" in printed["run"]
    assert "words" in printed["compare"]


def test_the_checks_are_those_of_ci() -> None:
    assert CHECKS is not None
    ci = (ROOT / ".ci" / "run").read_text().replace('"$venv/bin/', "").replace('"', "")
    for command in CHECKS[1].splitlines():
        assert f"\n{command}\n" in ci


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)\)", PAGE))))
def test_linked_files_exist(link: str) -> None:
    assert (ROOT / link).exists()
