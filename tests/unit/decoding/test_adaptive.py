"""`adaptive` drafts what pays after what was accepted lately."""

import random
from pathlib import Path

import pytest
from strategy_support import LONG, on_toy

from gravbench.decoding.adaptive import _Recent, best_block
from gravbench.decoding.costs import SHIPPED, Costs, costs_of

STEEP = Costs((1, 2), (1.0, 2.0))
FLAT = Costs((1, 2), (1.0, 1.0))


def test_the_block_grows_with_the_chance_and_falls_with_the_cost() -> None:
    assert [best_block(chance, 8, FLAT) for chance in (0.0, 0.5, 0.99)] == [0, 8, 8]
    assert [best_block(chance, 8, STEEP) for chance in (0.0, 0.5, 0.99)] == [0, 0, 0]
    blocks = [best_block(chance / 20, 16, SHIPPED) for chance in range(21)]
    assert blocks == sorted(blocks) and blocks[0] == 0 and blocks[-1] == 16


def test_it_is_the_best_of_all_blocks() -> None:
    for chance in (0.3, 0.6, 0.9):
        rates = [1.0] + [
            (2 + sum(chance**j for j in range(1, b + 1))) / (2 * SHIPPED(b + 1)) for b in range(1, 13)
        ]
        assert best_block(chance, 12, SHIPPED) == rates.index(max(rates))


def test_drafting_stops_where_nothing_is_accepted_and_starts_again_behind_it() -> None:
    hard = tuple(range(20, 60))
    arm = "adaptive:block=8,explore=5,memory=0.7"
    _, trace, rounds = on_toy(LONG, arm, budget=90, wrong_positions=hard)
    at, drafted = 1, {}
    for offered, committed in zip(rounds.offered, rounds.committed, strict=True):
        drafted[at] = offered
        at += committed
    assert max(drafted[p] for p in drafted if p < 18) == 8
    assert sum(drafted[p] == 0 for p in drafted if 25 <= p < 55) > 10
    assert max(drafted[p] for p in drafted if p > 75) == 8
    assert trace.counters.own["rounds_without_draft"] > 10


@pytest.mark.parametrize("chance", [0.15, 0.5, 0.8, 0.97])
def test_it_is_within_two_percent_of_the_best_fixed_block_in_cost_units(chance: float) -> None:
    """Simulated rounds of drafts that are each right with the same chance; explored rounds count."""
    rng = random.Random(4)
    recent, tokens, spent = _Recent(), 0, 0.0
    for _ in range(20_000):
        block = best_block(recent.chance, 8, SHIPPED)
        if not block and recent.idle + 1 >= 16:
            block = 1
        if not block:
            recent.idle += 1
            tokens, spent = tokens + 1, spent + SHIPPED(1)
            continue
        accepted = next((j for j in range(block) if rng.random() >= chance), block)
        recent.saw(accepted, rejected=accepted < block, memory=0.95)
        tokens, spent = tokens + 2 + accepted, spent + 2 * SHIPPED(block + 1)
    fixed = [1.0] + [
        (2 + sum(chance**j for j in range(1, b + 1))) / (2 * SHIPPED(b + 1)) for b in range(1, 9)
    ]
    assert tokens / spent >= 0.98 * max(fixed)


def test_a_cost_table_is_what_doctor_measured_or_rows_and_costs(tmp_path: Path) -> None:
    measured, plain = tmp_path / "doctor.json", tmp_path / "plain.json"
    measured.write_text('{"forward_cost": {"17": 1.8, "1": 1.0, "9": 1.5}, "other": 1}')
    plain.write_text('{"rows": [1, 9, 17], "costs": [1.0, 1.5, 1.8]}')
    assert costs_of(str(measured), "a") == costs_of(str(plain), "a") == Costs((1, 9, 17), (1.0, 1.5, 1.8))
