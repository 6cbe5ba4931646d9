"""The commands of docs/olmocr.md run, and print the figures the page shows."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from gravbench.cli.app import run_command_line
from gravbench.resources import data_root

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "olmocr.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("gravbench ") and line != "gravbench doctor"
]
SHOWN = [
    " ".join(line.split())
    for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.strip() and "─" not in line
]


def test_the_page_is_what_its_commands_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("py_mini_racer")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(data_root("suites") / "data" / "olmocr-mini", "mini")
    printed = ""
    for command in COMMANDS:
        code = run_command_line(shlex.split(command)[1:])
        said = capsys.readouterr()
        assert code == 0, f"{command}: {said.err}"
        printed += said.out
    lines = {" ".join(line.split()) for line in printed.splitlines()}
    assert len(SHOWN) == 5 and [line for line in SHOWN if line not in lines] == []
    for arm, folder in (("right", "reference"), ("wrong", "spoiled")):
        back, given = (Path(place) for place in (f"given-back/{arm}", f"mini/{folder}"))
        assert {p.name: p.read_text() for p in back.iterdir()} == {
            p.name: p.read_text() for p in given.iterdir()
        }
    gallery = Path("engines.html").read_text(encoding="utf-8")
    assert gallery.lstrip().lower().startswith("<!doctype html")
