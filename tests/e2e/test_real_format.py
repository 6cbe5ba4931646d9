"""Faults of checkpoints and images through the command line, on a small random checkpoint."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

import pytest

from gravbench.cli.app import run_command_line
from gravbench.resources import data_root
from gravbench.workshop.training.checkpoints import MICRO, write_initial_checkpoint

JOB = ["run", "--suite", "smoke", "--quiet", "--out", "r", "--model"]


@pytest.fixture(scope="module")
def micro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "micro"
    write_initial_checkpoint(folder, shape=MICRO)
    return folder


@pytest.fixture
def checkpoint(micro: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to break, in the folder the test runs in."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(micro, tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_half_a_checkpoint_names_the_missing_file(
    checkpoint: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / name).unlink()
    assert run_command_line([*JOB, str(checkpoint)]) == 4
    assert name in capsys.readouterr().err.splitlines()[0]
    assert not Path("r/manifest.json").exists()


def test_selfspec_without_its_file_is_refused_and_ar_runs(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkpoint / "block_diffusion.json").unlink()
    assert run_command_line([*JOB, str(checkpoint), "--limit", "3"]) == 2
    assert "block_diffusion.json" in capsys.readouterr().err.splitlines()[0]
    assert run_command_line([*JOB, str(checkpoint), "--limit", "3", "--strategy", "ar"]) == 0


def test_wrong_mask_id_runs_and_is_called_out(checkpoint: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = checkpoint / "block_diffusion.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text("utf-8")), "mask_id": 17}), "utf-8")
    assert run_command_line([*JOB, str(checkpoint), "--limit", "3", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["strategies"]["selfspec"]["identical_to_ar"]["share"] == 1.0
    assert any("mask_id is 17" in text and "at its floor" in text for text in document["warnings"])


def test_image_that_does_not_decode_is_a_failed_sample(
    checkpoint: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(data_root("suites"), "suites")
    data = Path("suites/data/crops-mini")
    lines = [json.loads(line) for line in (data / "samples.jsonl").read_text("utf-8").splitlines()]
    for line in lines:
        if line["sample_id"] == "table-000":
            (data / line["image"]).write_bytes(b"no image")
            line["image_sha256"] = hashlib.sha256(b"no image").hexdigest()
    annotations = "".join(json.dumps(line) + "\n" for line in lines).encode()
    (data / "samples.jsonl").write_bytes(annotations)
    manifest = Path("suites/smoke.toml")
    digest = hashlib.sha256(annotations).hexdigest()
    stated = re.sub(r'(?<=annotation_sha256 = ")\w+', digest, manifest.read_text("utf-8"), count=1)
    manifest.write_text(stated, "utf-8")
    arguments = ["run", "--suite", str(manifest), "--out", "r", "--model", str(checkpoint), "--json"]
    assert run_command_line(arguments) == 3
    captured = capfd.readouterr()
    document = json.loads(captured.out)
    for strategy in document["strategies"].values():
        assert (strategy["failed"], strategy["n_samples"], strategy["counters"]["samples"]) == (1, 14, 13)
    assert document["strategies"]["selfspec"]["identical_to_ar"]["of"] == 13
    assert "table-000.png" in Path("r/gen/000.jsonl").read_text("utf-8")
    assert "Traceback" not in captured.err
    assert run_command_line(["score", "r", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["failed_samples"] == 1
