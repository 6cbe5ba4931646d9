"""Forward costs with a scripted clock, and for real in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from gravbench.backends.forward_cost import ROW_COUNTS, measure
from gravbench.errors import UsageError


def test_medians_and_ratios_come_from_the_clock(checkpoint: Path) -> None:
    durations = iter([99, 10, 99, 30, 0, 10, 0, 40, 0, 20, 0, 30, 0, 20, 0, 35])
    now = [0]

    def clock() -> int:
        now[0] += next(durations)
        return now[0]

    # the warm-up of each row count reads the clock once, every other repetition twice
    costs = measure(checkpoint, row_counts=(1, 4), context=16, repetitions=3, clock=clock)
    assert [c.rows for c in costs] == [1, 4]
    assert costs[0].ratio == 1.0
    assert costs[1].ratio == costs[1].seconds / costs[0].seconds


def test_every_row_count_of_the_issue_is_measured(checkpoint: Path) -> None:
    costs = measure(checkpoint, repetitions=1, context=32)
    assert tuple(c.rows for c in costs) == ROW_COUNTS == (1, 2, 4, 8, 16, 17, 32, 33)
    assert all(c.seconds > 0 for c in costs)


def test_nothing_to_measure_is_a_usage_error(checkpoint: Path) -> None:
    with pytest.raises(UsageError):
        measure(checkpoint, repetitions=0)
