"""Forward costs with a scripted clock, and for real in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from gravbench.backends.forward_cost import ROW_COUNTS, measure
from gravbench.errors import UsageError


def test_costs_are_the_fastest_repetitions_by_the_clock(checkpoint: Path) -> None:
    repetitions = [[1, 10, 1, 30], [1, 10, 1, 40], [1, 20, 1, 35]]  # idle, one row, idle, four rows
    durations = iter([tick for repetition in repetitions for tick in repetition])
    now = [0]

    def clock() -> int:
        now[0] += next(durations)
        return now[0]

    costs = measure(checkpoint, row_counts=(1, 4), context=16, repetitions=3, clock=clock)
    assert [(c.rows, c.context) for c in costs] == [(1, 16), (4, 16)]
    assert [c.seconds for c in costs] == [10e-9, 30e-9]
    assert [c.median_seconds for c in costs] == [10e-9, 35e-9]
    assert [c.ratio for c in costs] == pytest.approx([1.0, 3.0])


def test_every_row_count_of_the_table_is_measured(checkpoint: Path) -> None:
    costs = measure(checkpoint, repetitions=1, context=32)
    assert tuple(c.rows for c in costs) == ROW_COUNTS == (1, 2, 4, 8, 16, 17, 32, 33)
    assert all(c.seconds > 0 for c in costs)


def test_nothing_to_measure_is_a_usage_error(checkpoint: Path) -> None:
    with pytest.raises(UsageError):
        measure(checkpoint, repetitions=0)
