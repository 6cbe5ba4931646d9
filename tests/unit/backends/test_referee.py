from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
import torch
from run_support import gen_record, with_trace
from strategy_support import ARMS, together, with_files

from gravbench.analysis.certificate import Certificate, certify
from gravbench.analysis.identity import TAU_FLOAT32, audit
from gravbench.backends.referee import (
    StepModelReferee,
    measured_tau,
    next_logits,
    open_step_model,
    token_gaps,
)
from gravbench.backends.toy import EOS, ToyModel, ToyTable, encode
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.decode_loop import Decoded, decode_request
from gravbench.decoding.drafting import block_draft, draft_setting, ended_by_seed, matched_prefix
from gravbench.decoding.protocols import Lane, Round, StateT, StepModel, Strategy
from gravbench.decoding.selfspec import EXTRA, SelfSpeculative
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Step, causal_window
from gravbench.errors import NotComparableError
from gravbench.protocols import ForcedPass
from gravbench.records import Request, Trace

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


class Faulty(SelfSpeculative):
    """The full-draft round with a verifier that is wrong in one way."""

    def judged(self, drafts: list[int], verified: list[int]) -> tuple[int, list[int]]:
        """How many drafts count as accepted, and what the verifier is taken to have said."""
        raise NotImplementedError

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("selfspec", self.block, lane.info)
        a0, *drafts = (yield block_draft(lane, block, mask_id)).tokens
        if ended_by_seed(lane, a0):
            return
        lane.keep(1)
        said = (yield Step("verify", causal_window((a0, *drafts)))).tokens
        accepted, verified = self.judged(drafts, list(said))
        committed = lane.commit([a0, *drafts[:accepted], verified[accepted]])
        lane.keep(committed - 1)
        lane.trace.round(seeds=1, offered=len(drafts), accepted=accepted, extra=EXTRA)


class Unverified(Faulty):
    """The first draft is committed whatever the verifier says."""

    def judged(self, drafts: list[int], verified: list[int]) -> tuple[int, list[int]]:
        return max(1, matched_prefix(drafts, verified)), verified


class RowLate(Faulty):
    """Every row of the verifier is taken for the one before it."""

    def judged(self, drafts: list[int], verified: list[int]) -> tuple[int, list[int]]:
        late = [*verified[1:], verified[-1]]
        return matched_prefix(drafts, late), late


def decoded(model: StepModel[StateT], ask: Request, strategy: Strategy, budget: int) -> tuple[Decoded, Trace]:
    trace = TraceRecorder(lambda: 0)
    with torch.inference_mode():
        found = decode_request(model, ask, strategy=strategy, budget=budget, trace=trace)
    return found, trace.finish(tokens_out=len(found.tokens))


def certificate(
    model: StepModel[StateT], ask: Request, found: Decoded, trace: Trace, *, tau: float = TAU_FLOAT32
) -> Certificate:
    record = with_trace(gen_record(token_ids=found.tokens), trace, max_new_tokens=999)
    forced = ForcedPass(
        precision="float32", tau=tau, gaps=lambda _name, ids: token_gaps(model, ask, ids, rows=7)
    )
    return certify("selfspec", [record], forced)


def check_fault(model: StepModel[StateT], ask: Request, fault: Faulty, budget: int) -> bool:
    """Whether the fault changed the answer; then it is found, and begins where the answers part."""
    right, right_trace = decoded(model, ask, SelfSpeculative(block=fault.block), budget)
    honest = certificate(model, ask, right, right_trace)
    assert (honest.tokens, honest.argmax, honest.exceptions) == (len(right.tokens), len(right.tokens), ())
    wrong, trace = decoded(model, ask, fault, budget)
    found = certificate(model, ask, wrong, trace)
    if wrong.tokens == right.tokens:
        assert not found.violations
        return False
    parted = next(
        (n for n, pair in enumerate(zip(right.tokens, wrong.tokens, strict=False)) if pair[0] != pair[1])
    )
    first = found.exceptions[0]
    assert found.violations and found.share is not None and found.share < 1
    assert (first.position, first.token_id, first.best_id) == (
        parted,
        wrong.tokens[parted],
        right.tokens[parted],
    )
    assert trace.rounds is not None and first.round is not None
    assert (
        1 + sum(trace.rounds.committed[: first.round])
        <= parted
        < 1 + sum(trace.rounds.committed[: first.round + 1])
    )
    if isinstance(fault, Unverified):
        assert set(found.by_origin) == {"draft"}
    return True


@pytest.mark.parametrize("kind", [Unverified, RowLate])
def test_a_fault_of_the_verifier_is_found_in_every_case(kind: type[Faulty]) -> None:
    changed = 0
    for block, wrong in product((2, 4, 7), ((), (3,), (2, 5, 6, 9), tuple(range(40)))):
        toy = ToyModel(ToyTable(wrong_positions=wrong), script_of=lambda _request: encode(TEXT))
        changed += check_fault(toy, request(), kind(block=block), budget=40)
    assert changed >= 6  # the others draft nothing wrong in the first place of a round


@pytest.mark.parametrize("kind", [Unverified, RowLate])
def test_a_fault_is_found_on_a_network(
    backend: TransformersLocal, make_request: Callable[..., Request], kind: type[Faulty]
) -> None:
    changed = [
        check_fault(backend.step_model, make_request(variant=n), kind(block=4), budget=24) for n in range(3)
    ]
    assert any(changed)


def exact_arms(tmp_path: Path) -> Iterator[str]:
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"sample_id": "0", "text": "a line"}\n')
    yield from (with_files(arm, texts) for arm in ("ar", "selfspec:block=4", *ARMS))


def test_honest_strategies_have_no_exception_and_every_token_a_place(tmp_path: Path) -> None:
    script = encode(TEXT)
    for arm in exact_arms(tmp_path):
        ((found, trace),) = together([script], arm, budgets=[99], batch=1, wrong_slots=(2,))
        toy = ToyModel(ToyTable(), script_of=lambda _request: script)
        honest = certificate(toy, request(), found, trace)
        assert (honest.argmax, honest.exceptions, honest.worst_gap) == (len(script), (), 0), arm


def test_honest_runs_in_bfloat16_are_near_ties_at_most(
    checkpoint: Path, backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    half = TransformersLocal(checkpoint, dtype="bfloat16")
    asked = {str(n): make_request(variant=n) for n in range(3)}
    answers = {
        name: decoded(half.step_model, ask, parse_strategy("selfspec:block=4"), 32)
        for name, ask in asked.items()
    }
    outputs = {name: found.tokens for name, (found, _) in answers.items()}
    tau = measured_tau(half.step_model, backend.step_model, asked.__getitem__, outputs, window_rows=5)
    assert 0 < tau < 0.5
    for model in (half.step_model, backend.step_model):
        for name, (found, trace) in answers.items():
            own = certificate(model, asked[name], found, trace, tau=tau)
            assert own.violations == 0 and own.tokens == own.argmax + own.near_ties


def test_a_near_tie_is_an_exception_that_passes() -> None:
    script = encode(TEXT)
    wrong = (*script[:4], script[4] + 1)
    ids = gen_record(token_ids=wrong)
    toy = model()
    for tau, near in ((1.0, 1), (0.9, 0)):
        forced = ForcedPass(
            precision="float32", tau=tau, gaps=lambda _n, own: token_gaps(toy, request(), own)
        )
        own = certify("ar", [ids], forced)
        assert (own.near_ties, own.violations, own.worst_gap) == (near, 1 - near, 1.0)
        assert own.share == (5 if near else 4) / 5
