"""Groups are what the suite marks; a sample may be in several."""

from gravbench.analysis.groups import quality_groups
from gravbench.store.schema import ScoreRecord


def score(sample: str, value: float | None, *, arm: str = "ar") -> ScoreRecord:
    return ScoreRecord(
        sample_id=sample, arm=arm, rep=0, task="text", metric="text_ned", signature="ned|v:1", value=value,
        counts={}, failed=False, reason=None if value is not None else "unscored", prediction_sha="p",
        reference_sha="r",
    )  # fmt: skip


ATTRIBUTES = {
    "a": {"kind": "line", "random_letters": True, "unseen_font": False},
    "b": {"kind": "line", "random_letters": False, "unseen_font": True},
    "c": {"kind": "short"},
}


def test_random_letters_are_reported_apart_and_within_their_kind() -> None:
    groups = quality_groups([score("a", 0.5), score("b", 0.1), score("c", 0.0)], ATTRIBUTES)
    assert groups is not None
    assert {name: (g[0].n, g[0].quality["ar"]) for name, g in groups.items()} == {
        "line": (2, 0.3), "random_letters": (1, 0.5), "short": (1, 0.0), "unseen_font": (1, 0.1),
    }  # fmt: skip


def test_every_strategy_has_its_own_mean() -> None:
    groups = quality_groups([score("c", 0.0), score("c", 1.0, arm="selfspec")], ATTRIBUTES)
    assert groups is not None
    assert groups["short"][0].quality == {"ar": 0.0, "selfspec": 1.0}


def test_unscored_samples_and_unmarked_suites_make_no_groups() -> None:
    assert quality_groups([score("a", None)], ATTRIBUTES) is None
    assert quality_groups([score("a", 0.5)], {}) is None


def test_a_sample_counts_in_its_group_by_its_weight() -> None:
    heavy = score("a", 1.0).model_copy(update={"counts": {"weight": 3.0}})
    groups = quality_groups([heavy, score("b", 0.0)], ATTRIBUTES)
    assert groups is not None
    assert groups["line"][0].quality == {"ar": 0.75}
