import pytest
from report_support import failed_record
from run_support import crop_piece, gen_record, rounds_of

from gravbench.analysis.bootstrap import independent
from gravbench.analysis.pieces import (
    FORWARDS,
    ROUNDS,
    TOKENS,
    counter_table,
    paired_ratio,
)
from gravbench.records import Counters, Piece, Times, Trace
from gravbench.store.schema import GenRecord


def piece(
    ids: tuple[int, ...], committed: tuple[int, ...], accepted: tuple[int, ...], region_id: str = ""
) -> Piece:
    n = len(committed)
    counters = Counters(
        tokens_out=len(ids),
        rounds=n,
        fwd_draft=n,
        fwd_verify=n,
        draft_offered=4 * n,
        draft_accepted=sum(accepted),
    )
    trace = Trace(counters=counters, rounds=rounds_of((4,) * n, accepted, committed), times=Times())
    return crop_piece(ids, trace, region_id=region_id)


def answer(*pieces: Piece) -> GenRecord:
    return GenRecord.model_validate({**gen_record().model_dump(), "pieces": pieces})


def side(ids: tuple[int, ...], committed: tuple[int, ...], accepted: tuple[int, ...]) -> GenRecord:
    return answer(piece(ids, committed, accepted))


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
    table = counter_table([(side(SIX, (6,), (4,)), failed_record("text-000", "ar"))])
    assert table.comparable == (False,)
    assert independent(1).n_clusters == 1


def test_no_rows_compare_nothing() -> None:
    assert counter_table([]).comparable_share == 0.0


def test_regions_of_a_page_are_compared_one_by_one() -> None:
    """The first region parts in its first round and gives nothing; the second is whole."""
    second = piece((9, 1, 2), (2,), (1,), "b")
    base = answer(piece((9, 7, 7), (2,), (0,), "a"), second)
    own = answer(piece((9, 8, 7), (2,), (0,), "a"), second)
    table = counter_table([(base, own)])
    assert table.columns.tolist() == [[2, 1, 2, 1, 2, 1, 2, 1]]
    assert (table.identical, table.comparable) == ((False,), (True,))


def test_pages_cut_otherwise_count_only_when_equal_as_a_whole() -> None:
    whole = answer(piece((9, 1, 2, 9, 3), (3, 1), (1, 0)))
    cut = answer(piece((9, 1, 2), (2,), (1,), "a"), piece((9, 3), (1,), (0,), "b"))
    other = answer(piece((9, 1, 2), (2,), (1,), "a"), piece((9, 4), (1,), (0,), "b"))
    table = counter_table([(whole, cut), (whole, other)])
    assert table.identical == table.comparable == (True, False)
    assert table.columns[0].tolist() == [4, 2, 4, 1, 3, 2, 4, 1]


def test_an_engine_that_hides_its_rounds_has_no_counts_to_compare() -> None:
    told_nothing = Trace(counters=Counters(tokens_out=len(SIX), rounds=0), rounds=None, times=Times())
    hidden = answer(crop_piece(SIX, told_nothing))
    table = counter_table([(hidden, side(SIX, (4, 2), (2, 0)))])
    assert table.comparable == (False,) and not table.columns.any()
