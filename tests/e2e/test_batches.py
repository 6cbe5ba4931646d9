"""Batches of the shipped model on four crops and a page of a shipped suite: the ids of single requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gravbench.cli.app import run_command_line


def test_every_batch_size_gives_the_text_of_a_batch_of_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "--suite", "smoke", "--blocks", "8", "--batch-sizes", "1,3", "--limit", "5"]
    assert run_command_line([*command, "--out", str(tmp_path / "run"), "--json"]) == 0
    points = json.loads(capfd.readouterr().out)["points"]
    assert [(p["strategy"], p["batch"]) for p in points] == [
        ("ar", 1),
        ("selfspec:block=8", 1),
        ("ar:batch=3", 3),
        ("selfspec:block=8,batch=3", 3),
    ]
    assert all(p["identical_to_ar"]["n"] == 5 for p in points[1:])
    assert len({(p["tpf_all"], p["tau_round"]) for p in points[1::2]}) == 1  # counters know no batch
    folders = sorted((tmp_path / "run" / "predictions").iterdir())
    pages = [{page.name: page.read_bytes() for page in folder.iterdir()} for folder in folders]
    assert len(pages) == 4 and all(len(found) == 1 and found == pages[0] for found in pages)
