"""Pictures of matches show what was scored, under names that every file system takes."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omnidoc_support import block, page_object, write_benchmark
from PIL import Image
from system_packages import needs_tex

from gravbench.cli.app import run_command_line
from gravbench.omnidocbench.cdm.pictures import INDEX, MATCHED, UNMATCHED, file_name, worst_first
from gravbench.omnidocbench.cdm.render import Steps

FORMULAS = ("a+b=c", "x_{1}+y", "u=v")
WRITTEN = ("a+b=d", "x_{1}+y", "\\notamacro{")


def scored(folder: Path, *more: str) -> int:
    pages = [
        page_object([block("equation_isolated", f"$${formula}$$", 1)], f"../ö page {n}.png")
        for n, formula in enumerate(FORMULAS)
    ]
    texts = {f"ö page {n}.md": f"$${formula}$$\n" for n, formula in enumerate(WRITTEN)}
    gt, pred = write_benchmark(folder, pages, texts)
    words = ["omnidoc", "--gt", str(gt), "--predictions", str(pred), "--cache", str(folder / "cache")]
    return run_command_line([*words, *more])


@needs_tex
def test_each_picture_has_the_boxes_that_its_score_counts(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    assert scored(tmp_path, "--cdm-images", str(folder)) == 0
    rows = list(csv.DictReader((folder / INDEX).read_text(encoding="utf-8").splitlines()))
    assert [row["file"] for row in rows] == sorted(path.name for path in folder.glob("*.png"))
    assert [float(row["CDM"]) for row in rows] == [0.0, 0.8, 1.0]
    for row in rows:
        tp, true, own = (int(row[name]) for name in ("matched", "true tokens", "predicted tokens"))
        assert float(row["CDM"]) == round(2 * tp / (true + own), 3)
        pixels = np.asarray(Image.open(folder / row["file"]).convert("RGB"))
        for colour, there in ((MATCHED, tp > 0), (UNMATCHED, tp < max(true, own))):
            assert bool((pixels == colour).all(axis=2).any()) is there, row


@needs_tex
def test_only_the_worst_are_drawn_where_there_is_a_limit(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    assert scored(tmp_path, "--cdm-images", str(folder), "--cdm-images-limit", "1") == 0
    assert [path.name for path in folder.glob("*.png")] == ["0001-_page_2-formula-0.png"]


def test_names_are_letters_digits_and_marks_alone() -> None:
    row = {"img_id": "..\\/a b\u202e" + "x" * 300 + ".png", "gt_idx": [3]}
    name = file_name(row, 7)
    assert name.startswith("0007-.._a_b_xxx")
    assert name.endswith("-formula-3.png")
    assert len(name) < 120


def test_the_worst_come_first_and_equal_ones_as_the_pages_do() -> None:
    rows: list[dict[str, Any]] = [
        {"img_id": name, "metric": metric}
        for name, metric in (("a", {"CDM": 1.0}), ("b", {"CDM": 0.5}), ("c", {}), ("d", {"CDM": 0.5}))
    ]
    assert [row["img_id"] for row in worst_first(rows, 2)] == ["b", "d"]


def test_pictures_need_cdm_and_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.png").write_bytes(b"")
    for words in (
        ("--cdm-images", str(tmp_path / "full")),
        ("--cdm-images", str(tmp_path / "x"), "--no-cdm"),
    ):
        assert scored(tmp_path, *words) == 2
    said = capsys.readouterr().err
    assert "not an empty folder" in said
    assert "nothing is rendered" in said


def test_progress_starts_at_nothing_and_counts_half_where_a_formula_is_only_typeset() -> None:
    seen: list[tuple[int, int]] = []
    steps = Steps(6, lambda done, total: seen.append((done, total)))
    with steps.of(4) as step:
        step(4)  # typeset
        step(3)  # drawn, the fourth one some other way
    with steps.of(2) as step:
        step(9)  # never more than there are
    assert [done for done, _ in seen] == [0, 2, 3, 4, 6, 6]
    assert {total for _, total in seen} == {6}
