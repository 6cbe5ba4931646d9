"""A plan says what would run; its time is that of few samples, multiplied task by task."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gravbench.cli.app import run_command_line
from gravbench.runner.forecast import Forecast, _probe, _seconds


def record(task: str, seconds: float, group: int | None = None) -> Any:
    return SimpleNamespace(task=task, submit_ns=10, done_ns=10 + int(seconds * 1e9), forward_group=group)


def test_each_task_counts_with_its_own_mean_and_extremes() -> None:
    records = [record("text", 1), record("text", 3), record("table", 10)]
    found = _seconds(records, {"text": 200, "table": 10})
    assert (found.value, found.low, found.high) == (500, 300, 700)


def test_answers_that_decode_together_share_their_time() -> None:
    found = _seconds([record("text", 4, group=1), record("text", 4, group=1)], {"text": 10})
    assert (found.value, found.low, found.high) == (20, 20, 20)


@pytest.mark.parametrize(("count", "places"), [(1, [0]), (2, [0, 1]), (3, [0, 2]), (10, [2, 7])])
def test_the_probe_takes_few_of_each_task(count: int, places: list[int]) -> None:
    samples = [SimpleNamespace(task=task, place=n) for n in range(count) for task in ("text", "page")]
    found: Any = _probe(samples)  # type: ignore[arg-type]
    assert [(one.task, one.place) for one in found] == [(t, n) for t in ("text", "page") for n in places]


def test_a_dry_run_leaves_nothing_and_says_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [
        "run",
        "--suite",
        "smoke",
        "--backend",
        "toy",
        "--where",
        "task=text",
        "--repeats",
        "3",
        "--dry-run",
    ]
    assert run_command_line([*words, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "smoke: 4 samples (4 text), 3 times each, 24 answers" in said
    assert "text 160" in said
    assert not list(tmp_path.iterdir())
    assert run_command_line([*words, "--quiet", "--shard", "2/2"]) == 0
    assert "12 answers" in capsys.readouterr().out
    assert run_command_line([*words, "--quiet", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document.pop("schema") == "gravbench.forecast/1"
    plan = Forecast.model_validate(document)
    assert (plan.probed, plan.answers, plan.arms) == (2, 24, ("ar", "selfspec"))
    assert 0 < plan.seconds.low <= plan.seconds.value <= plan.seconds.high
    assert plan.disk_bytes > 0
