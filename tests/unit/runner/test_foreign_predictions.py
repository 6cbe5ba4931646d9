"""Trees as OCR programs write them are recognised by name, matched to samples, and never left."""

import json
from pathlib import Path

import pytest

from gravbench.errors import DataError, UsageError
from gravbench.runner.foreign_predictions import MAX_REPEATS, ForeignPredictions, read_predictions

PAGES = ("page_1", "page_2", "notes.v2")


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def texts(found: ForeignPredictions) -> dict[str, str]:
    """Text of each sample's only answer."""
    return {name: answer.text for (name, rep), answer in found.answers.items() if rep == 0}


TREES = {
    "a folder": {f"{page}.md": page for page in PAGES},
    "MinerU": {
        name: text
        for page in PAGES
        for name, text in (
            (f"{page}/auto/{page}.md", page), (f"{page}/auto/{page}_content_list.json", "[]"),
        )
    },
    "marker": {
        name: text
        for page in PAGES
        for name, text in ((f"{page}/{page}.md", page), (f"{page}/{page}_meta.json", "{}"))
    },
    "PaddleOCR-VL": {
        name: text for page in PAGES for name, text in ((f"{page}.md", page), (f"{page}_res.json", "{}"))
    },
    "dots.ocr": {
        name: text
        for page in PAGES
        for name, text in (
            (f"{page}/{page}.md", "header\n" + page), (f"{page}/{page}_nohf.md", page),
            (f"{page}/{page}.json", "[]"),
        )
    },
    "olmOCR (m": {f"markdown/{page}.md": page for page in PAGES},
    "olmOCR (r": {
        "results/output_1.jsonl": "".join(
            json.dumps({"text": page, "metadata": {"Source-File": f"/in/{page}.pdf"}}) + "\n"
            for page in PAGES
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", TREES)
def test_each_tree_is_named_and_every_page_found(tmp_path: Path, kind: str) -> None:
    found = read_predictions(write(tmp_path, TREES[kind]), PAGES)
    assert found.kind.startswith(kind)
    assert texts(found) == {page: page for page in PAGES}
    assert found.caution is None


def test_pages_of_a_pdf_counted_from_0_are_found(tmp_path: Path) -> None:
    samples = ("doc_pg1", "doc_pg2", "one", "scan_1")
    files = {"doc/doc_page_0_nohf.md": "a", "doc/doc_page_1_nohf.md": "b", "one/one_page_0_nohf.md": "c",
             "scan_1/scan_1_nohf.md": "d"}  # fmt: skip
    assert texts(read_predictions(write(tmp_path / "dots", files), samples)) == dict(
        zip(samples, "abcd", strict=True)
    )
    files = {"doc_0.md": "a", "doc_0_res.json": "", "doc_1.md": "b", "doc_1_res.json": ""}
    assert texts(read_predictions(write(tmp_path / "paddle", files), samples[:2])) == {
        "doc_pg1": "a",
        "doc_pg2": "b",
    }


def test_olmocr_bench_names_give_their_page(tmp_path: Path) -> None:
    found = read_predictions(write(tmp_path, {"a/page_1_pg1_repeat1.md": "x"}), PAGES)
    assert (found.kind[:6], texts(found)) == ("olmOCR", {"page_1": "x"})


def test_missing_pages_and_unused_files_are_named_with_what_is_near(tmp_path: Path) -> None:
    found = read_predictions(write(tmp_path, {"page_1.md": "", "page-2.md": "b", "deep/other.md": ""}), PAGES)
    assert (found.missing, found.unused) == (("page_2", "notes.v2"), ("deep/other.md", "page-2.md"))
    assert found.caution == (
        "2 (page_2, notes.v2) without a prediction; 2 (deep/other.md, page-2.md) of no sample "
        "(perhaps page_2 for page-2)"
    )


def test_names_may_differ_in_case_or_keep_the_ending_of_the_image(tmp_path: Path) -> None:
    found = read_predictions(write(tmp_path, {"Page_1.md": "1", "page_2.png.md": "2"}), PAGES)
    assert texts(found) == {"page_1": "1", "page_2": "2"}


def test_two_files_of_one_page_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'page_1' has 2 files: a/page_1.md, b/page_1.md"):
        read_predictions(write(tmp_path, {"a/page_1.md": "", "b/page_1.md": ""}), PAGES)


def test_a_file_that_is_not_utf8_fails_its_page_alone(tmp_path: Path) -> None:
    write(tmp_path, {"page_2.md": "x"})
    (tmp_path / "page_1.md").write_bytes(b"caf\xe9")
    found = read_predictions(tmp_path, PAGES)
    assert "not UTF-8" in str(found.answers["page_1", 0].error)
    assert found.answers["page_2", 0].error is None


def test_links_that_leave_the_folder_are_refused_and_linked_folders_not_entered(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"page_2.md": "secret"})
    inside = write(tmp_path / "inside", {"page_1.md": "x"})
    (inside / "more").symlink_to(outside)
    assert texts(read_predictions(inside, PAGES)) == {"page_1": "x"}
    (inside / "page_2.md").symlink_to(outside / "page_2.md")
    with pytest.raises(DataError, match="outside"):
        read_predictions(inside, PAGES)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.tar.gz", "", "archive"),
        ("p.csv", "", "expected a folder"),
        ("p.jsonl", "{", "p.jsonl:1: not JSON"),
        ("p.jsonl", "[]", "p.jsonl:1: list"),
        ("p.jsonl", '{"text": "x"}', "no sample named"),
        ("p.jsonl", '{"id": "page_1"}', "field text"),
        ("p.jsonl", '{"id": "page_1", "text": "a"}\n{"id": "page_1", "text": "b"}',
         "p.jsonl:2: 'page_1' occurs twice"),
        ("p.jsonl",
         '{"id": "page_1", "text": "a", "token_ids": [1], "counters": {"tokens_out": 2, "rounds": 1}}',
         "1 token_ids, counters.tokens_out is 2"),
        ("p.jsonl", '{"id": "elsewhere", "text": "a"}', "no prediction fits"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_its_place(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((DataError, UsageError)) as refused:
        read_predictions(tmp_path / name, PAGES)
    assert said in refused.value.whole
    assert refused.value.hint


def test_lines_bring_what_their_program_told_and_nothing_is_made_up(tmp_path: Path) -> None:
    lines = [
        {"sample_id": "page_1", "text": "a", "token_ids": [5, 2], "counters": {"tokens_out": 2, "rounds": 1}},
        {"image": "in/page_2.png", "markdown": "b", "extra": 1},
        {"id": "notes.v2", "error": "out of memory"},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_predictions(tmp_path / "p.jsonl", PAGES).answers
    assert found["page_1", 0].token_ids == (5, 2)
    assert (found["page_2", 0].text, found["page_2", 0].token_ids, found["page_2", 0].counters) == (
        "b",
        None,
        None,
    )
    assert found["notes.v2", 0].error == "out of memory"


def test_one_arm_of_a_file_with_several_is_chosen_by_name(tmp_path: Path) -> None:
    lines = [{"sample_id": "page_1", "arm": arm, "text": arm} for arm in ("ar", "selfspec")]
    path = tmp_path / "p.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match="in arms ar, selfspec") as refused:
        read_predictions(path, PAGES)
    assert "--of ARM" in str(refused.value.hint)
    assert read_predictions(path, PAGES, arm="selfspec").answers["page_1", 0].text == "selfspec"


def test_repeats_of_a_page_are_told_apart_by_their_number_and_those_missing_are_named(tmp_path: Path) -> None:
    files = {"page_1_pg1_repeat3.md": "c", "page_1_pg1_repeat10.md": "d", "page_2_pg1_repeat1.md": "e"}
    found = read_predictions(write(tmp_path, files), PAGES[:2])
    assert {key: answer.text for key, answer in found.answers.items()} == {
        ("page_1", 0): "c",
        ("page_1", 1): "d",
        ("page_2", 0): "e",
    }
    assert (found.repeats, found.missing) == (2, ("page_2, repeat 2",))
    write(tmp_path, {"more/page_1_pg1_repeat3.md": "f"})
    with pytest.raises(DataError, match="'page_1' has 3 files"):
        read_predictions(tmp_path, PAGES)


def test_lines_count_their_repeats_from_0_within_bounds(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    lines = [{"id": "page_1", "rep": rep, "text": str(rep)} for rep in (1, 0)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_predictions(path, PAGES[:1])
    assert {key: answer.text for key, answer in found.answers.items()} == {
        ("page_1", 0): "0",
        ("page_1", 1): "1",
    }
    for rep in (-1, MAX_REPEATS, True, "0"):
        path.write_text(json.dumps({"id": "page_1", "rep": rep, "text": ""}))
        with pytest.raises(DataError, match=r"p\.jsonl:1: field rep"):
            read_predictions(path, PAGES)
