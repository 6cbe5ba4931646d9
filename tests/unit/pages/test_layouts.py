import pytest
from page_support import SIZE, box_poly, det, entry
from PIL import Image, ImageDraw

from gravbench.errors import DataError, UsageError
from gravbench.pages.layouts import LAYOUTS, check_layout, open_layout
from gravbench.pages.regions import PageSample, route_of
from gravbench.pages.whitespace import WhitespaceLayout


def sample(page: dict[str, object]) -> PageSample:
    return PageSample(
        sample_id="p", image_name="p.png", image_path=None, image_sha256="0" * 64, entry=page, attributes={}
    )


BLANK = Image.new("L", SIZE, 255)


def truth(page: dict[str, object], image: Image.Image = BLANK) -> list[tuple[str, tuple[float, ...]]]:
    return [(r.label, r.box) for r in open_layout("ground-truth").regions(sample(page), image)]


def test_ground_truth_follows_order_and_leaves_ignored_blocks_out() -> None:
    blocks = [
        det("text_block", 2, order=3),
        det("title", 0, order=1),
        det("text_mask", 3),
        det("text_block", 1, order=2, ignore=True),
        det("page_number", 4, order=None),
        det("figure", 1, order=2),
    ]
    labels = [label for label, _ in truth(entry("p.png", blocks))]
    assert labels == ["paragraph_title", "image", "text", "number"]


def test_ground_truth_scales_to_the_image_and_knows_exchanged_sides() -> None:
    page = entry("p.png", [det("text_block", 0)])
    assert truth(page)[0][1] == (10, 12, 150, 36)
    double = Image.new("L", (SIZE[0] * 2, SIZE[1] * 2))
    assert truth(page, double)[0][1] == (20, 24, 300, 72)
    info = page["page_info"]
    assert isinstance(info, dict)
    info["width"], info["height"] = info["height"], info["width"]
    assert truth(page)[0][1] == (10, 12, 150, 36)
    with pytest.raises(DataError, match="another shape"):
        truth(page, Image.new("L", (300, 300)))


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ([], "layout_dets is empty"),
        ([det("poem", 0)], "category_type is 'poem'"),
        ([det("text_block", 0, poly=[1, 2, 3])], r"poly is \[1, 2, 3\], expected 8 numbers"),
        ([det("text_block", 0, poly=[1, 2, "x", 4, 5, 6, 7, 8])], "expected 8 numbers"),
        ([det("text_block", 0, poly=[float("nan")] * 8)], "expected 8 numbers"),
        ([det("text_block", 0, poly=None)], "poly is None"),
    ],
)
def test_ground_truth_names_what_is_wrong_with_a_page(blocks: list[dict[str, object]], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        truth(entry("p.png", blocks))


def test_unknown_layout_names_the_nearest_and_weightless_ones_take_no_model() -> None:
    assert {check_layout(name) for name in LAYOUTS} == set(LAYOUTS)
    with pytest.raises(UsageError, match="unknown layout 'whitespce'") as caught:
        check_layout("whitespce")
    assert "did you mean 'whitespace'" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has no weights"):
        open_layout("whitespace", model="x")


def test_no_layout_makes_the_whole_image_one_region_that_is_read_as_text() -> None:
    (region,) = open_layout("none").regions(sample({}), Image.new("L", (70, 90)))
    assert region.box == (0, 0, 70, 90) and route_of(region.label) == "text"
    with pytest.raises(UsageError, match="layout 'none' has no weights"):
        open_layout("none", model="x")


def columns_page() -> Image.Image:
    """A head over two columns of two blocks, each block three lines of letters."""
    image = Image.new("L", (420, 360), 230)
    draw = ImageDraw.Draw(image)
    draw.rectangle((20, 20, 200, 32), fill=20)
    for left in (20, 230):
        for top in (80, 180):
            for line in range(3):
                for letter in range(12):
                    x, y = left + letter * 13, top + line * 16
                    draw.rectangle((x, y, x + 8, y + 10), fill=20)
    return image


def test_whitespace_cuts_columns_before_lines_and_reads_left_column_first() -> None:
    found = WhitespaceLayout().regions(sample(entry("p.png")), columns_page())
    assert [region.label for region in found] == ["text"] * 5
    boxes = [region.box for region in found]
    assert [(box[0] < 200, box[1] < 150) for box in boxes] == [
        (True, True),
        (True, True),
        (True, False),
        (False, True),
        (False, False),
    ]
    for box in boxes[1:]:
        assert box[3] - box[1] == 42 + 1 + 6


def test_whitespace_calls_ruled_blocks_tables() -> None:
    image = Image.new("L", (300, 200), 255)
    draw = ImageDraw.Draw(image)
    for y in (20, 60, 100):
        draw.line((20, y, 250, y), fill=0)
    for x in (20, 130, 250):
        draw.line((x, 20, x, 100), fill=0)
    assert [r.label for r in WhitespaceLayout().regions(sample(entry("p.png")), image)] == ["table"]


def test_blank_page_and_noise_are_faults_of_the_page() -> None:
    with pytest.raises(DataError, match="blank"):
        WhitespaceLayout().regions(sample(entry("p.png")), Image.new("L", (50, 50), 255))
    dots = Image.new("L", (900, 900), 255)
    for x in range(10, 900, 40):
        for y in range(10, 900, 40):
            dots.paste(0, (x, y, x + 4, y + 4))
    with pytest.raises(DataError, match="expected at most 400"):
        WhitespaceLayout().regions(sample(entry("p.png")), dots)


def test_polygon_helper_is_clockwise() -> None:
    assert box_poly(0, 1, 2, 3) == [0, 1, 2, 1, 2, 3, 0, 3]
