"""The commands of docs/own-data.md run, one after the other, and print what the page shows of them."""

import re
import shlex
from pathlib import Path

import pytest

from gravbench.cli.app import run_command_line

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "own-data.md").read_text(encoding="utf-8")
SCRIPT = re.search(r'```python title="prepare.py"\n(.*?)```', PAGE, re.DOTALL)
COMMANDS = [
    line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
SHOWN = [
    " ".join(line.split())
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip()
]
TOY = ("--backend", "toy", "--limit", "2")
"""Runs are shortened, and their model is the toy: what they print is not the page's."""


@pytest.mark.slow
def test_the_page_is_what_its_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert SCRIPT is not None
    monkeypatch.chdir(tmp_path)
    exec(compile(SCRIPT[1], "prepare.py", "exec"), {"__name__": "prepare"})
    printed = ""
    for command in COMMANDS:
        words = shlex.split(command)
        more = TOY if words[1] == "run" else ()
        code = run_command_line([*words[1:], *more])
        said = capsys.readouterr()
        assert code == 0, f"{command}: {said.err}"
        printed += "" if words[1] == "run" else said.out
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    of_runs = [
        line for line in SHOWN if re.match(r"(ar|selfspec) 0|strategy \(low|text NED table TEDS", line)
    ]
    assert len(of_runs) >= 3
    assert [line for line in SHOWN if line not in lines and line not in of_runs and "─" not in line] == []
    for page in ("lines.html", "notes.html", "engines.html"):
        assert (tmp_path / page).read_text(encoding="utf-8").lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize("verb", ["suites make", "run", "import", "compare", "bless", "gate", "export"])
def test_every_verb_of_the_path_is_shown(verb: str) -> None:
    assert any(command.startswith(f"gravbench {verb} ") for command in COMMANDS)
