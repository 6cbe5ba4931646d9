from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omnidoc_cases import GOLDEN
from omnidoc_support import block, page_object, write_benchmark

from gravbench import processes
from gravbench.cli.omnidoc_output import report_notes, report_title, write_result
from gravbench.cli.omnidoc_report import ScoreOptions, run_scoring
from gravbench.errors import DataError, UsageError
from gravbench.omnidocbench.document import encode
from gravbench.omnidocbench.evaluation import locate, names_tried, score_pages
from gravbench.omnidocbench.ground_truth import read_annotations, read_pages
from gravbench.suites.manifest import load_suite
from gravbench.suites.page_folder import name_of_copy

TEXT = "amber river stone window compute lantern"
PAGE = page_object([block("text_block", TEXT, 1)], "page_1.png", language="english")


def _score(folder: Path, pages: list[dict], predictions: dict[str, str]) -> dict:
    gt, pred = write_benchmark(folder, pages, predictions)
    return run_scoring(ScoreOptions(gt, pred, 1))


def test_the_title_is_the_release_only_for_all_of_its_pages(tmp_path: Path) -> None:
    page = page_object([block("text_block", TEXT, 1)], "notes_1.png", language="english")
    document = _score(tmp_path, [page], {"notes_1.md": TEXT})
    assert report_title(document).startswith("partial copy of OmniDocBench v1.6: 1 of 1,651 pages")
    assert document["data"]["partial"] is True
    pages = load_suite("omnidoc16").pages
    assert pages is not None
    whole = name_of_copy(pages, [page] * 1651, pages.annotation_sha256, folder=tmp_path)
    assert (whole.label, whole.partial) == ("OmniDocBench v1.6 (1,651 pages)", False)
    changed = name_of_copy(pages, [page] * 1651, "0" * 64, folder=tmp_path)
    assert changed.label.startswith("changed copy of OmniDocBench v1.6: 1,651 pages")


def test_own_pages_are_titled_by_their_folder(tmp_path: Path) -> None:
    document = _score(tmp_path, [PAGE], {"page_1.md": TEXT})
    assert report_title(document).startswith(f"pages of {tmp_path.name} (1 page)")


def test_the_document_holds_official_names_denominators_and_missing_pages(tmp_path: Path) -> None:
    second = page_object([block("text_block", TEXT, 1)], "page_2.png", language="english")
    document = _score(tmp_path, [PAGE, second], {"page_1.md": TEXT})
    assert document["text_block"]["all"]["Edit_dist"]["ALL_page_avg"] == 0.5
    assert document["text_block"]["page"]["Edit_dist"] == {"ALL": 0.5, "language: english": 0.5}
    assert document["page_denominators"]["text_block"] == {"Edit_dist": 2}
    assert document["pages_without_prediction"] == ["page_2.png"]
    assert document["table"]["all"]["Edit_dist"] == {"ALL_page_avg": "NaN"}
    assert document["summary"]["overall_notebook"] is None
    assert "table.TEDS" in document["summary"]["overall_missing"]
    assert report_notes(document)[0].startswith("No Overall")
    assert json.loads(encode(document)) == document


@pytest.mark.parametrize("image", ["a.pdf_1.jpg", "b.png"])
def test_predictions_are_looked_for_under_the_official_names(image: str, tmp_path: Path) -> None:
    pages = read_pages([page_object([block("text_block", TEXT, 1)], image)], source="gt")
    tried = names_tried(image)
    for index in reversed(range(len(tried))):
        (tmp_path / tried[index]).write_text("x")
        assert locate(tmp_path, pages) == [tmp_path / tried[index]]


def test_names_keep_pdf_first_and_drop_it_then() -> None:
    assert names_tried("a.pdf_1.jpg") == ("a.pdf_1.md", "a_1.mmd", "a_1.md", "a.pdf_1.jpg.md")


def test_a_folder_that_answers_no_page_names_what_it_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"looked for page_1\.md, page_1\.mmd, page_1\.png\.md.*other\.md"):
        _score(tmp_path, [PAGE], {"other.md": TEXT})


def test_missing_and_empty_folders_are_data_faults(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no files"):
        _score(tmp_path, [PAGE], {})
    with pytest.raises(DataError, match="no such folder"):
        run_scoring(ScoreOptions(tmp_path / "gt.json", tmp_path / "absent", 1))


def test_a_file_that_is_not_utf8_scores_as_empty_with_the_reason(tmp_path: Path) -> None:
    gt, pred = write_benchmark(tmp_path, [PAGE], {})
    (pred / "page_1.md").write_bytes(TEXT.encode() + b"\xff\xfe")
    document = run_scoring(ScoreOptions(gt, pred, 1))
    assert document["text_block"]["all"]["Edit_dist"]["ALL_page_avg"] == 1.0
    assert "not UTF-8" in document["crashed_predictions"]["page_1.png"]


def test_lone_surrogates_reach_the_file_as_json_escapes(tmp_path: Path) -> None:
    document = _score(tmp_path, [page_object([block("text_block", TEXT + "\ud800", 1)])], {"page_1.md": TEXT})
    write_result(tmp_path / "out.json", document)
    assert json.loads((tmp_path / "out.json").read_bytes()) == document


def test_an_unwritable_result_is_refused_before_scoring(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--out"):
        write_result(tmp_path / "absent" / "out.json", None)


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_jobs_do_not_change_results(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_start_method", lambda: start_method)
    gt = read_pages(read_annotations(GOLDEN / "pages" / "gt.json"), source="gt")
    pages = [page for _ in range(4) for page in gt]
    one = score_pages(pages, [None] * len(pages), jobs=1)
    assert score_pages(pages, [None] * len(pages), jobs=2) == one


SCRIPT = """
import hashlib, json, sys
from pathlib import Path
from gravbench.omnidocbench.verification import score_run
from gravbench.omnidocbench.ground_truth import read_annotations, read_pages
folder = Path(sys.argv[1])
pages = read_pages(read_annotations(folder / "gt.json"), source="gt")
runs = [json.loads((folder / "pred" / f"{run}.json").read_bytes()) for run in sys.argv[2:]]
found = [score_run(pages, run, None) for run in runs]
print(hashlib.sha256(json.dumps(found).encode()).hexdigest())
"""


def test_hash_seeds_do_not_change_results() -> None:
    digests = set()
    for seed in ("0", "1", "2024"):
        command = [sys.executable, "-c", SCRIPT, str(GOLDEN / "pages"), "formula_damage", "swap_order"]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        digests.add(
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        )
    assert len(digests) == 1
    assert "" not in digests


def test_scoring_imports_no_model_stack() -> None:
    models = "[m for m in ('torch', 'transformers') if m in sys.modules]"
    code = f"import gravbench.cli.omnidoc_report, sys; print({models})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
