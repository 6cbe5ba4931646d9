from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from run_support import gen_record

from gravbench.analysis.identity import audit
from gravbench.backends.referee import StepModelReferee, measured_tau, next_logits, open_step_model
from gravbench.backends.toy import EOS, ToyModel, ToyTable, encode
from gravbench.errors import NotComparableError
from gravbench.records import Request

TEXT = "a line of text that is longer than one window"


def request(sample_id: str = "s") -> Request:
    return Request(request_id="r", sample_id=sample_id, task="text", image_path="none", max_new_tokens=99)


def model() -> ToyModel:
    return ToyModel(ToyTable(), script_of=lambda _request: encode(TEXT))


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_teacher_forcing_finds_the_next_token_in_windows_of_any_size(rows: int) -> None:
    script = encode(TEXT)
    for length in (0, 1, 7, len(script) - 1):
        logits = next_logits(model(), request(), script[:length], rows=rows)
        assert int(logits.argmax()) == script[length]


def test_opinion_names_gap_and_ranks() -> None:
    script = encode(TEXT)
    opinion = StepModelReferee(model(), lambda _id: request()).judge(
        "s", script[:4], base_id=script[4], own_id=script[4] + 1
    )
    assert (opinion.gap, opinion.base_rank, opinion.own_rank) == (1.0, 1, 2)
    assert opinion.top_ids == (script[4], script[4] + 1)


def test_integer_logits_leave_no_tie_so_a_changed_token_is_a_violation() -> None:
    script = encode(TEXT)
    wrong = (*script[:4], script[4] + 1, EOS)
    pair = gen_record(token_ids=script), gen_record(token_ids=wrong)
    found = audit([pair], referee=StepModelReferee(model(), lambda _id: request()))
    assert found.classes == {"violation": 1}


def test_exact_model_has_no_noise() -> None:
    exact = model()
    assert measured_tau(exact, exact, request, {"s": encode(TEXT)}, window_rows=9) == 0.0
    assert measured_tau(exact, exact, request, {}, window_rows=9) == 0.0


class Coarse(ToyModel):
    """The toy with every winner's logit off by a quarter: its top-two gap is 1.25 instead of 1."""

    @staticmethod
    def _logits(winners: Sequence[int]) -> torch.Tensor:
        logits = ToyModel._logits(winners)
        return torch.where(logits == 2, 2.25, logits)


def test_noise_is_what_the_run_and_the_exact_pass_disagree_by() -> None:
    coarse = Coarse(ToyTable(), script_of=lambda _request: encode(TEXT))
    assert measured_tau(coarse, model(), request, {"s": encode(TEXT)}, window_rows=9) == 0.25


def test_referee_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(ToyTable().model_dump_json())
    assert open_step_model("toy", table, dtype="float32") is not None
    with pytest.raises(NotComparableError, match="digest"):
        open_step_model("toy", table, dtype="float32", expected_digest="0" * 64)
