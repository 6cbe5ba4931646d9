"""Drift, steadiness, cost model, Amdahl: planted effects are measured, and intervals cover them."""

import math

import numpy as np
import pytest
from run_support import gen_record, rounds_of, with_trace
from scipy import stats as scipy_stats
from verdict_support import share_with_interval

from gravbench.analysis.bootstrap import Floats
from gravbench.analysis.loaded import Unit
from gravbench.analysis.speed import (
    cost_per_forward,
    fitted_slope,
    measure_drift,
    measure_steadiness,
    steadiness_of,
)
from gravbench.analysis.stages import CostModel, RoundPart, amdahl, cost_model, shortfall
from gravbench.records import Counters, Times, Trace
from gravbench.store.schema import GenRecord


def timed(arm: str, *, slot: int, per_forward: float, rounds: int = 10, extra_ns: int = 0) -> GenRecord:
    """A record whose decode time is `per_forward` times its forwards. The spec arm commits 5 a round."""
    spec = arm != "ar"
    committed = 5 if spec else 1
    steps = rounds if spec else rounds * 5
    forwards = steps * (2 if spec else 1)
    decode = int(per_forward * forwards)
    half = int(decode * 0.45)
    trace = Trace(
        counters=Counters(
            tokens_out=steps * committed + 1,
            rounds=steps,
            fwd_draft=steps if spec else 0,
            fwd_verify=steps,
            rows_draft=17 * steps if spec else 0,
            rows_verify=17 * steps if spec else steps,
            draft_offered=16 * steps if spec else 0,
            draft_accepted=3 * steps if spec else 0,
        ),
        rounds=rounds_of((16 if spec else 0,) * steps, (3 if spec else 0,) * steps, (committed,) * steps),
        times=Times(
            image_ns=0,
            vision_ns=1000,
            prefill_ns=2000,
            draft_ns=half if spec else None,
            verify_ns=half if spec else decode,
            decode_ns=decode,
            total_ns=decode + 3000 + extra_ns,
        ),
    )
    record = gen_record(arm=arm, token_ids=tuple(range(1, steps * committed + 2)))
    return with_trace(record, trace, slot=slot, sample_id=str(slot // 2))


def units(
    n: int, rng: np.random.Generator, *, drift: float = 0.0, noise: float = 0.05, cold: int = 0
) -> list[Unit]:
    """Pairs whose spec forwards get cheaper by `drift` (a log) over the run; the first `cold` cost double."""
    found = []
    for i in range(n):
        change = drift * i / (n - 1) + rng.normal(0, noise)
        own = 100_000 * math.exp(-change) * (2 if i < cold else 1)
        records = {
            "ar": timed("ar", slot=2 * i, per_forward=60_000),
            "selfspec": timed("selfspec", slot=2 * i + 1, per_forward=own),
        }
        found.append(Unit(sample_id=str(i), rep=0, task="text", records=records))
    return found


def test_drift_interval_covers_the_planted_drift() -> None:
    hits, trials = 0, 60
    for trial in range(trials):
        found = measure_drift(units(24, np.random.default_rng(trial), drift=0.06), "ar", "selfspec")
        assert found is not None
        hits += found.low <= math.expm1(0.06) <= found.high
    _, low, high = share_with_interval(hits, trials)
    assert low <= 0.95 <= high


def test_planted_drift_is_called_and_its_absence_is_not() -> None:
    rng = np.random.default_rng(1)
    drifting = measure_drift(units(60, rng, drift=0.3), "ar", "selfspec")
    still = measure_drift(units(60, rng), "ar", "selfspec")
    assert drifting is not None
    assert still is not None
    assert (drifting.drifting, still.drifting) == (True, False)


def test_drift_is_the_regression_of_scipy() -> None:
    found = units(40, np.random.default_rng(3), drift=0.1)
    slots, costs = cost_per_forward(found, "ar", "selfspec")
    line = scipy_stats.linregress(slots, np.log(costs[:, 0] / costs[:, 1]))
    half = scipy_stats.t.ppf(0.975, len(slots) - 2) * line.stderr
    drift = measure_drift(found, "ar", "selfspec")
    assert drift is not None
    wanted = np.expm1((slots[-1] - slots[0]) * np.array((line.slope, line.slope - half, line.slope + half)))
    assert (drift.change, drift.low, drift.high) == pytest.approx(tuple(wanted), rel=1e-12)


def test_what_does_not_vary_has_no_slope_and_what_lies_on_a_line_no_error() -> None:
    slots = np.arange(30.0)
    assert fitted_slope(slots, np.full(30, 0.5)) == (0.0, 0.0)
    assert fitted_slope(slots, 2 * slots) == pytest.approx((2.0, 0.0), abs=1e-7)


def test_few_pairs_say_nothing_about_drift() -> None:
    few = units(5, np.random.default_rng(0))
    assert measure_drift(few, "ar", "selfspec") is None
    assert measure_steadiness(few, "ar", "selfspec") is None


def test_cold_start_shows_in_the_first_block() -> None:
    cold = measure_steadiness(units(60, np.random.default_rng(2), noise=0.002, cold=10), "ar", "selfspec")
    assert cold is not None
    assert cold.warm_up == pytest.approx(-0.5, abs=0.02)
    assert cold.steady and cold.cold_start


def test_unsteady_end_is_called() -> None:
    found = measure_steadiness(units(60, np.random.default_rng(2), noise=0.002, drift=0.4), "ar", "selfspec")
    assert found is not None
    assert not found.steady


def noisy_costs(n: int, seed: int, *, noise: float) -> Floats:
    """Costs per forward of two arms, of which the second varies from pair to pair."""
    rng = np.random.default_rng(seed)
    return np.column_stack((np.full(n, 60_000.0), 100_000 * np.exp(rng.normal(0, noise, n))))


def test_chance_alone_is_called_unsteady_no_oftener_than_its_level() -> None:
    """Pairs with noise of 20 %: the last three blocks of ten nearly always lie more than 2 % apart."""
    trials = 400
    found = [steadiness_of(noisy_costs(60, trial, noise=0.2)) for trial in range(trials)]
    steady = [one for one in found if one is not None]
    assert len(steady) == trials
    assert sum(one.last_three_spread > 0.02 for one in steady) / trials > 0.9
    for alarms in (sum(not one.steady for one in steady), sum(bool(one.cold_start) for one in steady)):
        assert alarms / trials <= 0.07, share_with_interval(alarms, trials)


def test_ten_percent_at_the_end_is_found() -> None:
    """The last of six blocks of twenty costs a tenth more, against noise of 5 % a pair."""
    missed = 0
    for trial in range(100):
        costs = noisy_costs(120, trial, noise=0.05)
        costs[100:, 1] *= 1.1
        found = steadiness_of(costs)
        missed += found is None or found.steady
    assert missed <= 5


def pairs() -> list[tuple[GenRecord, GenRecord]]:
    return [(u.records["ar"], u.records["selfspec"]) for u in units(4, np.random.default_rng(0), noise=0)]


def test_cost_model_by_hand_from_traces() -> None:
    """A round: 2 forwards of 100 us, of which 90 % is inside draft and verify; c(1) = 60 us; 5 tokens."""
    model = cost_model(pairs())
    assert model is not None
    assert model.round_cost == pytest.approx(180 / 60)
    assert model.predicted == pytest.approx(5 / 3)
    assert model.measured == pytest.approx(50 * 60 / (10 * 200))
    assert model.residual == pytest.approx(0.9 - 1)
    assert (model.rows_per_draft, model.rows_per_verify) == (17, 17)


def test_a_round_is_told_by_its_forwards_and_what_is_outside_them() -> None:
    model = cost_model(pairs())
    assert model is not None and model.parts is not None
    made = {kind: (part.forwards, part.rows) for kind, part in model.parts.items()}
    assert made == {"draft": (1, 17), "verify": (1, 17)}
    assert model.parts["verify"].cost == pytest.approx(90 / 60)
    assert model.outside == pytest.approx(20 / 60)
    assert model.tau_round / (model.round_cost + (model.outside or 0)) == pytest.approx(model.measured)


def told(tokens: float, *, each: float, head: float = 0.0, outside: float = 0.0) -> CostModel:
    """Two forwards a round that cost `each`, a step of a head, and what is outside them."""
    parts = {
        "verify": RoundPart(forwards=2, rows=9, cost=each),
        "head": RoundPart(forwards=1, rows=1, cost=head),
    }
    cost = 2 * each + head
    return CostModel(
        source="traces", tau_round=tokens, rows_per_draft=None, rows_per_verify=9, round_cost=cost,
        predicted=tokens / cost, measured=tokens / (cost + outside), residual=0, parts=parts, outside=outside,
    )  # fmt: skip


def test_what_keeps_a_strategy_below_twofold_is_the_first_ceiling_below_it() -> None:
    assert shortfall(told(6, each=1.5)) is None
    assert (shortfall(told(3.9, each=1)) or "").startswith("tokens: 1.95 a forward")
    assert shortfall(told(6, each=1.6)) == "c(Q): 2.00 forwards of 1.60 c(1), and 2× allows 3.00 c(1) a round"
    assert (shortfall(told(6, each=1.4, head=0.4)) or "").startswith(
        "head: 0.40 c(1) beside forwards of 2.80"
    )
    assert (shortfall(told(6, each=1.4, outside=0.3)) or "").startswith("outside forwards: 0.30 c(1)")


def test_cost_model_reads_a_table_between_its_entries() -> None:
    model = cost_model(pairs(), table={1: 1.0, 16: 1.4, 18: 1.6})
    assert model is not None
    assert model.round_cost == pytest.approx(2 * 1.5)
    assert model.source == "table"


def test_a_table_of_single_requests_says_nothing_of_a_batch() -> None:
    batched = [(a, b.model_copy(update={"arm": "selfspec:batch=4"})) for a, b in pairs()]
    model = cost_model(batched, table={1: 1.0, 16: 1.4, 18: 1.6})
    assert model == cost_model(pairs()) and model is not None and model.source == "traces"


def test_cost_model_needs_two_row_counts() -> None:
    with pytest.raises(ValueError, match="two row counts"):
        cost_model(pairs(), table={1: 1.0})


def test_nothing_timed_has_no_model() -> None:
    assert cost_model([]) is None
    assert amdahl([]) is None


def test_amdahl_by_hand() -> None:
    """3 us of vision and prefill beside decoding, in both arms: the prediction is exact."""
    found = amdahl(pairs())
    assert found is not None
    assert found.predicted == pytest.approx(found.measured)
    assert sum(found.base_shares.values()) == pytest.approx(1)
    decode = 50 * 60_000
    assert found.base_shares["decode"] == pytest.approx(decode / (decode + 3000))
