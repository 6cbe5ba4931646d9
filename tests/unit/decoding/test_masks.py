"""Who sees whom inside a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.decoding.masks import WORD, Mask, block, causal, groups, packed, tree, visible, window
from gravbench.decoding.window import PAD, Noise, Window


def test_causal_rows_see_themselves_and_what_precedes_them() -> None:
    assert visible(causal(3)) == [[True, False, False], [True, True, False], [True, True, True]]


def test_window_1_hides_the_masks_from_the_boundary_row_only() -> None:
    assert visible(window(1, 3)) == [[True, False, False], [True, True, True], [True, True, True]]


def test_block_rows_see_every_row() -> None:
    assert visible(block(3)) == [[True] * 3] * 3


def test_a_window_of_only_leading_rows_is_causal() -> None:
    assert window(4, 4) == causal(4)


def test_no_rows_see_nothing() -> None:
    assert visible(causal(0)) == []


@given(st.lists(st.integers(0, 1000), max_size=70))
def test_a_tree_row_sees_its_ancestors_and_itself_alone(draws: list[int]) -> None:
    parents = [None if i == 0 else draw % i for i, draw in enumerate(draws)]
    mask = tree(parents)
    for row in range(len(parents)):
        line, at = {row}, row
        while (at := parents[at]) is not None:  # type: ignore[assignment]
            line.add(at)
        assert {key for key in range(len(parents)) if mask.sees(row, key)} == line


def test_a_parent_stands_before_its_child() -> None:
    with pytest.raises(ValueError, match="the parent of row 1"):
        tree([None, 1])


def test_a_group_sees_its_beginning_and_itself_alone() -> None:
    mask = groups(3, [(1, 2), (3, 1)])
    assert mask.vis == (0b1, 0b11, 0b111, 0b11001, 0b11001, 0b100111)
    with pytest.raises(ValueError, match="sees 4 of 3"):
        groups(3, [(4, 1)])


@given(st.lists(st.sets(st.integers(0, 150)), min_size=1, max_size=9))
def test_packed_words_hold_every_bit(rows: list[set[int]]) -> None:
    mask = Mask(tuple(sum(1 << bit for bit in bits) for bits in rows))
    words = packed(mask, 3)
    for row, bits in enumerate(rows):
        found = {at for at in range(3 * WORD) if words[at // WORD][row] >> at % WORD & 1}
        assert found == bits
        assert all(-(2**63) <= column[row] < 2**63 for column in words)


def test_a_mask_that_needs_more_words_is_refused() -> None:
    with pytest.raises(ValueError, match="spans 65"):
        packed(Mask((1 << 64,)), 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tokens": (1, 2), "mask": causal(3)},
        {"tokens": (), "mask": causal(0)},
        {"tokens": (1, 2), "mask": Mask((0b1, 0b1))},
        {"tokens": (1, 2), "mask": Mask((0b1, 0b110))},
        {"tokens": (1, 2), "mask": causal(2), "positions": (0, -1)},
        {"tokens": (1, 2), "mask": causal(2), "positions": (0,)},
        {"tokens": (1, 7), "mask": causal(2), "noise": (None, Noise(0.5, 1.0))},
        {"tokens": (1, 2), "mask": causal(2), "slots": (0, 0)},
        {"tokens": (1, 2), "mask": causal(2), "slots": (1, 2)},
        {"tokens": (1, 2), "mask": causal(2), "slots": (-1, 0)},
    ],
)
def test_a_window_that_breaks_a_convention_is_refused(wrong: dict) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=r"row|window|slots|positions"):
        Window(**wrong)


def test_what_the_conventions_allow_is_taken() -> None:
    window_ = Window((1, PAD), causal(2), positions=(3, 3), noise=(None, Noise(0.5, 1.0)))
    assert window_.span == 2
    assert Window((1, 2), Mask((0b100, 0b1100)), slots=(2, 3)).span == 4


@given(st.lists(st.sets(st.integers(0, 4)) | st.integers(0, 9).map(lambda n: set(range(n))), max_size=5))
def test_reach_counts_slots_where_every_row_sees_the_first_ones_alone(rows: list[set[int]]) -> None:
    mask = Mask(tuple(sum(1 << bit for bit in bits) for bits in rows))
    prefixes = all(bits == set(range(len(bits))) for bits in rows)
    assert mask.reach == (tuple(len(bits) for bits in rows) if prefixes else None)
