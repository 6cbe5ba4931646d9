"""Two results of `gravbench omnidoc` are compared by what compares runs, and shown by what shows them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from page_support import det, entry, write_folder

import gravbench
from gravbench.cli.app import run_command_line
from gravbench.cli.report_command import write_report
from gravbench.omnidocbench.result_file import read_result
from gravbench.reporting.breakdown import group_table
from gravbench.reporting.verdicts import headline

TABLE = "<table><tr><td>one</td><td>two</td></tr></table>"
QUICK = ("--resamples", "200")


def bench_pages() -> list[dict[str, Any]]:
    """Six pages of text, four of them with a table; no formula, so that nothing is rendered."""
    pages = []
    for n in range(6):
        blocks = [det("title", 0), det("text_block", 1, text=f"some plain words of page {n}")]
        if n < 4:
            line = "full_line" if n % 2 else "less_line"
            blocks.append(det("table", 2, html=TABLE, attribute={"line": line, "with_span": n == 0}))
        language = "english" if n < 3 else "german"
        issues = [["None"], ["fuzzy_scan", "table_full_line"], ["fuzzy_scan", "watermark"]][n % 3]
        pages.append(entry(f"page-{n}.png", blocks, subset="v1.5", language=language, special_issue=issues))
    return pages


def markdown(n: int, words: str, cell: str) -> str:
    text = f"# words 0\n\n{words} of page {n}"
    return f"{text}\n\n{TABLE.replace('two', cell)}" if n < 4 else text


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """`a` and `b`: two engines' folders, the second worse; `a.json` and `b.json`: their results."""
    write_folder(tmp_path / "data", bench_pages())
    for name, words, cell in (("a", "some plain words", "two"), ("b", "some plan word", "tow")):
        (tmp_path / name).mkdir()
        for n in range(6):
            text = markdown(n, words, cell) if n % 2 else markdown(n, "some plain words", "two")
            (tmp_path / name / f"page-{n}.md").write_text(text)
    score(tmp_path, "a")
    score(tmp_path, "b")
    return tmp_path


def score(bench: Path, name: str, *more: str) -> None:
    words = ["omnidoc", "--gt", str(bench / "data" / "OmniDocBench.json"), "--predictions", str(bench / name)]
    assert run_command_line([*words, "--out", str(bench / f"{name}.json"), "--max-errors", "9", *more]) == 0


