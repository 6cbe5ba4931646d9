"""Every promise of exact decoding, on the table-driven toy where each count is known by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.backends.toy import EOS, MASK, ToyModel, ToyTable
from gravbench.decoding.decode_loop import Decoded, decode_request
from gravbench.decoding.strategies import parse_strategy
from gravbench.decoding.tracing import TraceRecorder
from gravbench.records import Request, Trace

REQUEST = Request(request_id="r", sample_id="s", task="text", image_path="none", max_new_tokens=1)
LONG = tuple(2 + i * 7 % 90 for i in range(90))


def run(
    script: tuple[int, ...], strategy: str, *, budget: int = 1000, **table: object
) -> tuple[Decoded, Trace]:
    settings = {"wrong_positions": (), **table}
    model = ToyModel(ToyTable.model_validate(settings), script_of=lambda _: script)
    trace = TraceRecorder(lambda: 0)
    decoded = decode_request(model, REQUEST, strategy=parse_strategy(strategy), budget=budget, trace=trace)
    return decoded, trace.finish(tokens_out=len(decoded.tokens))


def check_identities(trace: Trace, *, block: int, legacy: bool) -> None:
    c, r = trace.counters, trace.rounds
    assert c.decode_tokens + c.tokens_discarded_after_stop == c.draft_accepted + c.ar_tokens
    assert c.rows_draft == c.fwd_draft * (block + 1)
    assert c.rows_verify == c.fwd_verify * (block + 1)
    assert c.fwd_draft == c.rounds and c.fwd_verify in (c.rounds, c.rounds - 1)
    assert c.draft_offered == c.fwd_verify * (block - 1 if legacy else block)
    for accepted, committed in list(zip(r.accepted, r.committed, strict=True))[:-1]:
        bonus = 1 if legacy and accepted == block - 1 else 2
        assert committed == accepted + bonus


@given(
    length=st.integers(0, 40),
    block=st.integers(1, 33),
    legacy=st.booleans(),
    budget=st.integers(1, 50),
    wrong_slots=st.sets(st.integers(1, 33)),
    wrong_positions=st.sets(st.integers(0, 45)),
    mask_id=st.sampled_from([MASK, 5]),
)
def test_selfspec_gives_the_tokens_of_ar(
    length: int,
    block: int,
    legacy: bool,
    budget: int,
    wrong_slots: set[int],
    wrong_positions: set[int],
    mask_id: int,
) -> None:
    script = (*LONG[:length], EOS)
    table = {
        "wrong_slots": tuple(wrong_slots),
        "wrong_positions": tuple(wrong_positions),
        "mask_token_id": mask_id,
    }
    expected, _ = run(script, "ar", budget=budget)
    decoded, trace = run(script, f"selfspec:block={block},legacy={int(legacy)}", budget=budget, **table)
    assert decoded == expected
    assert decoded.tokens == script[:budget]
    check_identities(trace, block=block, legacy=legacy)


@pytest.mark.parametrize("block", [1, 4, 8, 32])
@pytest.mark.parametrize("legacy", [0, 1])
def test_every_eos_offset_and_every_wrong_slot(block: int, legacy: int) -> None:
    for offset in range(2 * block + 5):
        script = (*LONG[:offset], EOS)[: offset + 1]
        for slots in [(), tuple(range(1, block + 1)), *((j,) for j in range(1, block + 1))][
            :: 1 + block // 8
        ]:
            decoded, _ = run(script, f"selfspec:block={block},legacy={legacy}", wrong_slots=slots)
            assert decoded.tokens == script and decoded.stop_reason == "eos"


@pytest.mark.parametrize("block", [1, 4, 8, 32])
def test_every_budget_remainder(block: int) -> None:
    for remainder in range(1, block + 4):
        budget = 1 + (block + 2) + remainder  # the prefill's token, one full round, the remainder
        decoded, trace = run(LONG, f"selfspec:block={block}", budget=budget)
        assert decoded.tokens == LONG[:budget] and decoded.stop_reason == "length"
        assert trace.counters.tokens_out == budget


def test_an_always_right_draft_commits_b_plus_2_a_round() -> None:
    _, trace = run(LONG, "selfspec:block=8", budget=1 + 5 * 10)
    assert trace.rounds.committed == (10,) * 5
    assert trace.rounds.accepted == (8,) * 5
    assert trace.counters.decode_tokens / trace.counters.decode_forwards == (8 + 2) / 2
    assert trace.counters.tokens_discarded_after_stop == 0


def test_an_always_wrong_draft_commits_2_a_round() -> None:
    _, trace = run(LONG, "selfspec:block=8", budget=1 + 2 * 20, wrong_slots=tuple(range(1, 9)))
    c = trace.counters
    assert trace.rounds.committed == (2,) * 20
    assert c.draft_accepted == 0 and c.draft_offered == 160 and c.ar_tokens == 40
    assert c.decode_tokens == c.decode_forwards


def test_a_legacy_round_commits_at_most_b_and_has_no_bonus() -> None:
    _, trace = run(LONG, "selfspec:block=8,legacy=1", budget=1 + 8 * 4)
    assert trace.rounds.committed == (8,) * 4
    assert trace.rounds.offered == (7,) * 4 and trace.rounds.accepted == (7,) * 4


def test_eos_at_the_seed_skips_the_verify() -> None:
    decoded, trace = run((LONG[0], EOS), "selfspec:block=4")
    c = trace.counters
    assert decoded.tokens == (LONG[0], EOS)
    assert (c.rounds, c.fwd_draft, c.fwd_verify, c.draft_offered, c.ar_tokens) == (1, 1, 0, 0, 1)
    assert c.kv_rows_freed == 4


def test_truncation_lowers_committed_and_never_accepted() -> None:
    script = (*LONG[:4], EOS)  # prefill token, then a0, d_1, d_2 and EOS at d_3
    _, trace = run(script, "selfspec:block=8")
    # the drafts after EOS are EOS again, and so is the verifier: all eight are matched
    assert trace.rounds.accepted[0] >= 3 and trace.rounds.committed == (4,)
    c = trace.counters
    assert c.tokens_discarded_after_stop == c.draft_accepted + c.ar_tokens - 4


def test_eos_as_correction_and_as_bonus() -> None:
    correction, _ = run((*LONG[:3], EOS), "selfspec:block=4", wrong_slots=(2,))
    bonus, trace = run((*LONG[:6], EOS), "selfspec:block=4")
    assert correction.stop_reason == bonus.stop_reason == "eos"
    assert trace.rounds.accepted == (4,) and trace.rounds.committed == (6,)
    assert trace.counters.tokens_discarded_after_stop == 0


def test_a_response_of_one_token_has_no_decode_forwards() -> None:
    for strategy in ("ar", "selfspec"):
        decoded, trace = run((EOS,), strategy)
        assert decoded.tokens == (EOS,) and trace.counters.decode_forwards == 0


def test_ar_costs_one_forward_a_token() -> None:
    decoded, trace = run((*LONG[:20], EOS), "ar")
    c = trace.counters
    assert c.fwd_verify == len(decoded.tokens) - 1 == c.rounds == c.rows_verify
    assert c.fwd_draft == 0 and set(trace.rounds.offered) == {0}


def test_the_positions_of_the_model_cut_the_budget_for_every_strategy() -> None:
    for strategy in ("ar", "selfspec:block=4"):
        decoded, _ = run(LONG, strategy, max_positions=20)  # the toy's prefix takes 12
        assert decoded.tokens == LONG[:8] and decoded.stop_reason == "length"


def test_the_loop_flag_never_stops_and_agrees_between_strategies() -> None:
    script = (*(7, 9) * 40, EOS)
    flags = {strategy: run(script, strategy)[0] for strategy in ("ar", "selfspec:block=8")}
    assert all(d.loop_flag and d.stop_reason == "eos" and d.tokens == script for d in flags.values())


def test_the_trace_of_a_run_survives_validation_after_a_copy() -> None:
    decoded, trace = run(LONG, "selfspec:block=4", budget=30)
    assert Trace.model_validate_json(trace.model_dump_json()) == trace
    assert replace(decoded) == decoded
