import pytest

from gravbench.analysis.bootstrap import independent
from gravbench.analysis.counter_columns import FORWARDS, ROUNDS, TOKENS, Decoded, counter_table, paired_ratio
from gravbench.records import Rounds


def side(ids: tuple[int, ...], committed: tuple[int, ...], accepted: tuple[int, ...]) -> Decoded:
    n = len(committed)
    return Decoded(
        token_ids=ids,
        rounds=Rounds(offered=(4,) * n, accepted=accepted, committed=committed, forwards=(2,) * n),
    )


SIX = (9, 1, 2, 3, 4, 5, 6)


def test_identical_outputs_count_whole() -> None:
    table = counter_table([(side(SIX, (4, 2), (2, 0)), side(SIX, (2, 2, 2), (0, 0, 0)))])
    assert table.columns.tolist() == [[6, 2, 4, 2, 6, 3, 6, 0]]
    assert (table.identical, table.comparable) == ((True,), (True,))
    assert paired_ratio(TOKENS, ROUNDS)(table.columns.sum(axis=0)) == pytest.approx(2 / 3)
    assert paired_ratio(TOKENS, FORWARDS)(table.columns.sum(axis=0)) == pytest.approx(2 / 3)


def test_rounds_behind_the_first_difference_do_not_count() -> None:
    """Token 4 differs: base's first round ends before it, and so does own's second."""
    other = (9, 1, 2, 3, 8, 7, 7)
    table = counter_table([(side(SIX, (3, 3), (1, 1)), side(other, (2, 1, 3), (0, 0, 1)))])
    assert table.columns.tolist() == [[3, 1, 2, 1, 3, 2, 4, 0]]
    assert (table.identical, table.comparable) == ((False,), (True,))


def test_difference_in_the_first_round_is_not_comparable() -> None:
    table = counter_table([(side(SIX, (6,), (4,)), side((9, 7), (1,), (0,)))])
    assert table.comparable_share == 0.0


def test_failed_side_is_not_comparable() -> None:
    table = counter_table([(side(SIX, (6,), (4,)), Decoded(token_ids=(), rounds=None))])
    assert table.comparable == (False,)
    assert independent(1).n_clusters == 1


def test_no_rows_compare_nothing() -> None:
    assert counter_table([]).comparable_share == 0.0
