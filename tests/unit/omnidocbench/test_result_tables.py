"""What people read of a result: tables by attribute, values of pages, files of the official program."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from omnidoc_support import block, page_object, write_benchmark
from typer.testing import CliRunner

from gravbench.cli.app import build_app
from gravbench.cli.omnidoc_output import report_notes
from gravbench.cli.omnidoc_report import ScoreOptions, run_scoring
from gravbench.errors import UsageError
from gravbench.omnidocbench import evaluation
from gravbench.omnidocbench.result_tables import (
    as_csv,
    as_markdown,
    attributes_of_result,
    leaderboard,
    official_files,
    page_table,
    tables_by,
)

TEXT = "amber river stone window compute lantern"
TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"
PAGES = [
    page_object(
        [block("text_block", TEXT, 1), block("table", TABLE, 2, attribute={"line": "full_line"})],
        "page_1.png",
        language="english",
        special_issue=["watermark", "None"],
    ),
    page_object([block("text_block", TEXT, 1)], "page_2.png", language="english"),
    page_object([block("text_block", TEXT, 1)], "exam_3.png", language="german"),
]
PREDICTIONS = {"page_1.md": f"{TEXT}\n\n{TABLE}", "page_2.md": "", "exam_3.md": TEXT}


def scored(folder: Path, **options: Any) -> dict[str, Any]:
    gt, pred = write_benchmark(folder, PAGES, PREDICTIONS)
    return run_scoring(ScoreOptions(gt, pred, 1, **options))


def test_a_table_by_a_page_attribute_holds_the_official_label_means(tmp_path: Path) -> None:
    document = scored(tmp_path)
    table = tables_by(document, "language")[0]
    assert [row[:3] for row in table.rows] == [("english", 2, 0.5), ("german", 1, 0.0)]
    assert tables_by(document, "special_issue")[0].rows[1][:2] == ("watermark", 1)
    assert as_markdown(table).splitlines()[4].startswith("| english | 2 | 0.5000 |")


def test_a_table_by_an_attribute_of_tables_counts_tables(tmp_path: Path) -> None:
    table = tables_by(scored(tmp_path), "line")[0]
    assert table.rows[0][:2] == ("full_line", 1)
    assert table.text[0][table.columns.index("TEDS")] == "1.0000"


def test_tables_of_several_attributes_are_one_csv_with_full_numbers(tmp_path: Path) -> None:
    found = omnidoc(
        tmp_path, PREDICTIONS, "--by", "language", "--by", "line", "--csv", str(tmp_path / "p.csv")
    )
    assert found.exit_code == 0
    rows = list(csv.DictReader((tmp_path / "p-by.csv").read_text(encoding="utf-8").splitlines()))
    values = {(r["of"], r["attribute"], r["value"], r["metric"]): (r["count"], r["mean"]) for r in rows}
    assert values["pages", "language", "english", "text edit"] == ("2", "0.5")
    assert values["pages", "language", "german", "TEDS"] == ("1", "")
    assert values["tables", "line", "full_line", "TEDS"] == ("1", "1.0")


def test_what_cannot_be_shown_or_written_is_refused_before_scoring(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    for words in (
        ("--by", "langauge"),
        ("--csv", str(tmp_path / "no" / "p.csv")),
        ("--markdown", str(tmp_path)),
    ):
        found = omnidoc(tmp_path, PREDICTIONS, *words, "--out", str(out))
        assert getattr(found.exception, "exit_code", found.exit_code) == 2
        assert not out.exists()


def test_long_values_and_numbers_are_shown_whole(tmp_path: Path) -> None:
    value = "a source with a rather long name of its own"
    page = page_object([block("text_block", TEXT, 1)], "page_1.png", data_source=value)
    gt, pred = write_benchmark(tmp_path, [page], {"page_1.md": TEXT[:-3]})
    words = ["omnidoc", "--gt", str(gt), "--predictions", str(pred), "--by", "data_source"]
    said = CliRunner().invoke(build_app(), words).output
    assert "…" not in said
    assert "0.0" in said
    assert all(word in said for word in value.split())


def test_an_unknown_attribute_names_the_known_ones(tmp_path: Path) -> None:
    document = scored(tmp_path)
    assert attributes_of_result(document) == ["language", "special_issue", "line"]
    with pytest.raises(UsageError) as error:
        tables_by(document, "langauge")
    assert "language, special_issue, line" in str(error.value.hint)


def test_values_of_pages_average_to_the_official_numbers(tmp_path: Path) -> None:
    document = scored(tmp_path)
    rows = list(csv.DictReader(io.StringIO(as_csv(page_table(document)))))
    values = [float(row["text_block_Edit_dist"]) for row in rows]
    assert sum(values) / 3 == document["text_block"]["all"]["Edit_dist"]["ALL_page_avg"]
    assert [row["table_TEDS"] for row in rows] == ["1.0", "", ""]


def test_a_leaderboard_row_shows_what_is_missing_as_a_dash(tmp_path: Path) -> None:
    row = leaderboard(scored(tmp_path), name="mine").rows[0]
    assert row[:3] == ("mine", "3", "-")


def test_official_files_have_the_official_names_and_keys(tmp_path: Path) -> None:
    files = official_files(scored(tmp_path), name="mine")
    assert files["mine_quick_match_table_per_table_TEDS.json"] == {"page_1.png_0": 1.0}
    assert set(files["mine_quick_match_metric_result.json"]["table"]) == {"all", "group", "page"}
    assert len(files["mine_quick_match_text_block_result.json"]) == 3


def test_pages_are_chosen_by_name_and_by_attribute(tmp_path: Path) -> None:
    assert list(scored(tmp_path, globs=("page_*",))["page_values"]) == ["page_1.png", "page_2.png"]
    document = scored(tmp_path, where={"language": "german"})
    assert list(document["page_values"]) == ["exam_3.png"]
    assert document["inputs"]["chosen"] == ["language=german"]
    assert list(scored(tmp_path, where={"special_issue": "watermark"})["page_values"]) == ["page_1.png"]
    with pytest.raises(UsageError, match="no page has this attribute"):
        scored(tmp_path, where={"langauge": "german"})
    with pytest.raises(UsageError, match="no page of 3 is left"):
        scored(tmp_path, globs=("nothing*",))


def omnidoc(folder: Path, predictions: dict[str, str], *options: str) -> Any:
    gt, pred = write_benchmark(folder, PAGES, predictions)
    command = ["omnidoc", "--gt", str(gt), "--predictions", str(pred), "--no-cdm", *options]
    return CliRunner().invoke(build_app(), command)


def test_missing_predictions_end_with_code_3_unless_allowed(tmp_path: Path) -> None:
    few = {"page_1.md": TEXT}
    (tmp_path / "one").mkdir()
    refused = omnidoc(tmp_path / "one", few)
    assert getattr(refused.exception, "exit_code", refused.exit_code) == 3
    (tmp_path / "two").mkdir()
    assert omnidoc(tmp_path / "two", few, "--max-errors", "0.7").exit_code == 0


def test_missing_pages_and_unused_files_are_named_with_what_is_near(tmp_path: Path) -> None:
    gt, pred = write_benchmark(tmp_path, PAGES, {"page_1.md": TEXT, "Page_2.md": TEXT})
    (pred / "exam_3" / "auto").mkdir(parents=True)
    (pred / "exam_3" / "auto" / "exam_3.md").write_text(TEXT)
    document = run_scoring(ScoreOptions(gt, pred, 1))
    assert document["nearest_files"] == {"page_2.png": "Page_2.md", "exam_3.png": "exam_3/auto/exam_3.md"}
    notes = " ".join(report_notes(document))
    assert "2 of 3 pages have no prediction" in notes
    assert "2 files belong to no page" in notes


def test_a_prediction_file_has_a_size_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "MAX_PREDICTION_BYTES", 10)
    document = scored(tmp_path)
    assert "expected at most 10" in document["crashed_predictions"]["page_1.png"]
    assert document["pages_not_scored_as_given"] == 2


def test_other_matching_methods_are_refused(tmp_path: Path) -> None:
    for method in ("no_split", "best_match"):
        found = omnidoc(tmp_path, PREDICTIONS, "--match", method)
        assert getattr(found.exception, "exit_code", found.exit_code) == 2


def test_simple_match_says_everywhere_that_nothing_verifies_it(tmp_path: Path) -> None:
    document = scored(tmp_path, match="simple_match")
    assert document["scorer"]["match_method"] == "simple_match (unverified)"
    assert all(
        "match:simple_match (unverified)" in text for text in document["scorer"]["signatures"].values()
    )
    assert any("simple_match (unverified): not comparable" in note for note in report_notes(document))
    assert not any("unverified" in note for note in report_notes(scored(tmp_path)))


def test_simple_match_joins_no_lines(tmp_path: Path) -> None:
    words = TEXT.split()
    pages = [page_object([block("text_block", TEXT, 1)], "page_1.png")]
    gt, pred = write_benchmark(
        tmp_path, pages, {"page_1.md": "\n\n".join([" ".join(words[:3]), " ".join(words[3:])])}
    )
    joined, alone = (
        run_scoring(ScoreOptions(gt, pred, 1, match=match))["text_block"]["all"]["Edit_dist"]["ALL_page_avg"]
        for match in ("quick_match", "simple_match")
    )
    assert joined == 0.0
    assert 0.4 < alone < 0.6


@pytest.mark.parametrize(("limit", "code"), [("70%", 0), ("2", 0), ("1", 3), ("nonsense", 2)])
def test_errors_are_allowed_as_a_share_or_a_number(tmp_path: Path, limit: str, code: int) -> None:
    found = omnidoc(tmp_path, {"page_1.md": TEXT}, "--max-errors", limit)
    assert getattr(found.exception, "exit_code", found.exit_code) == code


def test_files_are_written_on_request(tmp_path: Path) -> None:
    markdown, table, official = tmp_path / "r.md", tmp_path / "r.csv", tmp_path / "official"
    options = [
        "--by",
        "language",
        "--markdown",
        str(markdown),
        "--csv",
        str(table),
        "--official",
        str(official),
    ]
    assert omnidoc(tmp_path, PREDICTIONS, *options).exit_code == 0
    assert "pages by language" in markdown.read_text()
    assert len(table.read_text().splitlines()) == 4
    assert json.loads((official / "pred_quick_match_run_summary.json").read_bytes())["overall_missing"]
