from collections import Counter

import numpy as np
import pytest
from system_packages import needs_fonts

from gravbench.imaging import bytes_digest
from gravbench.omnidocbench.ground_truth import read_page
from gravbench.pages.regions import CATEGORY_LABELS
from gravbench.workshop.synth.crop import shuffled_pair
from gravbench.workshop.synth.page import COLUMN_WIDTH, SynthPage, render_page

pytestmark = needs_fonts


@pytest.fixture(scope="module")
def pages() -> list[SynthPage]:
    return [render_page(seed, columns=1 if seed % 2 else 2, split="train") for seed in range(8)]


def test_equal_arguments_give_equal_pages() -> None:
    first, second = (render_page(3, columns=2, split="train") for _ in range(2))
    assert bytes_digest(first.image.tobytes()) == bytes_digest(second.image.tobytes())
    assert first.entry == second.entry


def test_official_reader_accepts_every_page(pages: list[SynthPage]) -> None:
    for page in pages:
        read = read_page(page.entry, 0, source="test")
        assert read.image == "page.png"
        assert {det["category_type"] for det in page.entry["layout_dets"]} <= set(CATEGORY_LABELS)


def test_every_region_lies_on_the_page_and_holds_ink_but_shares_none(pages: list[SynthPage]) -> None:
    for page in pages:
        pixels = np.asarray(page.image)
        paper = int(np.median(pixels))
        owner = np.zeros(pixels.shape, dtype=int)
        for det in page.entry["layout_dets"]:
            left, top, right, bottom = (int(det["poly"][i]) for i in (0, 1, 4, 5))
            assert 0 <= left < right <= page.image.width
            assert 0 <= top < bottom <= page.image.height
            assert right - left <= COLUMN_WIDTH + 40
            assert (np.abs(pixels[top:bottom, left:right].astype(int) - paper) > 60).any()
            owner[top:bottom, left:right] += 1
        outside = (np.abs(pixels.astype(int) - paper) > 60) & (owner == 0)
        assert not outside.any()


def test_sides_are_on_the_patch_grid(pages: list[SynthPage]) -> None:
    assert {side % 16 for page in pages for side in page.image.size} == {0}


def test_truncated_halves_follow_each_other_in_order() -> None:
    found = 0
    for seed in range(12):
        page = render_page(seed, columns=2, split="train").entry
        blocks = {det["anno_id"]: det for det in page["layout_dets"]}
        for relation in page["extra"]["relation"]:
            assert relation["relation_type"] == "truncated"
            head, tail = blocks[relation["source_anno_id"]], blocks[relation["target_anno_id"]]
            assert head["category_type"] == tail["category_type"] == "text_block"
            assert head["order"] < tail["order"]
            found += 1
    assert found >= 4


def test_shuffled_page_keeps_words_and_changes_their_order() -> None:
    plain = render_page(5, columns=1, split="train").entry["layout_dets"]
    mixed = render_page(5, columns=1, split="train", shuffle=True).entry["layout_dets"]
    assert [det["category_type"] for det in plain] == [det["category_type"] for det in mixed]
    changed = 0
    for before, after in zip(plain, mixed, strict=True):
        if "text" not in before:
            assert before.get("latex") == after.get("latex")
            assert before.get("html") == after.get("html")
        elif before["text"] != after["text"]:
            assert Counter(before["text"].split()) == Counter(after["text"].split())
            changed += 1
    assert changed >= 2


def test_shuffled_line_is_drawn_like_the_plain_one() -> None:
    (_, plain), (_, mixed) = shuffled_pair(7, "train")
    assert plain.text != mixed.text
    assert Counter(plain.text.split()) == Counter(mixed.text.split())
    assert plain.font == mixed.font
    assert np.asarray(plain.image).max() == np.asarray(mixed.image).max()
