"""The longest repeated end, against looking for it by hand; and the cost table."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.decoding.costs import SHIPPED, Costs, costs_of
from gravbench.decoding.suffixes import Suffixes
from gravbench.errors import UsageError


@given(st.lists(st.integers(0, 2), max_size=40))
def test_it_is_the_longest_end_that_stood_before(tokens: list[int]) -> None:
    ends = Suffixes()
    for place, token in enumerate(tokens):
        ends.add(token)
        seen = tokens[: place + 1]
        length, after = ends.repeated()
        longest = next(
            (
                n
                for n in range(place, 0, -1)
                if any(seen[i : i + n] == seen[-n:] for i in range(place + 1 - n))
            ),
            0,
        )
        assert length == longest
        assert not length or (after <= place and seen[after - length : after] == seen[-length:])


def test_costs_lie_on_straight_lines_and_the_last_goes_on() -> None:
    costs = Costs((1, 9, 17), (1.0, 1.8, 3.4))
    assert [costs(rows) for rows in (1, 5, 9, 13, 17, 21)] == pytest.approx([1.0, 1.4, 1.8, 2.6, 3.4, 4.2])
    assert Costs((2, 4), (1.6, 1.0))(8) == 1.0  # never below the cheapest that was measured


def test_a_cost_table_comes_from_a_file_or_the_file_is_refused(tmp_path: Path) -> None:
    assert costs_of(None, "tree") is SHIPPED
    path = tmp_path / "costs.json"
    path.write_text(json.dumps({"rows": [1, 8], "costs": [1, 2]}))
    assert costs_of(str(path), "tree") == Costs((1, 8), (1.0, 2.0))
    for text in ("{}", "[", '{"rows": [8, 1], "costs": [1, 2]}', '{"rows": [1, 8], "costs": [1, 0]}'):
        path.write_text(text)
        with pytest.raises(UsageError, match="no cost table"):
            costs_of(str(path), "tree")
