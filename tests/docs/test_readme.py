"""Every gravbench command in the README runs, and every path it names exists."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from system_packages import needs_tex

from gravbench.reporting.publication import PAGE_DIGEST, page_digest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    part.strip()
    for block in BLOCKS
    for line in block.splitlines()
    for part in line.split("&&")
    if part.strip().startswith("gravbench ")
]
LONG = {"crops-mini": ("--limit", "3"), "pages-mini": ("--limit", "1"), "sweep": ("--limit", "3")}
"""Options that shorten a run, by its suite or verb, without changing what it does."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One working folder: later commands may use what earlier ones wrote."""
    return tmp_path_factory.mktemp("readme")


def test_the_readme_has_two_setup_commands_and_shows_the_main_job() -> None:
    assert any(c.startswith("gravbench run --suite crops-mini") for c in COMMANDS)
    assert "python -m pytest" in README


def marked(command: str) -> Any:
    """The gate holds CDM against references that have it, so its command needs TeX."""
    return pytest.param(command, marks=needs_tex if command.startswith("gravbench gate") else ())


@pytest.mark.parametrize("command", [marked(command) for command in COMMANDS])
def test_command_runs(command: str, folder: Path) -> None:
    words = shlex.split(command, comments=True)[1:]
    words += next((more for word, more in LONG.items() if word in words), ())
    done = subprocess.run(
        [sys.executable, "-m", "gravbench", *words], cwd=folder, capture_output=True, text=True,
        timeout=400, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(((?!http)[^)#]+)\)", README))))
def test_linked_files_exist(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_page_of_docs_is_linked() -> None:
    for path in (*sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        assert f"]({path.relative_to(ROOT)})" in README


def test_the_picture_is_the_first_screen_of_the_newest_published_report_as_it_is_now() -> None:
    newest = max(ROOT.glob("reports/*-crops-mini"))
    (shown,) = re.findall(r"!\[[^\]]+\]\((reports/[^)]+)\)", README)
    assert ROOT / shown == newest / "first-screen.png"
    with Image.open(ROOT / shown) as picture:
        assert picture.info[PAGE_DIGEST] == page_digest(newest / "report.html")
