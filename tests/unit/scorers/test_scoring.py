"""Scores of records: failures, repeats, reuse, and whose sample it is."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from run_support import gen_record

from gravbench.errors import DataError, NotComparableError
from gravbench.scorers.contract import Answer, Metric, Note, Sample, Score, Scorer
from gravbench.scorers.crops import CropScorer
from gravbench.scorers.scoring import ScorerSet, open_scorers
from gravbench.store.schema import GenError, GenRecord
from gravbench.suites.samples import Sample as Crop

CROPS = open_scorers(["crops"])
FAILED = GenRecord.model_validate(
    {
        **gen_record(sample_id="b").model_dump(),
        "status": "error",
        "error": GenError(kind="K", message="m", stage="generate"),
        "stop_reason": "error",
    }
)


def crop(reference: str, sample_id: str = "text-000", task: str = "text") -> Crop:
    return Crop(
        sample_id=sample_id,
        task=task,  # type: ignore[arg-type]
        image_path="x.png",
        image_sha256="0" * 64,
        reference=reference,
        attributes={},
    )


class Counting(CropScorer):
    """The crop scorer, which notes what it was asked for."""

    def __init__(self, signature: str | None = None) -> None:
        self.asked: list[Sequence[Answer]] = []
        if signature is not None:
            self.metrics = tuple(replace(m, signature=signature) for m in CropScorer.metrics)

    def score(self, sample: Sample, answers: Sequence[Answer]) -> list[list[Score]]:
        self.asked.append(answers)
        return super().score(sample, answers)


def test_failed_sample_scores_worst_and_stays_in_the_mean() -> None:
    records = [gen_record(sample_id="a", text="ab"), FAILED]
    scores = CROPS.score(records, [crop("ab", "a"), crop("ab", "b")])
    assert CROPS.aggregate(scores) == {"text_ned": 0.5}
    assert [(s.failed, s.reason) for s in scores] == [(False, None), (True, "K: m")]


def test_equal_texts_are_scored_once() -> None:
    counting = Counting()
    scorers, both = ScorerSet((counting,)), [gen_record(arm="ar"), gen_record(arm="selfspec")]
    first = scorers.score(both, [crop("abc")])
    assert len(counting.asked) == 1
    assert scorers.score(both, [crop("abc")], known=first) == first
    assert len(counting.asked) == 1
    scorers.score(both, [crop("changed")], known=first)
    assert len(counting.asked) == 2


def test_stored_scores_of_another_signature_are_not_taken_over() -> None:
    known = CROPS.score([gen_record()], [crop("abc")])
    changed = Counting(signature="other")
    (score,) = ScorerSet((changed,)).score([gen_record()], [crop("abc")], known=known)
    assert (score.signature, len(changed.asked)) == ("other", 1)


@pytest.mark.parametrize(("machine", "asked"), [(True, 1), (False, 0)])
def test_a_stored_score_that_a_fault_of_the_machine_made_is_made_again(machine: bool, asked: int) -> None:
    note = Note(element="predicted LaTeX table 0", reason="latexmlc is not installed", machine=machine)
    known = [s.model_copy(update={"notes": (note,)}) for s in CROPS.score([gen_record()], [crop("abc")])]
    counting = Counting()
    (score,) = ScorerSet((counting,)).score([gen_record()], [crop("abc")], known=known)
    assert (len(counting.asked), score.notes) == (asked, () if machine else (note,))


def test_a_scorer_sees_all_repeats_of_a_sample_with_their_status() -> None:
    counting = Counting()
    failed = FAILED.model_copy(update={"sample_id": "text-000", "rep": 1})
    scores = ScorerSet((counting,)).score([failed, gen_record(text="ab")], [crop("ab")])
    assert counting.asked == [[Answer("ab"), Answer(FAILED.text, failed=True)]]
    assert [(s.rep, s.value) for s in scores] == [(0, 0.0), (1, 1.0)]


def test_scores_keep_their_counts_and_signature() -> None:
    (score,) = CROPS.score([gen_record(text="ab")], [crop("abc")])
    assert score.counts == {"edits": 1.0, "length": 3.0}
    assert score.signature == CROPS.metrics["text_ned"].signature


def test_sample_that_the_suite_lacks_is_not_comparable() -> None:
    with pytest.raises(NotComparableError, match="not in the suite"):
        CROPS.score([gen_record()], [])


def test_a_sample_that_no_scorer_takes_is_a_data_error() -> None:
    with pytest.raises(DataError, match="no metric for a sample of task 'page'"):
        CROPS.of("page")


def test_formulas_have_a_tree_score_beside_their_edit_distance() -> None:
    record = gen_record(task="formula", text=r"\frac{a}{b}")
    ned, tree = CROPS.score([record], [crop(r"\frac{a}{c}", task="formula")])
    assert (ned.metric, tree.metric) == ("formula_ned", "formula_tree")
    assert tree.value is not None and 0.0 < tree.value < 1.0


def test_two_blank_formulas_have_no_tree_score_and_say_so() -> None:
    _, tree = CROPS.score([gen_record(task="formula", text="")], [crop("", task="formula")])
    assert tree.value is None
    assert tree.reason == "the metric does not apply to this pair"


def test_two_scorers_of_one_task_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Scorer):
        name = "other"
        metrics = (
            Metric(
                name="passed",
                label="passed",
                direction="higher",
                definition="d",
                signature="s",
                tasks=("text",),
            ),
        )

        def score(self, _sample: Sample, _answers: Sequence[Answer]) -> list[list[Score]]:
            return []

    made = {"crops": CropScorer, "other": Other}
    monkeypatch.setattr("gravbench.scorers.scoring.open_scorer", lambda name: made[name]())
    with pytest.raises(DataError, match="both score text"):
        open_scorers(["crops", "other"])
