"""Pages with Markdown as truth: read by a layout, matched as OmniDocBench matches, under other names."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gravbench.cli.app import run_command_line
from gravbench.errors import DataError
from gravbench.omnidocbench.page_metrics import MARKDOWN_METRICS, METRICS
from gravbench.scorers.contract import Answer, open_scorer
from gravbench.suites.data import Selection, open_folder
from gravbench.suites.manifest import load_suite
from gravbench.suites.own_crops import MadeSuite, Making
from gravbench.suites.own_pages import make_page_suite
from gravbench.suites.status import verify_suite

PAGE = """# A title of the page

Some words before, with $x^2$ inside a line.

| a | b |
|---|---|
| one | two |

Words between the tables.

<table><tr><td>three</td><td>four</td></tr></table>

$$
\\frac{a}{b} = c
$$

Words at the end.
"""


def folder_with(tmp_path: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        page = Image.new("L", (160, 80), 255)
        page.paste(0, (20, 30, 140, 42))
        page.save(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.md").write_text(text)
    return tmp_path


def made(folder: Path, **how: Any) -> MadeSuite:
    making = Making(name="ours", out=folder / "ours")
    return make_page_suite(folder, making, **{"truth": None, "encoding": "utf-8", "dpi": 72} | how)


def samples(suite: MadeSuite, tmp_path: Path) -> tuple[Any, ...]:
    loaded = load_suite(suite.manifest)
    opened = open_folder(
        loaded, suite.manifest.parent / "data", cache=tmp_path, selection=Selection(), note=lambda _: None
    )
    return opened.samples


def test_the_truth_is_cut_into_blocks_in_the_order_of_the_file(tmp_path: Path) -> None:
    suite = made(folder_with(tmp_path, {"a": PAGE}))
    (page,) = json.loads((suite.manifest.parent / "data" / "OmniDocBench.json").read_text())
    blocks = [(block["category_type"], block["order"]) for block in page["layout_dets"]]
    kinds = ["text_block", "text_block", "table", "text_block", "table", "equation_isolated", "text_block"]
    assert blocks == [(kind, number) for number, kind in enumerate(kinds, start=1)]
    assert "one" in page["layout_dets"][2]["html"]
    assert "three" in page["layout_dets"][4]["html"]
    assert verify_suite(load_suite(suite.manifest), suite.manifest.parent / "data").ok


def test_the_truth_itself_scores_best_and_every_fault_costs_its_own_metric(tmp_path: Path) -> None:
    (sample,) = samples(made(folder_with(tmp_path, {"a": PAGE})), tmp_path)
    texts = {
        "markdown_text_ned": PAGE.replace("Words at the end", "Words near the end"),
        "markdown_table_teds": PAGE.replace("three", "nothing"),
        "markdown_formula_ned": PAGE.replace("= c", "= d"),
    }
    answers = [Answer(PAGE), *map(Answer, texts.values()), Answer("", failed=True)]
    best, *worse, failed = open_scorer("markdown-pages").score(sample, answers)
    perfect = {score.metric: score.value for score in best}
    assert perfect == {
        "markdown_text_ned": 0, "markdown_table_teds": 1, "markdown_table_teds_s": 1,
        "markdown_formula_ned": 0, "markdown_order_ned": 1 / 7,  # its matcher does not place the first table
    }  # fmt: skip
    for name, scores in zip(texts, worse, strict=True):
        changed = {score.metric for score in scores if score.value != perfect[score.metric]}
        assert changed == {name}
    assert all(score.value == (0 if "teds" in score.metric else 1) for score in failed)


def test_text_and_formulas_in_their_order_are_in_order(tmp_path: Path) -> None:
    text = "one two\n\n$$\na+b\n$$\n\nthree four\n\nfive six seven"
    (sample,) = samples(made(folder_with(tmp_path, {"a": text})), tmp_path)
    turned = "\n\n".join(reversed(text.split("\n\n")))
    right, wrong = open_scorer("markdown-pages").score(sample, [Answer(text), Answer(turned)])
    assert [s.value for s in right if s.metric == "markdown_order_ned"] == [0]
    assert [s.value for s in wrong if s.metric == "markdown_order_ned"] == [1]


def test_no_metric_has_a_name_of_omnidocbench_and_there_is_no_overall() -> None:
    assert not {metric.name for metric in MARKDOWN_METRICS} & {metric.name for metric in METRICS}
    assert not any(metric.parts or metric.unit == "points" for metric in MARKDOWN_METRICS)
    assert all("truth:markdown" in metric.signature for metric in MARKDOWN_METRICS)


def test_what_cannot_be_used_is_left_out_with_its_reason(tmp_path: Path) -> None:
    folder_with(tmp_path, {"good": "words", "empty": " \n"})
    Image.new("L", (9, 9)).save(tmp_path / "alone.png")
    Image.new("L", (9, 9)).save(tmp_path / "GOOD.jpg")
    (tmp_path / "GOOD.md").write_text("words")
    (tmp_path / "broken.png").write_bytes(b"no image")
    (tmp_path / "broken.md").write_text("words")
    suite = made(tmp_path)
    whys = {one.what: one.why for one in suite.left_out}
    assert suite.samples == 1
    assert sorted(whys) == ["alone.png", "broken.png", "empty.png", "good.png"]
    assert "no alone.md" in whys["alone.png"]
    assert "empty truth" in whys["empty.png"]
    with pytest.raises(DataError, match="no page of"):
        make_page_suite(
            tmp_path / "ours",
            Making(name="none", out=tmp_path / "none"),
            truth=None,
            encoding="utf-8",
            dpi=72,
        )
    assert not (tmp_path / "none").exists()


def test_a_pdf_is_rendered_page_by_page_and_its_resolution_recorded(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    pages = [Image.new("RGB", (144, 72 * height), "white") for height in (1, 2)]
    pages[0].save(tmp_path / "paper.pdf", save_all=True, append_images=pages[1:], resolution=72)
    (tmp_path / "paper.md").write_text("first page")
    (tmp_path / "paper_pg2.md").write_text("second page")
    first, second = samples(made(tmp_path, dpi=144), tmp_path)
    assert (first.sample_id, second.sample_id) == ("paper_pg1", "paper_pg2")
    assert second.attributes == {"pdf": "paper.pdf", "pdf_page": 2, "dpi": 144}
    with Image.open(str(second.image_path)) as picture:
        assert picture.size == (288, 288)


def test_the_pages_run_by_a_layout_and_not_by_regions_they_lack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = made(folder_with(tmp_path, {"a": "words", "b": "more words"}))
    words = ["run", "--suite", str(suite.manifest), "--backend", "toy", "--strategy", "ar"]
    assert run_command_line([*words, "--out", str(tmp_path / "r")]) == 2
    assert "--layout whitespace" in capsys.readouterr().err
    assert run_command_line([*words, "--layout", "whitespace", "--out", str(tmp_path / "r")]) == 0
    said = capsys.readouterr().out
    assert "text NED" in said
    assert "official" not in said
    assert "Overall" not in said
