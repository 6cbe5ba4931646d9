"""`stream` fills a sliding window in any order and commits its left end."""

from typing import Any

from strategy_support import LONG, on_toy

from gravbench.decoding.stream import Stream


def test_a_window_that_fills_at_once_commits_it_in_the_next_forward() -> None:
    _, trace, rounds = on_toy(LONG, "stream:tau=9,window=4", budget=61)
    assert rounds.committed[:4] == (1, 5, 1, 5)  # a window that left whole has no rows for the next
    assert trace.counters.decode_forwards == trace.counters.fwd_verify == rounds.count


def test_a_strict_window_fills_one_slot_a_forward() -> None:
    _, _, rounds = on_toy(LONG, "stream:tau=0,window=4", budget=40)
    assert rounds.committed[0] == 1 and set(rounds.committed[1:]) == {2}


class Entropies:
    """Rows that predict 100 + their number, with given entropies."""

    def __init__(self, *entropies: float) -> None:
        self.entropies = entropies
        self.tokens = [100 + row for row in range(len(entropies))]

    def entropy(self, rows: list[int]) -> list[float]:
        return [self.entropies[row] for row in rows]


def test_sure_slots_are_filled_out_of_order_each_from_the_row_before_it() -> None:
    """x0, one filled slot at place 2; places 1 and 3 are masked. The boundary moves to place 1."""
    rows: Any = Entropies(0.0, 0.0, 9.0, 0.1)  # of places 0, 2, 1, 3
    filled = {0: 7, 2: 8}
    Stream(window=3, tau=0.4, slope=0.0)._fill(filled, rows, [0, 2, 1, 3], beyond=1)
    assert filled == {0: 7, 2: 8, 3: 101, 4: 103}


def test_distance_counts_against_a_slot() -> None:
    rows: Any = Entropies(0.0, 0.0, 0.3, 0.3)
    filled = {0: 7}
    Stream(window=3, tau=0.4, slope=0.2)._fill(filled, rows, [0, 1, 2, 3], beyond=1)
    assert filled == {0: 7, 2: 101}  # the doubts are 0, 0.5 and 0.7
