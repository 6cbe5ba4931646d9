"""Regions of a page object: what is a fault of the page, and what is read as it stands."""

from typing import Any

import pytest
from page_support import SIZE, det, entry

from gravbench.errors import DataError
from gravbench.pages.regions import annotated_regions, page_scale


def page(**fields: Any) -> dict[str, Any]:
    return entry("a.png", [det("text_block", 0, **fields), det("title", 1)])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"poly": [10**400] * 8}, "poly"),
        ({"poly": [float("nan")] * 8}, "poly"),
        ({"poly": [0, 0, 1e300, 0, 1e300, 9, 0, 9]}, "poly"),
        ({"poly": [True] * 8}, "poly"),
        ({"poly": "abc"}, "poly"),
        ({"order": 10**400}, "order"),
        ({"order": float("nan")}, "order"),
        ({"order": float("-inf")}, "order"),
        ({"anno_id": "a\ud800"}, "anno_id"),
        ({"anno_id": "a\x1b[31m"}, "anno_id"),
    ],
)
def test_values_that_no_page_can_have_are_one_fault_with_field_and_next_step(
    fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises(DataError, match=rf"layout_dets\[0\]\.{reason} is .*expected") as caught:
        annotated_regions(page(**fields))
    assert caught.value.hint
    caught.value.whole.encode("utf-8")


@pytest.mark.parametrize(
    ("width", "height"),
    [(0, 10), ("800", 10), (None, 10), (True, True), (10**400, 10**400), (5e-324, 5e-324), (float("nan"), 1)],
)
def test_a_page_size_that_is_none_is_a_fault(width: Any, height: Any) -> None:
    odd = page()
    odd["page_info"] |= {"width": width, "height": height}
    with pytest.raises(DataError, match=r"page_info\.width and height are"):
        page_scale(odd, SIZE)


def test_regions_that_share_an_id_are_read_and_told_apart() -> None:
    blocks = [det("text_block", place, anno_id=name) for place, name in enumerate((1, "1", 1, "1~2", None))]
    ids = [region.region.region_id for region in annotated_regions(entry("a.png", blocks))]
    assert ids == ["1", "1~3", "1~4", "1~2", "None"]
