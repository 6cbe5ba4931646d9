"""Boxes from pixels: palette, crop, stacked pages."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.official_cdm import extract
from PIL import Image

from gravbench.omnidocbench.cdm.colour import MAX_COLOURS, rgb
from gravbench.omnidocbench.cdm.raster import Page, find_boxes


def blank(width: int = 120, height: int = 90) -> np.ndarray:
    return np.full((height, width, 3), 255, dtype=np.uint8)


def whole(pixels: np.ndarray) -> Page:
    return Page(pixels, 0, 0, pixels.shape[1], pixels.shape[0])


def test_every_palette_entry_is_another_colour_and_none_is_white_or_black() -> None:
    colours = {rgb(index) for index in range(1, MAX_COLOURS + 1)}
    assert len(colours) == MAX_COLOURS
    assert not colours & {(0, 0, 0), (255, 255, 255)}


def test_a_box_is_one_pixel_larger_than_its_token_and_relative_to_the_crop() -> None:
    pixels = blank()
    pixels[40:45, 50:60] = rgb(1)
    found = find_boxes([whole(pixels)], tokens=1, colours=1)
    assert found.boxes == ((7, 7, 18, 13),)
    assert (found.width, found.height) == (59 + 8 - 42, 44 + 8 - 32)


def test_black_ink_widens_the_crop_but_belongs_to_no_token() -> None:
    pixels = blank()
    pixels[40, 50] = rgb(1)
    pixels[10, 20] = (0, 0, 0)
    found = find_boxes([whole(pixels)], tokens=2, colours=2)
    assert found.boxes == ((50 - 12 - 1, 40 - 2 - 1, 50 - 12 + 1, 40 - 2 + 1), None)


def test_a_page_without_ink_is_an_empty_square() -> None:
    found = find_boxes([whole(blank())], tokens=2, colours=2)
    assert (found.width, found.height, found.boxes) == (18, 18, (None, None))


def test_colours_beyond_the_palette_given_are_nobodys() -> None:
    pixels = blank()
    pixels[5, 5] = rgb(9)
    assert find_boxes([whole(pixels)], tokens=9, colours=8).boxes == (None,) * 9


def test_later_pages_stand_below_earlier_ones() -> None:
    first, second = blank(), blank()
    first[40, 50] = rgb(1)
    second[40, 50] = rgb(2)
    found = find_boxes([whole(first), whole(second)], tokens=2, colours=2)
    one, two = found.boxes
    assert one is not None and two is not None
    assert two[1] - one[1] == 90


def test_a_cropped_page_gives_the_boxes_of_the_whole_one() -> None:
    pixels = blank()
    pixels[40:44, 50:53] = rgb(1)
    cropped = Page(pixels[25:75, 25:100], 25, 25, 120, 90)
    assert find_boxes([cropped], tokens=1, colours=1) == find_boxes([whole(pixels)], tokens=1, colours=1)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_boxes_equal_the_plain_scan(tmp_path_factory: object, data: st.DataObject) -> None:
    """Random patches, with colours a step beside the palette and near-white ones among them."""
    pixels = blank(40, 30)
    for _ in range(data.draw(st.integers(0, 6))):
        y, x = data.draw(st.integers(0, 29)), data.draw(st.integers(0, 39))
        base = rgb(data.draw(st.integers(0, 6)))
        off = data.draw(st.sampled_from([0, 0, 1, 2]))
        colour = data.draw(st.sampled_from([tuple(c + off for c in base), (255, 255, 254), (255, 254, 255)]))
        pixels[y : y + 3, x : x + 4] = colour
    target = tmp_path_factory.getbasetemp() / "scan.png"  # type: ignore[attr-defined]
    Image.fromarray(pixels).save(target)
    slow = extract(target, tokens=8, colours=6)
    fast = find_boxes([whole(pixels)], tokens=8, colours=6)
    assert (fast.width, fast.height) == slow.size
    assert [list(box) if box else [] for box in fast.boxes] == slow.boxes
