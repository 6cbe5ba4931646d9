from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.errors import UsageError
from gravbench.suites.data import match_pages, take


@dataclass(frozen=True)
class Item:
    sample_id: str
    task: str = "page"
    attributes: dict[str, bool | int | str] = field(default_factory=dict)


ITEMS = tuple(
    Item(f"p-{n:02}", attributes={"layout": "one" if n % 4 else "two", "subset": "v1.5"}) for n in range(20)
)


def test_strata_are_taken_in_proportion_by_seed() -> None:
    taken = take(ITEMS, 8, stratify="layout", seed=3)
    assert [item.attributes["layout"] for item in taken].count("two") == 2
    assert [item.sample_id for item in taken] == sorted(item.sample_id for item in taken)
    assert taken == take(ITEMS, 8, stratify="layout", seed=3)
    assert taken != take(ITEMS, 8, stratify="layout", seed=4)


def test_without_stratify_the_first_of_every_task_are_taken() -> None:
    mixed = (*(Item(f"a{n}", "text") for n in range(6)), *(Item(f"b{n}", "page") for n in range(3)))
    assert [item.sample_id for item in take(mixed, 3)] == ["a0", "a1", "b0"]


@given(st.integers(1, 30), st.sampled_from([None, "layout", "task"]))
def test_limit_is_kept_exactly(limit: int, key: str | None) -> None:
    assert len(take(ITEMS, limit, stratify=key)) == min(limit, len(ITEMS))


def test_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no sample has 'color'") as caught:
        take(ITEMS, None, stratify="color")
    assert caught.value.hint == "known keys: layout, subset, task"


def test_pattern_matches_ids_with_or_without_ending() -> None:
    assert [item.sample_id for item in match_pages(ITEMS, "p-0[12]")] == ["p-01", "p-02"]
    assert [item.sample_id for item in match_pages(ITEMS, "p-03.png")] == ["p-03"]
    assert match_pages(ITEMS, None) == ITEMS
    with pytest.raises(UsageError, match="no sample of the suite matches"):
        match_pages(ITEMS, "q*")
