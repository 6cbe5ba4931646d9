"""What the trainer and the suites rely on: equal seeds give equal crops, targets stay in closed alphabets."""

import hashlib
import itertools
import subprocess
import sys

import numpy as np
import pytest
from system_packages import needs_fonts

from gravbench.errors import DataError, UsageError
from gravbench.workshop.synth import (
    CHARSET,
    KINDS,
    LATEX_COMMANDS,
    TABLE_TAGS,
    Crop,
    render_crop,
    render_letters,
    target_units,
)
from gravbench.workshop.synth.ink import is_unseen, load_font
from gravbench.workshop.synth.language import sentences, split_of

pytestmark = needs_fonts
COUNTS = {"short": 60, "line": 60, "paragraph": 30, "table": 40, "formula": 30}


@pytest.fixture(scope="module", params=("train", "heldout"))
def crops(request: pytest.FixtureRequest) -> list[Crop]:
    return [render_crop(kind, seed, request.param) for kind, count in COUNTS.items() for seed in range(count)]


def _digest(crop: Crop) -> str:
    parts = (crop.image.tobytes(), repr((crop.image.size, crop.text, crop.font, crop.anchors)).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def test_same_seed_gives_same_bytes_in_a_fresh_process() -> None:
    code = (
        "import hashlib; from gravbench.workshop.synth import KINDS, render_crop\n"
        "for kind in KINDS:\n"
        "  for seed in (0, 7):\n"
        "    c = render_crop(kind, seed, 'heldout')\n"
        "    r = repr((c.image.size, c.text, c.font, c.anchors)).encode()\n"
        "    print(hashlib.sha256(c.image.tobytes() + r).hexdigest())\n"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert fresh == [_digest(render_crop(kind, seed, "heldout")) for kind in KINDS for seed in (0, 7)]


def test_other_seed_or_split_gives_another_crop() -> None:
    assert (
        len(
            {_digest(render_crop("line", seed, split)) for seed in range(5) for split in ("train", "heldout")}
        )
        == 10
    )


def test_importing_the_generator_loads_neither_torch_nor_matplotlib() -> None:
    code = "import sys, gravbench.workshop.synth; print({'torch', 'matplotlib'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )


def test_texts_of_the_splits_never_meet(crops: list[Crop]) -> None:
    assert len({split_of(crop.text) for crop in crops}) == 1
    assert not set(sentences("train")) & set(sentences("heldout"))
    assert len(sentences("train")) > 300
    assert len(sentences("heldout")) > 25


def test_training_never_draws_an_unseen_font() -> None:
    train = {render_crop(kind, seed).font for kind in ("short", "table") for seed in range(80)}
    heldout = {render_crop(kind, seed, "heldout").font for kind in ("short", "table") for seed in range(80)}
    assert not any(map(is_unseen, train))
    assert sum(map(is_unseen, heldout)) == 2


def test_targets_use_declared_units_only(crops: list[Crop]) -> None:
    for crop in crops:
        units = target_units(crop.text)
        assert "".join(units) == crop.text
        for unit in units:
            if len(unit) == 1:
                assert unit in CHARSET
                assert unit not in ("<\\" if crop.task == "table" else "\\" if crop.task == "formula" else "")
            else:
                assert unit in (TABLE_TAGS if crop.task == "table" else LATEX_COMMANDS)


def test_every_character_of_the_charset_occurs_in_training_text() -> None:
    seen = set("".join(render_crop("paragraph", seed).text for seed in range(600)))
    assert seen == set(CHARSET)


def test_sides_are_multiples_of_sixteen_and_bounded(crops: list[Crop]) -> None:
    limits = {
        "short": (416, 48),
        "line": (416, 48),
        "paragraph": (400, 160),
        "table": (400, 208),
        "formula": (320, 112),
    }
    for crop in crops:
        width, height = crop.image.size
        assert (width % 16, height % 16, crop.image.mode) == (0, 0, "L")
        assert width <= limits[crop.kind][0]
        assert height <= limits[crop.kind][1]


def test_crops_are_dark_on_light(crops: list[Crop]) -> None:
    for crop in crops:
        grey = np.asarray(crop.image).astype(float)
        assert np.median(grey) - np.percentile(grey, 1) > 30


def test_anchors_lie_in_the_image_and_increase_along_lines(crops: list[Crop]) -> None:
    for crop in crops:
        assert len(crop.anchors) == len(crop.text)
        for anchor in filter(None, crop.anchors):
            assert 0 <= anchor[0] < crop.image.width
            assert 0 <= anchor[1] < crop.image.height
        if crop.task == "text":
            start = 0
            for line in crop.text.split("\n"):
                xs = [anchor[0] for anchor in crop.anchors[start : start + len(line)] if anchor is not None]
                assert len(xs) == len(line)
                assert all(left < right for left, right in itertools.pairwise(xs))
                start += len(line) + 1


def test_anchors_sit_on_ink(crops: list[Crop]) -> None:
    """Around an anchor of a letter or digit the paper is inked; shifted anchors would fail on most."""
    hits = total = 0
    for crop in crops:
        grey = np.asarray(crop.image).astype(float)
        threshold = np.median(grey) - 0.35 * (np.median(grey) - grey.min())
        for char, anchor in zip(crop.text, crop.anchors, strict=True):
            if anchor is not None and char.isalnum():
                x, y = round(anchor[0]), round(anchor[1])
                hits += bool((grey[max(y - 5, 0) : y + 6, max(x - 3, 0) : x + 4] < threshold).any())
                total += 1
    assert total > 1000
    assert hits > 0.99 * total


def test_tags_have_no_anchor_and_cell_characters_have_one(crops: list[Crop]) -> None:
    for crop in (crop for crop in crops if crop.kind == "table"):
        position = 0
        for unit in target_units(crop.text):
            here = crop.anchors[position : position + len(unit)]
            assert all((anchor is None) == (len(unit) > 1) for anchor in here)
            position += len(unit)


def test_lengths_follow_the_kind(crops: list[Crop]) -> None:
    for crop in crops:
        if crop.kind == "short":
            assert 3 <= len(crop.text) <= 14
        if crop.kind == "line":
            assert 15 <= len(crop.text) <= 36
        if crop.kind == "paragraph":
            assert 2 <= crop.text.count("\n") + 1 <= 4
        if crop.kind == "table":
            assert 25 <= len(target_units(crop.text)) <= 110


def test_letters_crop_holds_letters_and_digits_only() -> None:
    for seed in range(20):
        crop = render_letters(seed)
        assert crop.kind == "line"
        assert all(char.isalnum() or char == " " for char in crop.text)


def test_missing_font_names_file_and_package() -> None:
    with pytest.raises(DataError, match=r"/nowhere/Gone\.ttf") as caught:
        load_font("/nowhere/Gone.ttf", 20, "fonts-gone")
    assert caught.value.hint == "apt-get install fonts-gone"


@pytest.mark.parametrize(("kind", "split"), [("chart", "train"), ("line", "test")])
def test_unknown_kind_or_split_is_a_usage_error(kind: str, split: str) -> None:
    with pytest.raises(UsageError, match="expected one of"):
        render_crop(kind, 0, split)
