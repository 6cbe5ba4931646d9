from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.errors import UsageError
from gravbench.suites.data import match_pages, take
from gravbench.suites.manifest import load_samples, load_suite


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


def test_without_stratify_every_task_and_subset_gives_its_share_by_seed() -> None:
    texts = [Item(f"a{n:02}", "text") for n in range(20)]
    hard = [Item(f"b{n:02}", attributes={"subset": "hard"}) for n in range(10)]
    easy = [Item(f"c{n:02}", attributes={"subset": "easy"}) for n in range(10)]
    drawn = [take((*texts, *hard, *easy), 8, seed=seed) for seed in range(20)]
    for items in drawn:
        assert [item.sample_id[0] for item in items] == [*"aaaabbcc"]
        assert items == take((*texts, *hard, *easy), 8, seed=drawn.index(items))
    assert {item.sample_id for items in drawn for item in items if item.task == "text"} == {
        item.sample_id for item in texts
    }


def test_the_first_by_name_have_no_head_start() -> None:
    crops = load_samples(load_suite("crops-mini"))
    letters = [s.attributes["random_letters"] for s in take(crops, 30) if s.task == "text"]
    assert len(letters) == 15 and not all(letters)


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
