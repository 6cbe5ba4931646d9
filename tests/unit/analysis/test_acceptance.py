import numpy as np
import pytest
from run_support import gen_record, rounds_of, with_trace

from gravbench.analysis.counters import acceptance
from gravbench.records import Counters, Times, Trace
from gravbench.store.schema import GenRecord


def record(rounds: list[tuple[int, int, int]], *, arm: str = "selfspec", seeds: int = 1) -> GenRecord:
    """Rounds as (offered, accepted, committed)."""
    offered, accepted, committed = zip(*rounds, strict=True)
    tokens = sum(committed) + 1
    trace = Trace(
        counters=Counters(
            tokens_out=tokens,
            rounds=len(rounds),
            fwd_draft=sum(n > 0 for n in offered),
            fwd_verify=len(rounds),
            draft_offered=sum(offered),
            draft_accepted=sum(accepted),
        ),
        rounds=rounds_of(offered, accepted, committed, seeds=seeds),
        times=Times(),
    )
    base = gen_record(arm=arm, token_ids=tuple(range(1, tokens + 1)))
    return with_trace(base, trace)


def test_histogram_and_positions_by_hand() -> None:
    """Two full rounds of 4: accepted 4 and 1. Position 2 is reached twice and accepted once."""
    found = acceptance([record([(4, 4, 6), (4, 1, 3)])])
    assert found is not None
    assert found.histogram == {1: 1, 4: 1}
    by_position = {p.position: p for p in found.positions}
    assert (by_position[1].unconditional, by_position[2].unconditional) == (1.0, 0.5)
    assert (by_position[2].conditional, by_position[3].conditional) == (0.5, 1.0)


def test_round_cut_by_the_end_leaves_the_risk_set_behind_its_last_token() -> None:
    """The last round accepted 4, but only seed and 2 drafts were committed: 3 and 4 are censored."""
    found = acceptance([record([(4, 4, 6), (4, 4, 3)])])
    assert found is not None
    at_risk = {p.position: p.at_risk for p in found.positions}
    assert at_risk == {1: 2, 2: 2, 3: 1, 4: 1}
    assert all(p.unconditional == 1.0 for p in found.positions)


def test_plain_ar_has_no_acceptance() -> None:
    assert acceptance([gen_record()]) is None


def test_every_request_of_a_page_may_end_in_a_cut_round() -> None:
    """Rounds of two regions one after another: the cut in the middle censors as one at the end does."""
    found = acceptance([record([(4, 4, 3), (4, 1, 3)])])
    assert found is not None
    assert {p.position: p.at_risk for p in found.positions} == {1: 2, 2: 2, 3: 1, 4: 1}
    assert found.conditional == {1: 1.0, 2: 0.5}
    assert found.first_rejections == {2: 1}


def test_survival_is_right_where_ends_cut_rounds_and_rejections_do_not() -> None:
    """Every draft is accepted with 0.9; outputs end after 20 tokens on average, often inside a round.

    The share of the rounds at risk is too low by a tenth at position 8; the running product is not.
    """
    rng = np.random.default_rng(1)
    found = acceptance([record(simulated_rounds(rng, mean_length=20)) for _ in range(4_000)])
    assert found is not None
    last = found.positions[-1]
    assert last.unconditional == found.survival[8]
    assert found.survival[8] == pytest.approx(0.9**8, abs=0.02)
    assert last.accepted / last.at_risk < 0.9**8 - 0.05


def simulated_rounds(rng: np.random.Generator, *, mean_length: int) -> list[tuple[int, int, int]]:
    left, rounds = int(rng.geometric(1 / mean_length)), []
    while left > 0:
        accepted = min(8, int(rng.geometric(0.1)) - 1)
        rounds.append((8, accepted, min(accepted + 2, left)))
        left -= rounds[-1][2]
    return rounds


def test_survival_is_unknown_behind_a_position_that_no_round_reached() -> None:
    """One round rejects the second draft, the other ends there; of position 3 nothing is known."""
    found = acceptance([record([(4, 1, 3), (4, 4, 3)])])
    assert found is not None
    assert found.survival == {1: 1.0, 2: 0.5}
    assert [p.unconditional for p in found.positions] == [1.0, 0.5, None, None]


def test_nothing_gets_past_a_position_that_never_held() -> None:
    found = acceptance([record([(4, 1, 3), (4, 1, 3)])])
    assert found is not None
    assert found.survival == {1: 1.0, 2: 0.0, 3: 0.0, 4: 0.0}


def test_drafts_accepted_behind_the_end_are_counted_in_the_histogram() -> None:
    found = acceptance([record([(4, 4, 3)])])
    assert found is not None
    assert found.histogram == {4: 1}
