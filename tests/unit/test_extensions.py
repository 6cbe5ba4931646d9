"""Somebody else's package adds a scorer, a suite and a backend without a line of ours being changed."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.errors import DataError, UsageError
from gravbench.registry import Registry
from gravbench.scorers.contract import SCORERS, metric_table, open_scorer
from gravbench.suites.manifest import list_suites, load_suite

SHIPPED = Path(__file__).resolve().parents[2] / "suites" / "data" / "crops-mini"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "little"
version = "0.1"
[project.entry-points."gravbench.scorers"]
words = "little:Words"
crops = "little:Words"
broken = "little.missing:Nothing"
[project.entry-points."gravbench.suites"]
little-crops = "little:MANIFEST"
[project.entry-points."gravbench.backends"]
parrot = "little:open_parrot"
"""
MODULE = """
from pathlib import Path

from gravbench.scorers.contract import Metric, Score, Scorer

MANIFEST = Path(__file__).parent / "little-crops.toml"


class Words(Scorer):
    name = "words"
    metrics = (
        Metric(name="same_words", label="words", direction="higher",
            definition="Share of words that are there.",
               signature="words|v:1", tasks=("text", "table", "formula")),
    )

    def score(self, sample, answers):
        wanted = str(sample.truth).split()
        return [[self._one(wanted, answer)] for answer in answers]

    def _one(self, wanted, answer):
        found = [] if answer.failed else answer.text.split()
        hits = sum(word in found for word in wanted)
        counts = {"hits": hits, "words": len(wanted)}
        return Score(metric="same_words", value=hits / len(wanted), counts=counts)


def open_parrot(model, *, device, dtype, threads, says: str = "polly", loud: bool = False):
    from gravbench.backends.toy import ToyBackend, ToyTable

    return ToyBackend(ToyTable(), name=f"parrot says {says}{'!' if loud else ''}")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The little package, built and installed by pip into a folder of its own."""
    project = tmp_path_factory.mktemp("little")
    package = project / "little"
    package.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(MODULE)
    write_suite(package / "little-crops.toml", scorer="words")
    target = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--target", str(target), str(project)], check=True, capture_output=True)
    return target


def write_suite(manifest: Path, *, scorer: str) -> Path:
    """A suite of one shipped crop beside its manifest."""
    data = manifest.parent / "data"
    data.mkdir()
    lines = (SHIPPED / "samples.jsonl").read_text().splitlines()
    sample = next(entry for entry in map(json.loads, lines) if entry["sample_id"] == "text-line-000")
    (data / "crop.png").write_bytes((SHIPPED / sample["image"]).read_bytes())
    text = json.dumps({**sample, "image": "crop.png"}) + "\n"
    (data / "samples.jsonl").write_text(text)
    manifest.write_text(
        f'name = "{manifest.stem}"\nversion = 1\ndescription = "d"\nkind = "crops"\nscorer = "{scorer}"\n'
        f'data = "data"\nannotation_sha256 = "{hashlib.sha256(text.encode()).hexdigest()}"\n'
        '[prompts]\ntext = "Text Recognition:"\n[max_new_tokens]\ntext = 160\n'
    )
    return manifest


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(site))


@pytest.mark.usefixtures("installed")
def test_a_scorer_of_another_package_is_found_and_cannot_take_a_name_of_ours() -> None:
    assert open_scorer("words").metrics[0].label == "words"
    assert type(open_scorer("crops")).__module__ == "gravbench.scorers.crops"
    with pytest.raises(UsageError, match="'broken' of package little does not load: ModuleNotFoundError"):
        open_scorer("broken")


@pytest.mark.usefixtures("installed")
def test_a_scorer_that_does_not_load_takes_no_metric_of_others_with_it() -> None:
    with pytest.warns(UserWarning, match="'broken' of package little does not load"):
        table = metric_table()
    assert {"same_words", "text_ned"} <= set(table)


@pytest.mark.usefixtures("installed")
def test_a_suite_of_another_package_is_found_by_its_name() -> None:
    suite = load_suite("little-crops")
    assert suite.scorers == ("words",)
    assert "little-crops" in {suite.name for suite in list_suites()}


def test_without_the_package_its_names_are_unknown(tmp_path: Path) -> None:
    assert "words" not in SCORERS
    assert "same_words" not in metric_table()
    with pytest.raises(UsageError, match="unknown suite 'little-crops'"):
        load_suite("little-crops")
    with pytest.raises(DataError, match=r"expected one of crops, .*omnidocbench-1\.6"):
        load_suite(write_suite(tmp_path / "own.toml", scorer="words"))


def test_a_backend_a_scorer_and_a_suite_of_another_package_make_a_run(site: Path, tmp_path: Path) -> None:
    words = ["run", "--suite", "little-crops", "--backend", "parrot:loud=yes", "--strategy", "ar", "--json"]
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join((environment["PYTHONPATH"], str(site)))
    done = subprocess.run(
        [sys.executable, "-m", "gravbench", *words, "--out", str(tmp_path / "r")],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert list(summary["strategies"]["ar"]["quality"]) == ["same_words"]
    assert summary["metrics"]["same_words"]["definition"] == "Share of words that are there."
    assert summary["model"]["model"] == "parrot says polly!"
    identity = json.loads((tmp_path / "r" / "manifest.json").read_text())["identity"]
    assert (identity["backend"], identity["scorer"]) == ("parrot:loud=yes", "words")


def test_a_name_of_the_table_is_loaded_without_asking_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gravbench.registry.entry_points", None)
    assert Registry("gravbench.scorers", {"own": "gravbench.errors:DataError"}).load("own") is DataError
