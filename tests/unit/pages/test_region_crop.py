import pytest
from PIL import Image

from gravbench.errors import DataError
from gravbench.pages.reader import background_of, cut_region
from gravbench.pages.regions import Region


def region(*points: tuple[float, float]) -> Region:
    return Region(region_id="r", label="text", polygon=points)


def rectangle(left: float, top: float, right: float, bottom: float) -> Region:
    return region((left, top), (right, top), (right, bottom), (left, bottom))


@pytest.fixture
def page() -> Image.Image:
    image = Image.new("L", (100, 80), 240)
    image.paste(20, (30, 30, 60, 40))
    return image


def test_crop_is_the_box_at_full_resolution(page: Image.Image) -> None:
    crop = cut_region(page, rectangle(20.4, 25.5, 70.2, 44.9))
    assert crop.size == (51, 20)
    assert crop.getpixel((10, 5)) == 20


def test_crop_is_padded_with_its_background_to_the_grid(page: Image.Image) -> None:
    crop = cut_region(page, rectangle(25, 25, 65, 45), grid=16)
    assert crop.size == (48, 32)
    assert crop.getpixel((0, 0)) == crop.getpixel((47, 31)) == 240


def test_crop_outside_a_slanted_polygon_is_background(page: Image.Image) -> None:
    crop = cut_region(page, region((20, 30), (70, 20), (72, 35), (22, 45)))
    assert crop.getpixel((45, 24)) == background_of(crop) == 240
    assert cut_region(page, rectangle(30, 30, 60, 40)).getpixel((0, 0)) == 20


def test_polygon_over_the_edge_is_clipped(page: Image.Image) -> None:
    assert cut_region(page, rectangle(-5, -5, 20, 200)).size == (20, 80)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (rectangle(10, 10, 10, 30), "no area"),
        (rectangle(30, 30, 10, 10).model_copy(update={"polygon": ((1, 1), (1, 1), (1, 1))}), "no area"),
        (rectangle(200, 10, 220, 30), "outside the page of 100 x 80"),
        (rectangle(float("nan"), 0, 5, 5), "no area"),
    ],
)
def test_polygon_without_area_on_the_page_is_named(page: Image.Image, bad: Region, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        cut_region(page, bad)


def test_background_of_colour_is_the_median_of_the_rim() -> None:
    image = Image.new("RGB", (9, 9), (250, 240, 230))
    image.paste((0, 0, 0), (2, 2, 7, 7))
    assert background_of(image) == (250, 240, 230)


@pytest.mark.parametrize(
    "points",
    [
        ((10, 10), (10, 10), (10, 10), (10, 10)),
        ((10, 10), (60, 60), (10, 10), (60, 60)),
        ((0, 0), (0.1, 0.3), (0.2, 0.6), (30, 90)),
        ((10, 10), (60, 10), (30, 10)),
    ],
)
def test_a_polygon_that_is_a_line_has_no_area(
    page: Image.Image, points: tuple[tuple[float, float], ...]
) -> None:
    with pytest.raises(DataError, match="has no area"):
        cut_region(page, region(*points))


def test_corners_in_another_order_and_thin_lines_of_text_are_regions(page: Image.Image) -> None:
    assert cut_region(page, region((60, 40), (30, 40), (30, 30), (60, 30))).size == (30, 10)
    assert cut_region(page, region((30, 30), (60, 30), (30, 40), (60, 40))).size == (30, 10)
    assert cut_region(page, rectangle(0, 10, 90, 10.5)).size == (90, 1)
