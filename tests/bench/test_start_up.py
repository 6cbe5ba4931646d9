"""Verbs that need nothing heavy begin at once. Processor time, best of five, of whole commands."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from omnidoc_support import block, page_object, write_benchmark
from run_support import child_environment

import gravbench

CEILING_S = 0.7


def cpu_s(arguments: list[str], folder: Path) -> float:
    """Least processor time of one command among five, after one that writes the compiled modules."""
    environment = child_environment() | {"PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    spent = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "gravbench", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode in {0, 3}, done.stderr  # 3: what the gate says of so small a run
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent[1:])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark of one page with its prediction, and a run of three samples."""
    made = tmp_path_factory.mktemp("start")
    page = page_object([block("text_block", "amber river stone", 1)], "page_1.png", language="english")
    write_benchmark(made, [page], {"page_1.md": "amber river stone"})
    gravbench.run("smoke", backend="toy", limit=3, out=made / "run")
    return made


@pytest.mark.bench
@pytest.mark.parametrize(
    "words",
    [
        "--help", "run --help", "omnidoc --gt gt.json --predictions pred --no-cdm", "olmocr --help",
        "status run", "compare run", "score run", "gate run", "export run --clockless", "suites list",
    ],
)  # fmt: skip
def test_a_light_verb_takes_less_than_seven_tenths_of_a_second(words: str, folder: Path) -> None:
    assert cpu_s(words.split(), folder) < CEILING_S
