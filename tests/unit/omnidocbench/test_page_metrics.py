from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.metrics.repetition import find_repetition, measure_surplus
from gravbench.omnidocbench.lines import reading_order
from gravbench.omnidocbench.page_metrics import EditCount, overall, page_distances, summarize_edits


def test_overall_rounds_its_parts_for_the_leaderboard_only() -> None:
    total = overall(text_edit=0.0434999, teds=0.123456789, cdm=0.5)
    assert total.exact == pytest.approx((95.65001 + 12.3456789 + 50.0) / 3)
    assert total.leaderboard == pytest.approx((95.7 + 12.346 + 50.0) / 3)


def test_overall_needs_all_parts_and_names_the_missing() -> None:
    total = overall(text_edit=0.1, teds=None, cdm=None)
    assert (total.exact, total.leaderboard) == (None, None)
    assert total.missing == ("table.TEDS", "display_formula.CDM")


def test_page_average_whole_and_sample_average_differ() -> None:
    counts = [EditCount("a", 1, 10), EditCount("a", 0, 10), EditCount("b", 2, 4), EditCount("c", None, 0)]
    summary = summarize_edits(counts)
    assert page_distances(counts) == {"a": 0.05, "b": 0.5}
    assert summary.all_page_avg == pytest.approx(0.275)
    assert summary.edit_whole == pytest.approx(3 / 24)
    assert summary.edit_sample_avg == pytest.approx((0.1 + 0.0 + 0.5) / 3)
    assert summarize_edits([]).official() == {"ALL_page_avg": "NaN"}


@given(st.permutations([1, 2, 3, 4.001, 4.002]))
def test_reading_order_is_zero_exactly_for_ascending_starts(starts: list[float]) -> None:
    rows = [((position,), int(start * 1000)) for position, start in enumerate(starts, 1)]
    order = reading_order(rows, "a.png")
    assert order is not None
    assert (order.distance == 0.0) == (starts == sorted(starts))


def test_unmatched_blocks_count_as_deletions_and_no_orders_as_nothing() -> None:
    order = reading_order([((1,), 0), ((2,), None), ((None,), 5)], "a.png")
    assert order is not None
    assert (order.gt, order.pred, order.edits) == ((1, 2), (1,), 1)
    assert reading_order([((None,), 3), ((0,), None)], "a.png") is None


@pytest.mark.parametrize(
    ("text", "unit", "repeats"),
    [
        ("go on and on " * 6, "go on and on", 6),
        ("x" * 40, "x", 40),
        ("石头河流" * 9, "石头河流", 9),
        ("no loop in here at all", "", 0),
        ("a a a", "", 0),
        ("|---|---|---|---|---|", "", 0),
        ("", "", 0),
    ],
)
def test_repetition(text: str, unit: str, repeats: int) -> None:
    found = find_repetition(text)
    assert (found.unit, found.repeats) == (unit, repeats)


def test_surplus_is_the_share_of_characters_without_a_row() -> None:
    assert measure_surplus([(30, True), (10, False)]).share == 0.25
    assert measure_surplus([]).share is None
