"""Parts of a work come out alike whether they were done here, in forked processes or in fresh ones."""

import pytest

from gravbench import processes
from gravbench.processes import side_by_side


class Power:
    """A work with something to remember, as a spawned process needs it pickled."""

    def __init__(self, exponent: int) -> None:
        self.exponent = exponent

    def of(self, base: int) -> int:
        if base < 0:
            raise ValueError(f"{base} is negative")
        return int(base**self.exponent)


@pytest.mark.parametrize(("jobs", "start"), [(0, "fork"), (1, "fork"), (2, "fork"), (2, "spawn")])
def test_results_stand_in_the_order_of_the_parts(
    jobs: int, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_start_method", lambda: start)
    ended: list[int] = []
    assert side_by_side(Power(2).of, [3, 1, 2], jobs=jobs, done=ended.append) == [9, 1, 4]
    assert sorted(ended) == [1, 2, 3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_part_raises_is_raised(jobs: int) -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        side_by_side(Power(2).of, [1, -1, 2], jobs=jobs)
