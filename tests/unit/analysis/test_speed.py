import pytest
from run_support import AR_STEP_NS, PREFILL_NS, ROUND_NS, gen_record, with_times

from gravbench.analysis.bootstrap import independent
from gravbench.analysis.counters import CounterSummary, summarise_counters
from gravbench.analysis.identity import count_identical
from gravbench.analysis.loaded import Unit
from gravbench.analysis.speed import decode_ns, request_ns, speedup
from gravbench.store.schema import GenError, GenRecord, canonical_json

IDS = (*range(1, 13), 0)  # 13 tokens out: 12 decode tokens


def failed(arm: str) -> GenRecord:
    data = gen_record(arm=arm).model_dump()
    error = GenError(kind="ImageError", message="does not decode", stage="generate")
    return GenRecord.model_validate({**data, "status": "error", "error": error, "stop_reason": "error"})


def test_counters_by_hand() -> None:
    """12 decode tokens in rounds of 4 accepted + 2: two rounds, four forwards."""
    counters = summarise_counters([gen_record(token_ids=IDS, text="x" * 10, block=8, accepted=4)])
    assert (counters.rounds, counters.decode_forwards, counters.decode_tokens) == (2, 4, 12)
    assert counters.tpf_all == 3.0
    assert counters.accepted_draft == 4.0
    assert counters.tau_round == 6.0
    assert counters.acceptance_rate == 0.5
    assert counters.chars_per_forward == 2.5


def test_ar_has_one_token_per_forward_and_no_acceptance_rate() -> None:
    counters = summarise_counters([gen_record(token_ids=IDS)])
    assert (counters.tpf_all, counters.tau_round, counters.accepted_draft) == (1.0, 1.0, 0.0)
    assert counters.acceptance_rate is None


def test_acceptance_stands_among_the_counters() -> None:
    """Two rounds of 8 offered and 4 accepted: the fifth draft is the first rejected, in both."""
    counters = summarise_counters([gen_record(token_ids=IDS, arm="selfspec", block=8, accepted=4)])
    assert counters.tau_bonus == 5.0
    assert counters.accept_hist == {4: 2}
    assert counters.pos_accept == {1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 5: 0.0}
    assert counters.first_reject_pos == {5: 2}


def test_without_drafts_acceptance_was_not_measured() -> None:
    stored = summarise_counters([gen_record(token_ids=IDS)]).model_dump(mode="json", exclude_none=True)
    assert not stored.keys() & {"tau_bonus", "accept_hist", "pos_accept", "first_reject_pos"}


def test_stored_counters_read_back_as_they_were() -> None:
    counters = summarise_counters([gen_record(token_ids=IDS, arm="selfspec", block=8, accepted=4)])
    stored = canonical_json(counters.model_dump(mode="json", exclude_none=True))
    assert CounterSummary.model_validate_json(stored) == counters


def test_ratios_are_of_sums_over_samples() -> None:
    long, short = (
        gen_record(token_ids=IDS, block=8, accepted=4),
        gen_record(token_ids=(5, 0), block=8, accepted=4),
    )
    assert summarise_counters([long, short]).tpf_all == pytest.approx(13 / 6)


def test_nothing_decoded_gives_no_ratio() -> None:
    counters = summarise_counters([gen_record(token_ids=(0,), text="")])
    assert (counters.tpf_all, counters.tau_round, counters.tokens_out) == (None, None, 1)


def pair_of(base: GenRecord, own: GenRecord) -> Unit:
    return Unit(sample_id=base.sample_id, rep=0, task="text", records={"ar": base, "selfspec": own})


def test_speedups_by_hand() -> None:
    unit = pair_of(gen_record(token_ids=IDS), gen_record(token_ids=IDS, arm="selfspec", block=8, accepted=4))
    decode = speedup([unit], "ar", "selfspec", decode_ns, design=independent(1), seed=0)
    request = speedup([unit], "ar", "selfspec", request_ns, design=independent(1), seed=0)
    assert decode is not None
    assert request is not None
    assert decode.value == 12 * AR_STEP_NS / (2 * ROUND_NS) == 3.0
    assert request.value == (PREFILL_NS + 12 * AR_STEP_NS) / (PREFILL_NS + 2 * ROUND_NS)


def test_failed_pairs_give_no_time() -> None:
    unit = pair_of(gen_record(), failed("selfspec"))
    assert speedup([unit], "ar", "selfspec", decode_ns, design=independent(1), seed=0) is None


def test_identity_needs_equal_ids_and_equal_stop() -> None:
    base = gen_record(token_ids=IDS)
    stopped = GenRecord.model_validate({**base.model_dump(), "stop_reason": "length"})
    other = gen_record(token_ids=(*IDS[:-2], 99, 0))
    identity = count_identical([(base, base), (base, stopped), (base, other)])
    assert (identity.n, identity.of, identity.share) == (1, 3, pytest.approx(1 / 3))


def test_one_sided_failure_differs_and_two_sided_failure_says_nothing() -> None:
    assert count_identical([(gen_record(), failed("x"))]).share == 0.0
    assert count_identical([(failed("ar"), failed("x"))]).share is None


def test_how_full_batches_were_is_forwards_over_their_shares() -> None:
    records = [record_with_share(share) for share in (1.0, 0.5)]
    forwards = sum(r.counters.decode_forwards for r in records if r.counters is not None)
    found = summarise_counters(records).requests_per_forward
    assert found == forwards / 1.5
    assert summarise_counters([gen_record()]).requests_per_forward is None


def record_with_share(share: float) -> GenRecord:
    return with_times(gen_record(), forward_share=share)
