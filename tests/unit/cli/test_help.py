"""Help of every verb is there at once: asking for it loads no model stack and no analysis library."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from run_support import child_environment

from gravbench.cli.app import build_app

HEAVY = ("torch", "transformers", "numpy", "pandas", "scipy", "matplotlib", "PIL", "numba", "lxml", "jinja2")
ASK = """
import contextlib, io, json, sys
from gravbench.cli.app import run_command_line
heavy, found = set(sys.argv[1].split(",")), {}
for verb in json.loads(sys.argv[2]):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run_command_line([*verb, "--help"])
    loaded = sorted(heavy & {name.partition(".")[0] for name in sys.modules})
    found[" ".join(verb)] = [code, "Usage:" in said.getvalue(), loaded]
print(json.dumps(found))
"""


def verbs(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The command itself and all below it."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from verbs(below, (*path, name))


def test_help_of_no_verb_loads_a_heavy_module(tmp_path: Path) -> None:
    every = list(verbs(typer.main.get_command(build_app())))
    assert {("run",), ("sweep",), ("train",), ("omnidoc",), ("suites", "fetch"), ()} <= set(every)
    done = subprocess.run(
        [sys.executable, "-c", ASK, ",".join(HEAVY), json.dumps(every)],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=child_environment(),
    )  # fmt: skip
    assert json.loads(done.stdout) == {" ".join(verb): [0, True, []] for verb in every}
