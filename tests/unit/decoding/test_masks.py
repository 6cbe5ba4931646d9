"""Who sees whom inside a window."""

from gravbench.decoding.masks import BLOCK, CAUSAL, WINDOW_1, visible, window


def test_causal_rows_see_themselves_and_what_precedes_them() -> None:
    assert visible(CAUSAL, 3) == [[True, False, False], [True, True, False], [True, True, True]]


def test_window_1_hides_the_masks_from_the_boundary_row_only() -> None:
    assert visible(WINDOW_1, 3) == [[True, False, False], [True, True, True], [True, True, True]]


def test_block_rows_see_every_row() -> None:
    assert visible(BLOCK, 3) == [[True] * 3] * 3


def test_a_window_of_only_leading_rows_is_causal() -> None:
    assert visible(window(4), 4) == visible(CAUSAL, 4)


def test_no_rows_see_nothing() -> None:
    assert visible(CAUSAL, 0) == []
