"""The shipped bench of olmOCR-Bench's kinds: built the same again, and scored the same by every way in."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gravbench.olmocr.document import ScoreOptions, run_scoring
from gravbench.runner.foreign_predictions import read_predictions
from gravbench.runner.imported_runs import import_arm
from gravbench.scorers.contract import Answer, open_scorer
from gravbench.suites.data import Selection, open_folder
from gravbench.suites.manifest import load_suite
from gravbench.workshop.olmocr_mini import build

pytest.importorskip("pypdfium2")
pytest.importorskip("py_mini_racer")

SUITE = load_suite("olmocr-mini")
FOLDER = Path(SUITE.manifest_path).parent / "data" / "olmocr-mini"
OPENED = open_folder(SUITE, FOLDER, cache=Path(), selection=Selection(), note=print)


def test_the_generator_writes_the_shipped_files_byte_by_byte(tmp_path: Path) -> None:
    digest = build(tmp_path)
    assert SUITE.pages is not None and digest == SUITE.pages.annotation_sha256
    written = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert written == {p.relative_to(FOLDER): p.read_bytes() for p in FOLDER.rglob("*") if p.is_file()}


def test_it_has_twelve_pages_and_tests_of_every_kind() -> None:
    tests = [json.loads(line) for path in FOLDER.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert len(OPENED.samples) == 12
    assert {test["type"] for test in tests} == {"present", "absent", "order", "table", "math", "baseline"}
    assert all(sample.fault is None and str(sample.image_path).endswith(".png") for sample in OPENED.samples)
    assert OPENED.data_label == "olmocr-mini (12 pages)"


@pytest.mark.parametrize(
    "repeats", [("spoiled",), ("reference", "spoiled"), ("spoiled", "reference", "spoiled")]
)
def test_suite_and_folder_give_the_same_numbers_and_the_same_official_interval(
    tmp_path: Path, repeats: tuple[str, ...]
) -> None:
    folder = tmp_path / "spoiled"
    folder.mkdir()
    for number, name in enumerate(repeats, start=1):
        for page in (FOLDER / name).iterdir():
            shutil.copy(page, folder / page.name.replace("_repeat1", f"_repeat{number}"))
    official = run_scoring(ScoreOptions(data=FOLDER, predictions=(folder,))).candidates[0]
    found = read_predictions(folder, [sample.sample_id for sample in OPENED.samples])
    assert found.repeats == len(repeats)
    done = import_arm(
        SUITE,
        OPENED,
        found,
        arm="spoiled",
        out=tmp_path / "run",
        source="spoiled",
        argv=(),
        environment={},
        now=datetime.now(UTC),
    )
    quality = done.summary.strategies["spoiled"].quality
    assert official.official.overall is not None and official.official.interval is not None
    assert quality["olmocr_overall"] == pytest.approx(100 * official.official.overall, abs=1e-12)
    for name, rate in official.official.categories.items():
        assert quality[f"olmocr_{name.removesuffix('.jsonl')}"] == rate.rate
    low, high = official.official.interval
    assert done.summary.remarks is not None
    assert f"{100 * low:.2f} to {100 * high:.2f}" in done.summary.remarks[0]
    failed = {test.id: test.detail for test in official.tests if not test.passed}
    noted = {note.element.split(" ", 1)[1]: note.reason for note in done.summary.score_notes}
    assert failed and set(noted) == set(failed)
    assert all(detail in noted[name] for name, detail in failed.items())


def test_a_test_passes_with_more_than_half_of_the_repeats_and_a_failed_page_passes_none() -> None:
    scorer = open_scorer("olmocr-bench-0.4.27")
    sample = next(sample for sample in OPENED.samples if sample.sample_id == "tiny_pg1")
    right = Answer((FOLDER / "reference" / "tiny_pg1_repeat1.md").read_text())
    rate = {
        name: {score.metric: score.value for score in scorer.score(sample, answers)[0]}["olmocr_tests"]
        for name, answers in {
            "one of two": (right, Answer("")),
            "two of three": (right, right, Answer("")),
            "failed": (Answer("", failed=True),),
        }.items()
    }
    assert rate == {"one of two": 0.0, "two of three": 1.0, "failed": 0.0}


def test_a_category_weighs_its_pages_by_their_tests() -> None:
    scorer = open_scorer("olmocr-bench-0.4.27")
    blank, table = (s for s in OPENED.samples if s.sample_id in ("blank_pg1", "table-1_pg1"))
    scores = [
        *scorer.score(blank, [Answer("")])[0],  # its one test passes
        *scorer.score(table, [Answer("no table")])[0],  # of four tests, one passes
    ]
    assert scorer.aggregate(scores)["olmocr_tests"] == 2 / 5
