from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gravbench.errors import DataError
from gravbench.omnidocbench.ground_truth import read_annotations, read_page, read_pages

MULTI_LINE = "$$\\begin{aligned} a&=b \\\\ c&=d \\end{aligned}$$"


def _page(*blocks: dict[str, Any], relation: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "layout_dets": [{"anno_id": i, "order": i + 1} | block for i, block in enumerate(blocks)],
        "extra": {"relation": relation or []},
        "page_info": {"image_path": "img/p_1.png", "page_attribute": {"special_issue": ["None"]}},
    }


def _text(text: str, **fields: Any) -> dict[str, Any]:
    return {"category_type": "text_block", "text": text} | fields


def _truncated(a: int, b: int) -> dict[str, Any]:
    return {"source_anno_id": a, "target_anno_id": b, "relation_type": "truncated"}


def test_truncated_pieces_become_one_element_without_attribute() -> None:
    raw = _page(
        _text("c", attribute={"a": 1}), _text("a"), _text("b"), relation=[_truncated(1, 2), _truncated(0, 2)]
    )
    mixed = read_page(raw, 0, source="gt").mixed
    assert [(element.content, element.order, element.attribute) for element in mixed] == [("cab", 1, {})]


def test_one_ignored_piece_takes_its_whole_group_away() -> None:
    raw = _page(_text("a"), _text("b", ignore=True), _text("c"), relation=[_truncated(0, 1)])
    assert [element.content for element in read_page(raw, 0, source="gt").mixed] == ["c"]


def test_elements_are_sorted_by_order_and_missing_orders_come_first() -> None:
    raw = _page(_text("b", order=2), _text("a", order=1), _text("z", order=None))
    assert [element.content for element in read_page(raw, 0, source="gt").mixed] == ["z", "a", "b"]


def test_pages_own_what_is_not_ignored() -> None:
    raw = _page(
        {"category_type": "table", "html": "", "ignore": True},
        {"category_type": "equation_isolated", "latex": "x"},
    )
    read = read_page(raw, 0, source="gt")
    assert (read.owns_table, read.owns_formula) == (False, True)


def _without(path: str) -> dict[str, Any]:
    raw = copy.deepcopy(_page(_text("a"), relation=[_truncated(0, 0)]))
    *parents, key = path.split(".")
    place: Any = raw
    for parent in parents:
        place = place[int(parent)] if parent.isdigit() else place[parent]
    del place[key]
    return raw


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("layout_dets", "layout_dets"),
        ("extra", "extra"),
        ("extra.relation", "extra.relation"),
        ("extra.relation.0.relation_type", r"extra.relation\[0\].relation_type"),
        ("extra.relation.0.source_anno_id", r"extra.relation\[0\].source_anno_id"),
        ("page_info", "page_info"),
        ("page_info.image_path", "page_info.image_path"),
        ("page_info.page_attribute", "page_info.page_attribute"),
        ("layout_dets.0.category_type", r"layout_dets\[0\].category_type"),
        ("layout_dets.0.anno_id", r"layout_dets\[0\].anno_id"),
        ("layout_dets.0.text", r"layout_dets\[0\].text"),
    ],
)
def test_a_missing_field_is_named_with_its_page(path: str, field: str) -> None:
    with pytest.raises(DataError, match=rf"gt\.json: page 3: {field}.*missing"):
        read_page(_without(path), 3, source="gt.json")


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (_page(_text("a", order="first")), r"layout_dets\[0\]\.order is 'first'"),
        (
            _page({"category_type": "equation_isolated", "latex": MULTI_LINE, "order": None}),
            r"layout_dets\[0\]\.order",
        ),
        (_page({"category_type": "equation_isolated"}), r"layout_dets\[0\]\.latex is missing"),
        (_page(_text("a"), _text("b", order=None), relation=[_truncated(0, 1)]), r"layout_dets\[1\]\.order"),
        ([], "page is"),
    ],
)
def test_what_crashes_the_official_scorer_is_a_data_fault(raw: Any, field: str) -> None:
    with pytest.raises(DataError, match=field) as caught:
        read_page(raw, 0, source="gt.json")
    assert caught.value.exit_code == 5


def test_an_image_name_that_breaks_the_official_page_lookup_is_refused() -> None:
    raw = _page(_text("a"))
    raw["page_info"]["image_path"] = "x_1.jpeg"
    with pytest.raises(DataError, match="image_path"):
        read_page(raw, 0, source="gt.json")


def test_two_pages_of_one_name_are_refused() -> None:
    with pytest.raises(DataError, match=r"page 1: .*'p_1\.png' is also that of page 0"):
        read_pages([_page(_text("a")), _page(_text("b"))], source="gt.json")


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "3"])
def test_a_file_that_is_no_list_of_pages_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "gt.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"gt\.json"):
        read_annotations(path)
    with pytest.raises(DataError, match="no such file"):
        read_annotations(tmp_path / "absent.json")
    path.write_text(json.dumps([_page()]))
    assert len(read_annotations(path)) == 1
