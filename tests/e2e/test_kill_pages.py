"""A few kills of the command itself; `kill_pages.py --kills 60` is the long version."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def script() -> ModuleType:
    path = Path(__file__).with_name("kill_pages.py")
    spec = importlib.util.spec_from_file_location("kill_pages", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kill_pages"] = module
    spec.loader.exec_module(module)
    return module


def test_killed_page_run_ends_in_the_same_bytes(tmp_path: Path) -> None:
    arguments = ("--suite", "pages-mini", "--backend", "toy", "--limit", "6")
    outcome = script().hunt(arguments, tmp_path, kills=2, seed=1)
    assert outcome.kills == 2
    assert outcome.differences == ()