def edited(bench: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of a result, changed."""
    document = json.loads((bench / f"{name}.json").read_bytes())
    change(document)
    path = bench / f"{name}-edited.json"
    path.write_text(json.dumps(document))
    return path


def compared(bench: Path, a: str | Path, b: str | Path, *more: str) -> int:
    return run_command_line(["compare", str(bench / a), str(bench / b), *QUICK, *more])


def test_results_and_imports_of_the_same_folders_agree_digit_by_digit(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bench / "b" / "page-5.md").unlink()
    score(bench, "b")
    run = bench / "run"
    for name in ("a", "b"):
        words = ["import", "--suite", "omnidoc16", "--data", str(bench / "data"), "--arm", name]
        words += ["--predictions", str(bench / name), "--out", str(run), "--max-errors", "9", "--json"]
        assert run_command_line(words) == 0
    capsys.readouterr()
    assert run_command_line(["compare", str(run), *QUICK, "--json", "--max-errors", "9"]) == 0
    imported = json.loads(capsys.readouterr().out)["base"]
    assert compared(bench, "a.json", "b.json", "--json", "--max-errors", "9") == 0
    results = json.loads(capsys.readouterr().out)["base"]
    for first, second in zip(imported["arms"], results["arms"], strict=True):
        assert first["quality"] == second["quality"]
        assert first.get("identity") == second.get("identity")
        of_pages = [group for group in second["groups"] if " of " not in group["kind"]]
        assert first["groups"] == of_pages
    assert results["arms"][1]["quality"]["table_TEDS"]["changed"] == 2
    assert results["arms"][1]["failed"] == 1


def test_differences_by_attributes_of_pages_and_of_elements_are_the_official_group_means(bench: Path) -> None:
    found = gravbench.compare(bench / "a.json", bench / "b.json", resamples=200)
    groups = {(g.kind, g.label): g for g in found.base.arms[1].groups}
    documents = [json.loads((bench / f"{name}.json").read_bytes()) for name in ("a", "b")]
    for label in ("english", "german"):
        d = groups["language", label].quality["text_block_Edit_dist"]
        edits = [doc["text_block"]["page"]["Edit_dist"][f"language: {label}"] for doc in documents]
        assert d.base == pytest.approx(100 * (1 - edits[0]), abs=1e-9)
        assert d.own == pytest.approx(100 * (1 - edits[1]), abs=1e-9)
    assert {label for kind, label in groups if kind == "special_issue"} == {"None", "fuzzy_scan", "watermark"}
    assert groups["special_issue", "fuzzy_scan"].n == 4
    d = groups["special_issue", "fuzzy_scan"].quality["text_block_Edit_dist"]
    assert d.own == pytest.approx(100 * (1 - documents[1]["text_block"]["page"]["Edit_dist"]["fuzzy_scan"]))
    for label in ("full_line", "less_line"):
        d = groups["line of tables", label].quality["table_TEDS"]
        means = [doc["table"]["group"]["TEDS"][f"line: {label}"] for doc in documents]
        assert (d.base, d.own) == pytest.approx((100 * means[0], 100 * means[1]), abs=1e-9)
    assert groups["line of tables", "less_line"].quality["table_TEDS"].changed == 0


def test_the_terminal_shows_every_metric_of_each_value_of_an_attribute(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert compared(bench, "a.json", "b.json", "--by", "line", "--by", "language") == 0
    said = capsys.readouterr().out
    assert "b: same text as a on 3 of 6 samples" in said
    assert "line of tables: full_line" in said
    assert "language: german" in said
    assert "tpf_all" not in said
    assert compared(bench, "a.json", "b.json", "--by", "langauge") == 2
    assert "language" in capsys.readouterr().err


def test_another_signature_is_refused_by_name(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score(bench, "b", "--match", "simple_match")
    assert compared(bench, "a.json", "b.json", "--force") == 3
    said = capsys.readouterr().err
    assert "another signature in" in said
    assert "simple_match (unverified)" in said


def test_other_pages_are_refused_by_name_and_their_common_ones_compared_by_force(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    score(bench, "b", "--pages", "page-[0-4].png")
    assert compared(bench, "a.json", "b.json") == 3
    assert "1 pages of a.json are missing in b.json: page-5" in capsys.readouterr().err
    assert compared(bench, "a.json", "b.json", "--force") == 0
    said = capsys.readouterr().out
    assert "NOT COMPARABLE (forced)" in said
    assert "5 samples" in said


def test_another_ground_truth_is_refused_by_page(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def change(document: dict[str, Any]) -> None:
        document["page_records"][2]["facts"]["reference_sha256"] = "0" * 64

    assert compared(bench, "a.json", edited(bench, "b", change)) == 3
    assert "another ground truth" in (said := capsys.readouterr().err)
    assert "page-2" in said


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (lambda d: d.update(schema="gravbench.omnidoc/1"), 3, "written by another version"),
        (lambda d: d.update(schema="gravbench.run/2"), 5, "schema is 'gravbench.run/2'"),
        (lambda d: d.pop("page_records"), 5, "page_records"),
        (lambda d: d["page_records"][0].update(colour=1), 5, "page_records.0.colour"),
    ],
)
def test_what_is_no_result_of_this_version_is_refused(
    bench: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    code: int,
    words: str,
) -> None:
    assert compared(bench, "a.json", edited(bench, "b", change)) == code
    assert words in capsys.readouterr().err


def test_a_result_and_a_run_and_options_of_runs_are_refused(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(bench, "a.json", "a") == 2
    assert "is a result of gravbench omnidoc" in capsys.readouterr().err
    assert compared(bench, "a.json", "b.json", "--referee", "gravity-tiny") == 2
    assert run_command_line(["compare", str(bench / "a.json")]) == 2
    assert "name the second" in capsys.readouterr().err


def test_the_report_has_the_pages_with_picture_truth_and_both_texts(bench: Path) -> None:
    page = bench / "report.html"
    words = ["report", str(bench / "a.json"), str(bench / "b.json"), "--out", str(page), *QUICK]
    assert run_command_line([*words, "--data", str(bench / "data"), "--json"]) == 0
    paths = (bench / "a.json", bench / "b.json")
    document, _ = write_report(paths, out=page, data=bench / "data", resamples=200, seed=0)
    heat = group_table("b", document.runs[0].analysis.arms[1])
    assert heat is not None
    assert ["line of tables: full_line", "TEDS"] in [[cell.text for cell in row[:2]] for row in heat.rows]
    assert headline(document).startswith("b against a: ")
    assert not [
        caution for caution in document.runs[0].cautions if "resumed" in caution or "excuse" in caution
    ]
    sample = document.gallery[1]
    assert str(sample.image).startswith("data:image/webp")
    assert [answer.arm for answer in sample.answers] == ["a", "b"]
    assert "some plan word" in sample.answers[1].text
    assert sample.reference is not None
    assert "some plain words" in sample.reference


def test_pictures_of_other_pages_are_refused(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = bench_pages()
    pages[3]["layout_dets"][0]["text"] = "another title"
    write_folder(bench / "data", pages)
    words = ["report", str(bench / "a.json"), "--out", str(bench / "r.html"), "--data", str(bench / "data")]
    assert run_command_line(words) == 3
    assert "page-3 is annotated otherwise" in capsys.readouterr().err


def test_json_on_standard_output_compares_as_well(bench: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = ["omnidoc", "--gt", str(bench / "data" / "OmniDocBench.json"), "--predictions", str(bench / "a")]
    assert run_command_line([*words, "--json"]) == 0
    (bench / "out.json").write_text(capsys.readouterr().out)
    assert read_result(bench / "out.json") == read_result(bench / "a.json")
