"""`run -> score -> export` through the command line, on the shipped smoke suite and the toy backend."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.analysis.summary import Summary
from gravbench.backends.toy import ToyBackend
from gravbench.cli.app import run_command_line
from gravbench.records import DecodeConfig, Generation, Request

RUN = ["run", "--suite", "smoke", "--backend", "toy"]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def exported(folder: str | Path) -> bytes:
    assert run_command_line(["export", str(folder), "--clockless", "--out", "export.jsonl"]) == 0
    return Path("export.jsonl").read_bytes()


def command(*arguments: str, limit_bytes: int | None = None) -> subprocess.Popen[bytes]:
    """The command in its own process, optionally on a disk that takes only `limit_bytes` a file.

    It can be interrupted wherever the tests run: a shell's background job hands down an ignored SIGINT.
    """
    limit = (
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes}, {limit_bytes}));" if limit_bytes else ""
    )
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"import resource, signal; {heard}; {limit} from gravbench.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
    )


def wait_until_it_writes(worker: subprocess.Popen[bytes], shard: Path) -> None:
    """Until the run has written more records than are there now, or has ended."""
    size = shard.stat().st_size if shard.exists() else 0
    while worker.poll() is None and (not shard.exists() or shard.stat().st_size == size):
        time.sleep(0.005)


def test_main_job_prints_the_table(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(RUN) == 0
    captured = capfd.readouterr()
    assert "14/14 (100.0%)" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 100
    assert "28 of 28 generations" in captured.err


def test_json_is_one_document_of_the_contract(capfd: pytest.CaptureFixture[str]) -> None:
    spec = "selfspec:block=16"
    assert (
        run_command_line([*RUN, "--strategy", "ar", "--strategy", spec, "--json", "--quiet", "--out", "r"])
        == 0
    )
    captured = capfd.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert json.loads(Path("r/summary.json").read_text()) == document
    assert (document["schema"], document["suite"], document["n_samples"]) == (
        "gravbench.summary/1",
        "smoke",
        14,
    )
    assert set(document["strategies"]) == {"ar", spec}
    for strategy in document["strategies"].values():
        assert {"text_ned", "table_teds", "formula_ned", "text_block_Edit_dist"} <= set(strategy["quality"])
        assert {"tpf_all", "accepted_draft", "tau_round", "rounds", "tokens_out"} <= set(strategy["counters"])
        assert strategy["failed"] == 0
    arm = document["strategies"][spec]
    assert arm["identical_to_ar"]["n"] == 14
    assert arm["identical_to_ar"]["share"] == 1.0
    for kind in ("decode", "request"):
        speedup = arm["speedup"][kind]
        assert speedup["low"] <= speedup["value"] <= speedup["high"]
    assert set(arm["speedup"]["page"]) == {"value", "n_pairs", "base_ns", "own_ns"}  # of two pages: no limits
    assert "speedup" not in document["strategies"]["ar"]
    assert Summary.model_validate(document).strategies[spec].counters.rounds > 0


def test_scoring_again_changes_no_byte_and_loads_no_torch() -> None:
    assert run_command_line([*RUN, "--out", "r", "--quiet"]) == 0
    before = exported("r")
    summary = Path("r/summary.json").read_bytes()
    shutil.rmtree("r/score")
    Path("r/summary.json").unlink()
    script = (
        "import sys; from gravbench.cli.app import run_command_line as run; "
        "code = run(['score', 'r']); assert not {'torch', 'transformers', 'pandas'} & set(sys.modules); "
        "sys.exit(code)"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, env=child_environment()
    )
    assert exported("r") == before
    assert Path("r/summary.json").read_bytes() == summary


def test_killed_command_repeated_ends_in_the_same_bytes() -> None:
    job = ["run", "--suite", "crops-mini", "--limit", "40", "--backend", "toy", "--quiet", "--out"]
    assert run_command_line([*job, "calm"]) == 0
    worker = command(*job, "hunted")
    wait_until_it_writes(worker, Path("hunted/gen/000.jsonl"))
    worker.kill()
    worker.communicate()
    assert worker.returncode == -signal.SIGKILL
    assert 0 < Path("hunted/gen/000.jsonl").read_bytes().count(b"\n") < 80
    assert run_command_line([*job, "hunted"]) == 0
    assert exported("hunted") == exported("calm")


def test_interrupt_exits_130_with_the_command_that_continues() -> None:
    worker = command(*RUN, "--suite", "crops-mini", "--out", "r", "--fresh")
    wait_until_it_writes(worker, Path("r/gen/000.jsonl"))
    worker.send_signal(signal.SIGINT)
    _, stderr = worker.communicate()
    assert worker.returncode == 130
    assert b"continue with: gravbench run --suite crops-mini --backend toy --out r" in stderr
    assert b"Traceback" not in stderr
    assert json.loads(Path("r/state.json").read_text())["phase"] == "interrupted"


def test_full_disk_exits_4_and_the_same_command_continues() -> None:
    assert run_command_line([*RUN, "--out", "calm", "--quiet"]) == 0
    worker = command(*RUN, "--out", "r", "--quiet", limit_bytes=12_000)
    _, stderr = worker.communicate()
    assert worker.returncode == 4, stderr
    assert b"while writing; everything written before is kept" in stderr
    assert stderr.count(b"\n") == 2
    assert Path("r/gen/000.jsonl").read_bytes().endswith(b"}\n")
    assert run_command_line([*RUN, "--out", "r", "--quiet"]) == 0
    assert exported("r") == exported("calm")


def test_environment_variables_change_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_command_line([*RUN, "--out", "plain", "--quiet"]) == 0
    monkeypatch.setenv("GRAVBENCH_DATA", "/nowhere")
    monkeypatch.setenv("GRAVBENCH_SEED", "7")
    monkeypatch.setenv("HF_HOME", "/nowhere")
    assert run_command_line([*RUN, "--out", "loud", "--quiet"]) == 0
    assert exported("plain") == exported("loud")
    recorded = json.loads(Path("loud/manifest.json").read_text())["environment"]["variables"]
    assert recorded["GRAVBENCH_DATA"] == recorded["HF_HOME"] == "/nowhere"


def test_failed_samples_beyond_the_limit_exit_3_with_results(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = ToyBackend.generate

    def sometimes(self: ToyBackend, request: Request, decode: DecodeConfig) -> Generation:
        if request.sample_id == "table-000":
            raise RuntimeError("unlucky")
        return real(self, request, decode)

    monkeypatch.setattr(ToyBackend, "generate", sometimes)
    assert run_command_line([*RUN, "--out", "r", "--json"]) == 3
    captured = capfd.readouterr()
    document = json.loads(captured.out)
    assert document["strategies"]["ar"]["failed"] == 1
    assert "error: 1 of 14 samples failed, more than --max-errors 1% allows" in captured.err
    assert run_command_line([*RUN, "--out", "r", "--quiet", "--max-errors", "1"]) == 0


def test_second_run_into_one_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*RUN, "--out", "r", "--quiet"]) == 0
    assert run_command_line([*RUN, "--out", "r", "--quiet", "--seed", "1"]) == 2
    assert "another plan; seed: 1 here, 0 in the folder" in capsys.readouterr().err


def test_unfinished_run_can_be_neither_scored_nor_exported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = ToyBackend.generate, []

    def stop(self: ToyBackend, request: Request, decode: DecodeConfig) -> Generation:
        calls.append(request)
        if len(calls) == 15:
            raise KeyboardInterrupt
        return real(self, request, decode)

    monkeypatch.setattr(ToyBackend, "generate", stop)
    assert run_command_line([*RUN, "--out", "r", "--quiet"]) == 130
    for verb in (["score", "r"], ["export", "r", "--clockless"]):
        assert run_command_line(verb) == 3
        assert "incomplete" in capsys.readouterr().err


def test_output_that_cannot_be_written_exits_4() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gravbench", "suites", "list", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            env=child_environment(),
        )
    assert done.returncode == 4
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_doctor_says_what_is_there(capfd: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["doctor", "--json", "--model", "nowhere"])
    document = json.loads(capfd.readouterr().out)
    status = {check["name"]: check["status"] for check in document["checks"]}
    assert code == 4
    assert not document["ok"]
    assert status["model"] == "fail"
    assert status["suite crops-mini"] == status["suite smoke"] == "ok"
    assert not any(name.startswith(".gravbench-doctor") for name in (path.name for path in Path().iterdir()))


def test_suites_show_counts_tasks(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["suites", "show", "crops-mini", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["tasks"] == {"text": 120, "table": 60, "formula": 60}


def test_a_run_without_pages_speaks_of_no_page_data(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*RUN, "--limit", "3", "--json"]) == 0
    assert "data" not in json.loads(capfd.readouterr().out)
    assert run_command_line([*RUN, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["data"]["pages_in_run"] == 2


def test_doctor_names_what_converts_latex_tables_where_it_is_missing(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    run_command_line(["doctor", "--json", "--model", "nowhere"])
    checks = {check["name"]: check for check in json.loads(capfd.readouterr().out)["checks"]}
    assert checks["latex tables"]["status"] == "warn"
    assert "latexmlc" in checks["latex tables"]["message"]
    assert checks["latex tables"]["hint"] == "apt-get install latexml"
