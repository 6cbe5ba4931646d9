"""A wheel carries its suites and its model, and runs outside the source tree."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("gravbench-*.whl")
    return built


def test_the_wheel_holds_suites_references_and_the_model(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert "gravbench/_data/suites/crops-mini.toml" in names
    assert "gravbench/models/gravity-tiny/model.safetensors" in names
    assert "gravbench/py.typed" in names
    assert not [n for n in names if n.startswith("tests/") or "__pycache__" in n]


def test_the_installed_wheel_runs_the_main_job(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(site),
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    job = [sys.executable, "-P", "-m", "gravbench", "run", "--suite", "crops-mini", "--limit", "3", "--json"]
    env = {**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        job, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["schema"] == "gravbench.summary/1"
    assert summary["n_samples"] == 3
    assert summary["strategies"]["selfspec"]["identical_to_ar"]["share"] == 1.0
