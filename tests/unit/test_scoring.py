import pytest
from run_support import gen_record

from gravbench.errors import NotComparableError
from gravbench.metrics.crop_ned import crop_ned
from gravbench.scoring import CROP_METRICS, CropMetric, mean_quality, score_generations, scorer_id, signatures
from gravbench.store.schema import GenError, GenRecord

FAILED = GenRecord.model_validate(
    {
        **gen_record(sample_id="b").model_dump(),
        "status": "error",
        "error": GenError(kind="K", message="m", stage="generate"),
        "stop_reason": "error",
        "trace": None,
    }
)


def test_failed_sample_scores_worst_and_stays_in_the_mean() -> None:
    scores = score_generations([gen_record(sample_id="a", text="ab"), FAILED], {"a": "ab", "b": "ab"})
    assert mean_quality(scores) == {"text_ned": 0.5}
    assert [(s.failed, s.reason) for s in scores] == [(False, None), (True, "K: m")]


def test_equal_texts_are_scored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(prediction: str, reference: str) -> tuple[float, dict[str, float]]:
        calls.append(prediction)
        return crop_ned(prediction, reference)

    metric = CropMetric(name="text_ned", signature="s", worst=1.0, measure=counted)
    monkeypatch.setitem(CROP_METRICS, "text", (metric,))
    both = [gen_record(arm="ar"), gen_record(arm="selfspec")]
    first = score_generations(both, {"text-000": "abc"})
    assert calls == ["ab"]
    assert score_generations(both, {"text-000": "abc"}, known=first) == first
    assert calls == ["ab"]
    score_generations(both, {"text-000": "changed"}, known=first)
    assert calls == ["ab", "ab"]


def test_scores_keep_their_counts_and_signature() -> None:
    (score,) = score_generations([gen_record(text="ab")], {"text-000": "abc"})
    assert score.counts == {"edits": 1.0, "length": 3.0}
    assert score.signature == signatures()["text_ned"]


def test_sample_without_reference_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="not in the suite"):
        score_generations([gen_record()], {})


def test_scorer_id_changes_with_any_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    before = scorer_id()
    monkeypatch.setitem(
        CROP_METRICS, "text", (CropMetric(name="text_ned", signature="other", worst=1.0, measure=crop_ned),)
    )
    assert scorer_id() != before


def test_formulas_have_a_tree_score_beside_their_edit_distance() -> None:
    record = gen_record(task="formula", text=r"\frac{a}{b}")
    ned, tree = score_generations([record], {"text-000": r"\frac{a}{c}"})
    assert (ned.metric, tree.metric) == ("formula_ned", "formula_tree")
    assert tree.value is not None and 0.0 < tree.value < 1.0


def test_two_blank_formulas_have_no_tree_score_and_say_so() -> None:
    _, tree = score_generations([gen_record(task="formula", text="")], {"text-000": ""})
    assert tree.value is None
    assert tree.reason == "the metric does not apply to this pair"
