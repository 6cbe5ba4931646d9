"""What a verb does not need it does not load: neither for its help nor for a small job."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from omnidoc_support import block, page_object, write_benchmark
from run_support import child_environment, run_fake

from gravbench.cli.app import build_app

HEAVY = ("torch", "transformers", "numpy", "pandas", "scipy", "matplotlib", "PIL", "numba", "lxml", "jinja2")
UNASKED = ("torch", "transformers", "pandas", "matplotlib", "numba", "lxml", "jinja2")
ASK = """
import contextlib, io, json, sys
from gravbench.cli.app import run_command_line
heavy, found = set(sys.argv[1].split(",")), {}
for words in json.loads(sys.argv[2]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run_command_line(words)
    found[" ".join(words)] = [code, "Usage:" in said.getvalue(), sorted(heavy & set(sys.modules))]
print(json.dumps(found))
"""


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The command itself and all below it."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*path, name))


def asked(commands: list[list[str]], heavy: tuple[str, ...], folder: Path) -> dict[str, list[Any]]:
    """Exit code, whether it was help, and the heavy modules that were loaded by then, of each command."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, ",".join(heavy), json.dumps(commands)],
        capture_output=True, text=True, check=True, cwd=folder, env=child_environment(),
    )  # fmt: skip
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


def test_help_of_no_verb_loads_a_heavy_module(tmp_path: Path) -> None:
    every = list(verbs(typer.main.get_command(build_app())))
    assert {("run",), ("sweep",), ("train",), ("omnidoc",), ("suites", "fetch"), ()} <= set(every)
    found = asked([[*verb, "--help"] for verb in every], HEAVY, tmp_path)
    assert found == {" ".join((*verb, "--help")): [0, True, []] for verb in every}


def test_small_jobs_load_nothing_that_they_do_not_need(tmp_path: Path) -> None:
    page = page_object([block("text_block", "amber river", 1)], "page_1.png", language="english")
    write_benchmark(tmp_path, [page], {"page_1.md": "amber river"})
    run_fake(tmp_path / "run", samples=3)
    jobs = ["omnidoc --gt gt.json --predictions pred --no-cdm", "status run", "compare run"]
    found = asked([words.split() for words in jobs], (*UNASKED, "scipy.special", "scipy.stats"), tmp_path)
    assert found == {words: [0, False, []] for words in jobs}
