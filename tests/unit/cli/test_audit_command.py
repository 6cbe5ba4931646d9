"""`gravbench audit` on a run of the toy: kept in the run folder, 1 where a token is not its prefix's own."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from gravbench.analysis.certificate import FILE, stored_certificates
from gravbench.cli.app import run_command_line
from gravbench.store.rundir import RunDirectory


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audited") / "run"
    command = ["run", "--suite", "smoke", "--where", "task=text", "--limit", "4", "--backend", "toy"]
    assert run_command_line([*command, "--out", str(folder), "--quiet"]) == 0
    return folder


def test_an_honest_run_passes_and_a_changed_token_is_named(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["audit", str(made), "--json"]) == 0
    document = orjson.loads(capsys.readouterr().out)
    assert [own["arm"] for own in document["arms"]] == ["ar", "selfspec"]
    assert all(own["tokens"] == own["argmax"] > 0 and own["share"] == 1 for own in document["arms"])
    run = RunDirectory(made)
    found, stale = stored_certificates(made, run.generations())
    assert found is not None and stale is None and found.violations == 0
    assert run_command_line(["compare", str(made)]) == 0
    assert "are the argmax of their own prefix" in " ".join(capsys.readouterr().out.split())
    path = made / "gen" / "000.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    changed = next(line for line in lines if line["arm"] == "selfspec")
    ids = changed["pieces"][0]["token_ids"]
    ids[4] += 1
    path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_SORT_KEYS) + b"\n" for line in lines))
    found, stale = stored_certificates(made, run.generations())
    assert found is None and stale is not None and FILE in stale
    assert run_command_line(["audit", str(made), "--strategy", "selfspec"]) == 1
    told = capsys.readouterr().out
    assert f"{changed['sample_id']}: token 4 (" in told and f"calls for {ids[4] - 1}" in told
    assert run_command_line(["audit", str(made), "--strategy", "ar"]) == 0


def test_strategies_that_promise_nothing_are_refused(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["audit", str(made), "--strategy", "tree"]) == 2
    assert "not in this run" in capsys.readouterr().err
