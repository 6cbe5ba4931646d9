from dataclasses import dataclass, field

from run_support import gen_record

from gravbench.analysis.groups import groups, length_label
from gravbench.analysis.loaded import Unit, facts_of, plain_facts, suite_design


@dataclass(frozen=True)
class Item:
    sample_id: str
    task: str = "text"
    attributes: dict[str, bool | int | str] = field(default_factory=dict)


def test_page_and_subset_become_cluster_and_stratum() -> None:
    facts = facts_of([Item("a", attributes={"page": "p1", "subset": "hard"}), Item("b")])
    assert (facts["a"].cluster, facts["a"].stratum) == ("p1", "hard")
    assert (facts["b"].cluster, facts["b"].stratum) == ("b", None)


def test_categories_are_labels_with_few_values() -> None:
    items = [
        Item(str(i), attributes={"kind": "xy"[i % 2], "seed": i, "unseen": i % 2 == 0, "same": "z"})
        for i in range(40)
    ]
    assert dict(facts_of(items)["0"].categories) == {"kind": "x", "unseen": "yes"}


def test_tasks_divide_strata_only_where_pages_have_one_task() -> None:
    own = facts_of([Item("a"), Item("b", "table")])
    assert len(set(suite_design(["a", "b"], {"a": "text", "b": "table"}, own).stratum_of.tolist())) == 2
    shared = facts_of([Item("a", attributes={"page": "p"}), Item("b", "table", {"page": "p"})])
    design = suite_design(["a", "b"], {"a": "text", "b": "table"}, shared)
    assert (design.n_clusters, set(design.stratum_of.tolist())) == (1, {0})


def test_length_buckets_meet_without_gap() -> None:
    assert [length_label(n) for n in (1, 8, 9, 256, 257)] == ["1-8", "1-8", "9-16", "129-256", "257+"]


def test_every_unit_is_in_one_task_and_one_length_group() -> None:
    units = [
        Unit(
            sample_id=str(i),
            rep=0,
            task="text",
            records={"ar": gen_record(sample_id=str(i), token_ids=tuple(range(1, n + 1)))},
        )
        for i, n in enumerate((3, 12, 300))
    ]
    found = list(groups(units, plain_facts("012"), base="ar"))
    assert [(kind, label, rows) for kind, label, rows in found] == [
        ("task", "text", (0, 1, 2)),
        ("length", "1-8", (0,)),
        ("length", "9-16", (1,)),
        ("length", "257+", (2,)),
    ]
