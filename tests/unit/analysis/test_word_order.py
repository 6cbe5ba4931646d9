from types import SimpleNamespace

from gravbench.analysis.groups import word_order, word_order_of
from gravbench.analysis.loaded import facts_of
from gravbench.store.schema import ScoreRecord


def score(sample_id: str, value: float | None) -> ScoreRecord:
    return ScoreRecord(
        sample_id=sample_id,
        arm="ar",
        task="text",
        metric="text_ned",
        signature="s",
        value=value,
        counts={},
        reason=None if value is not None else "no",
        prediction_sha="p",
        reference_sha="r",
    )


ATTRIBUTES = {
    f"{pair}-{words}": {"pair": pair, "words": words}
    for pair in ("a", "b", "c")
    for words in ("plain", "shuffled")
}


def test_shift_is_the_paired_difference() -> None:
    scores = [
        score("a-plain", 0.1),
        score("a-shuffled", 0.3),
        score("b-plain", 0.0),
        score("b-shuffled", 0.2),
    ]
    found = word_order(scores, ATTRIBUTES)
    assert found is not None
    result = found["ar"]["text_ned"]
    assert (round(result.plain, 9), round(result.shuffled, 9), round(result.shift, 9)) == (0.05, 0.25, 0.2)
    assert result.n_pairs == 2


def test_half_scored_pairs_are_left_out() -> None:
    scores = [score("a-plain", 0.1), score("a-shuffled", None), score("b-plain", 0.0)]
    assert word_order(scores, ATTRIBUTES) is None


def test_suites_without_pairs_have_no_word_order() -> None:
    assert word_order([score("x", 0.5)], {"x": {"font": "f"}}) is None


def test_a_loaded_run_knows_its_pairs_by_the_facts_of_its_samples() -> None:
    facts = facts_of(
        [SimpleNamespace(sample_id=name, task="text", attributes=own) for name, own in ATTRIBUTES.items()]
    )
    assert {known.pair for known in facts.values()} == {"a", "b", "c"}
    assert all("pair" not in known.categories for known in facts.values())
    scores = [score("a-plain", 0.1), score("a-shuffled", 0.3)]
    assert word_order_of(scores, facts) == word_order(scores, ATTRIBUTES)
    assert word_order_of(scores, facts) is not None
    assert word_order_of(scores, facts_of([])) is None
