"""Own images with their truth become a suite that runs; what cannot be used is named with its line."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gravbench.cli.app import run_command_line
from gravbench.errors import DataError, UsageError
from gravbench.suites.manifest import load_samples, load_suite
from gravbench.suites.own_crops import MadeSuite, Making, make_suite
from gravbench.suites.status import verify_suite
from gravbench.suites.truth_tables import read_truth, task_of_truth


def picture(path: Path, size: tuple[int, int] = (16, 16), mode: str = "L", **how: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", size, 255).convert(mode).save(path, **how)
    return path


def table(path: Path, *rows: tuple[str, ...]) -> Path:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def made(
    folder: Path, truth: Path | None, *, images: Path | None = None, encoding: str = "utf-8", **how: Any
) -> MadeSuite:
    making = Making(name="mine", out=folder / "mine", **how)
    return make_suite(read_truth(truth, images or folder, encoding=encoding), making)


def samples_by_truth(suite: MadeSuite) -> dict[str, Any]:
    return {sample.reference: sample for sample in load_samples(load_suite(suite.manifest))}


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("plain words", "text"),
        ("a price of $5 and $6 here", "text"),
        ("<p>x</p><TABLE border=1><tr><td>1</td></tr></TABLE>", "table"),
        ("$$a=b$$", "formula"),
        (r"\frac{a}{b}+\text{ for all }x^{2}", "formula"),
        (r"see \textbf{this word} in the text", "text"),
        ("file_name", "text"),
        ("12.5", "text"),
    ],
)
def test_the_task_is_read_off_the_truth(text: str, task: str) -> None:
    assert task_of_truth(text) == task


def test_every_odd_image_is_a_sample_or_left_out_with_its_line(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    frames = {"save_all": True, "append_images": [Image.new("L", (16, 16), 0)]}
    usable = [
        picture(tmp_path / "dot.png", (1, 1)),
        picture(tmp_path / "big.png", (8000, 6000), "1"),
        picture(tmp_path / "print.jpg", mode="CMYK"),
        picture(tmp_path / "turned.jpg", (8, 32), exif=exif),
        picture(tmp_path / "with blank ünï 中.png"),
    ]
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(tmp_path / "deep.png")
    odd = [picture(tmp_path / "moving.webp", **frames), picture(tmp_path / "cut.png", (64, 64))]
    odd[1].write_bytes(odd[1].read_bytes()[:60])
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4\n")
    names = [path.name for path in usable] + ["deep.png", "moving.webp", "cut.png", "paper.pdf", "gone.png"]
    rows = [(name, f"truth of {name}") for name in names]
    suite = made(tmp_path, table(tmp_path / "t.csv", ("image", "text"), *rows))
    assert suite.samples == 6
    assert [one.where for one in suite.left_out] == ["t.csv:8", "t.csv:9", "t.csv:10", "t.csv:11"]
    whys = [one.why for one in suite.left_out]
    assert all(
        word in why for word, why in zip(("2 frames", "decode", "PDF", "not found"), whys, strict=True)
    )
    listed = (tmp_path / "mine" / "left_out.jsonl").read_text().splitlines()
    assert [json.loads(line)["what"] for line in listed] == names[6:]
    assert verify_suite(load_suite(suite.manifest), None).ok


def test_quotes_over_lines_and_a_byte_order_mark_are_read_and_lines_still_counted(tmp_path: Path) -> None:
    for name in "abc":
        picture(tmp_path / f"{name}.png")
    text = 'one\n"two", and three'
    rows = [("image", "text"), ("a.png", text), ("b.png", ""), ("c.png", "NA")]
    suite = made(tmp_path, table(tmp_path / "t.csv", *rows))
    assert set(samples_by_truth(suite)) == {text, "NA"}
    assert [(one.where, one.what) for one in suite.left_out] == [("t.csv:4", "b.png")]


def test_further_columns_are_attributes_and_the_split_is_kept(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    lines = [
        {"file": "a.png", "gt": "x", "kind": "text", "SPLIT": "tune", "dpi": 200, "note": "y" * 300},
        {"file": "b.png", "gt": "a^{2}", "kind": "equation", "SPLIT": "test", "dpi": 1.5, "box": [1]},
    ]
    truth = tmp_path / "t.jsonl"
    truth.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = samples_by_truth(suite := made(tmp_path, truth))
    assert found["x"].attributes == {"split": "tune", "dpi": 200}
    assert (found["a^{2}"].task, found["a^{2}"].attributes) == ("formula", {"split": "test", "dpi": "1.5"})
    assert sorted(suite.ignored_columns) == ["box", "note"]
    assert not suite.inferred


def test_names_that_differ_in_case_alone_get_ids_that_do_not(tmp_path: Path) -> None:
    for name in ("A.png", "a.png", "sub/a.png"):
        picture(tmp_path / name)
    rows = [("image", "text"), ("A.png", "one"), ("a.png", "two"), ("sub/a.png", "three")]
    found = samples_by_truth(made(tmp_path, table(tmp_path / "t.csv", *rows)))
    assert len({sample.sample_id.lower() for sample in found.values()}) == 3


def test_one_image_may_have_two_tasks_but_not_one_twice(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    rows = [("image", "text"), ("a.png", "words"), ("./a.png", "$x$"), ("a.png", "other words")]
    suite = made(tmp_path, table(tmp_path / "t.csv", *rows))
    assert (suite.tasks, suite.undelimited) == ({"text": 1, "formula": 1}, 1)
    assert "same image and task as t.csv:2" in suite.left_out[0].why


@pytest.mark.parametrize("path", ["../a.png", "/etc/passwd", "link.png", "folder/a.png", "..\\a.png"])
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, path: str) -> None:
    images = tmp_path / "images"
    picture(images / "own.png")
    outside = picture(tmp_path / "other" / "a.png")
    picture(tmp_path / "a.png")
    (images / "link.png").symlink_to(outside)
    (images / "folder").symlink_to(outside.parent)
    suite = made(
        tmp_path,
        table(tmp_path / "t.csv", ("image", "text"), ("own.png", "own"), (path, "foreign")),
        images=images,
    )
    assert set(samples_by_truth(suite)) == {"own"}
    assert "inside" in suite.left_out[0].why


def test_links_of_a_hub_snapshot_into_its_own_blobs_are_followed_and_no_others(tmp_path: Path) -> None:
    snapshot = tmp_path / "datasets--we--ours" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    blob = picture(tmp_path / "datasets--we--ours" / "blobs" / "blob.png")
    foreign = picture(tmp_path / "datasets--they--theirs" / "blobs" / "blob.png")
    (snapshot / "a.png").symlink_to(os.path.relpath(blob, snapshot))
    (snapshot / "b.png").symlink_to(os.path.relpath(foreign, snapshot))
    (snapshot / "metadata.csv").write_text("file_name,text\na.png,one\nb.png,two\n")
    suite = make_suite(
        read_truth(snapshot, None, encoding="utf-8"), Making(name="mine", out=tmp_path / "mine")
    )
    assert set(samples_by_truth(suite)) == {"one"}
    assert suite.left_out[0].what == "b.png"


def test_text_files_beside_images_say_their_task_by_their_ending(tmp_path: Path) -> None:
    cell = "<table><tr><td>1</td></tr></table>"
    for name, ending, text in (
        ("a", "txt", "words\n"),
        ("b", "html", cell),
        ("c", "tex", "x_1"),
        ("d", "md", "w"),
    ):
        picture(tmp_path / "deep" / f"{name}.png")
        (tmp_path / "deep" / f"{name}.{ending}").write_text(text)
    picture(tmp_path / "alone.png")
    (tmp_path / "lost.txt").write_text("no image")
    suite = made(tmp_path, None)
    found = samples_by_truth(suite)
    assert {text: sample.task for text, sample in found.items()} == {
        "words": "text", cell: "table", "x_1": "formula", "w": "text",
    }  # fmt: skip
    assert sorted(one.what for one in suite.left_out) == ["alone.png", "lost.txt"]


def test_another_encoding_is_named_by_its_first_byte_and_read_when_told(tmp_path: Path) -> None:
    for name in "ab":
        picture(tmp_path / f"{name}.png")
    (tmp_path / "a.txt").write_bytes("Straße".encode("cp1252"))
    (tmp_path / "b.txt").write_text("Straße", encoding="utf-16")
    suite = made(tmp_path, None)
    assert [sample.sample_id for sample in samples_by_truth(suite).values()] == ["b"]
    assert "byte 4 (line 1) is 0xdf, expected utf-8" in suite.left_out[0].why
    again = make_suite(
        read_truth(None, tmp_path, encoding="cp1252"), Making(name="again", out=tmp_path / ".again")
    )
    assert again.samples == 2


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", "image,text\na.png,\"open\n", "quote"),
        ("t.csv", "image,image\n", "twice"),
        ("t.csv", "", "empty"),
        ("t.json", "{", "not JSON"),
        ("t.json", "3", "expected a list"),
        ("t.csv", "a,b\n", "no column for image"),
        ("t.csv", "image,text\ngone.png,x\n", "no entry of 1 can be used"),
        ("t.zip", "", "archive"),
        ("t.xlsx", "", "ending '.xlsx'"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises((DataError, UsageError)) as refused:
        made(tmp_path, tmp_path / name)
    assert said in refused.value.whole
    assert refused.value.hint
    assert not (tmp_path / "mine").exists()


def test_a_row_with_a_field_too_many_is_left_out_alone(tmp_path: Path) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "t.csv").write_text("image;text\na.png;x\na.png;y;z\n")
    suite = made(tmp_path, tmp_path / "t.csv")
    assert (suite.samples, suite.left_out[0].where) == (1, "t.csv:3")


@pytest.mark.parametrize("content", ['{"a.png": "x"}', '{"rows": [{"image": "a.png", "text": "x"}]}'])
def test_json_may_be_an_object_of_names_or_hold_one_list(tmp_path: Path, content: str) -> None:
    picture(tmp_path / "a.png")
    (tmp_path / "t.json").write_text(content)
    assert made(tmp_path, tmp_path / "t.json").samples == 1


def test_parquet_with_images_inside_and_a_datasets_folder_give_the_same_suite(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.ipc")
    pytest.importorskip("pyarrow.parquet")
    data = [picture(tmp_path / f"{name}.png", (8, size)).read_bytes() for size, name in ((8, "a"), (9, "b"))]
    images = [{"bytes": each, "path": f"{name}.png"} for each, name in zip(data, "ab", strict=True)]
    rows = arrow.table(
        {"image": images, "text": ["x", "<table><tr><td>1</td></tr></table>"], "site": ["p", "q"]}
    )
    arrow.parquet.write_table(rows, tmp_path / "test-00000-of-00001.parquet")
    folder = tmp_path / "saved" / "test"
    folder.mkdir(parents=True)
    (tmp_path / "saved" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    with arrow.ipc.new_stream(folder / "data-00000-of-00001.arrow", rows.schema) as stream:
        stream.write_table(rows)
    (tmp_path / "parquet").mkdir()
    (tmp_path / "test-00000-of-00001.parquet").rename(tmp_path / "parquet" / "test-00000-of-00001.parquet")
    one, two = (
        make_suite(
            read_truth(tmp_path / kind, None, encoding="utf-8"),
            Making(name=kind, out=tmp_path / kind / "out"),
        )
        for kind in ("parquet", "saved")
    )
    first, second = (load_samples(load_suite(suite.manifest)) for suite in (one, two))
    assert [s.model_dump(exclude={"image_path"}) for s in first] == [
        s.model_dump(exclude={"image_path"}) for s in second
    ]
    assert first[0].attributes == {"site": "p", "split": "test"}
    assert [sample.task for sample in first] == ["text", "table"]


def test_paths_of_a_datasets_folder_may_lead_into_another(tmp_path: Path) -> None:
    picture(tmp_path / "pictures" / "a.png", (8, 8))
    (tmp_path / "told").mkdir()
    (tmp_path / "told" / "metadata.jsonl").write_text('{"file_name": "a.png", "text": "x"}\n')
    table = read_truth(tmp_path / "told", tmp_path / "pictures", encoding="utf-8")
    assert make_suite(table, Making(name="own", out=tmp_path / "out")).samples == 1


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(UsageError, match="pyarrow") as refused:
        made(tmp_path, tmp_path / "t.parquet")
    assert "gravbench[data]" in str(refused.value.hint)


def test_the_command_takes_prompts_budgets_and_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    picture(tmp_path / "pics" / "a.png")
    table(tmp_path / "Our Truth.csv", ("bild", "wort"), ("a.png", 'say "hi" 😀'))
    words = [
        "suites",
        "make",
        "--images",
        "pics",
        "--truth",
        "Our Truth.csv",
        "--columns",
        "image=bild,text=wort",
    ]
    more = ["--prompt", 'text=Read "this" 😀:', "--max-new-tokens", "text=9", "--json"]
    assert run_command_line([*words, *more]) == 0
    suite = load_suite(json.loads(capsys.readouterr().out)["manifest"])
    assert (suite.name, suite.prompts, suite.max_new_tokens) == (
        "our-truth", {"text": 'Read "this" 😀:'}, {"text": 9},
    )  # fmt: skip
    assert run_command_line([*words, *more]) == 2
    assert "not empty" in capsys.readouterr().err
    assert run_command_line([*words, "--name", "crops-mini"]) == 2
    assert run_command_line([*words, "--name", "x", "--prompt", "page=x"]) == 2
    assert run_command_line([*words, "--name", "x", "--max-new-tokens", "text=0"]) == 2
    assert run_command_line([*words[:-1], "picture=a", "--name", "x"]) == 2
