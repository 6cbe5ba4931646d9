"""`blockdiff` reveals masked slots step by step and verifies nothing."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategy_support import LONG, check_batches, on_toy

from gravbench.backends.toy import EOS
from gravbench.backends.transformers_local import TransformersLocal
from gravbench.decoding.selection import Rule, Selection
from gravbench.decoding.strategies import parse_strategy
from gravbench.records import DecodeConfig, Request

RULES = ["static", "dynamic", "threshold", "sequential", "entropy", "cosine", "cosine+threshold"]


@pytest.mark.parametrize("rule", RULES)
@given(length=st.integers(0, 40), budget=st.integers(1, 50), block=st.integers(1, 7), steps=st.integers(1, 8))
@settings(max_examples=15)
def test_a_model_that_never_errs_loses_nothing(
    rule: str, length: int, budget: int, block: int, steps: int
) -> None:
    script = (*LONG[:length], EOS)
    decoded, trace, rounds = on_toy(
        script, f"blockdiff:block={block},select={rule},steps={steps}", budget=budget
    )
    assert decoded.tokens == script[:budget]
    c = trace.counters
    assert c.fwd_draft == c.fwd_verify == c.draft_offered == 0
    assert set(rounds.committed[:-1]) <= {block}
    hist = {int(k.rpartition("_")[2]): n for k, n in c.own.items() if k.startswith("denoise_steps_")}
    assert sum(hist.values()) == rounds.count
    assert sum(steps * n for steps, n in hist.items()) == c.fwd_denoise


def test_an_error_stays_in_the_text() -> None:
    decoded, _, _ = on_toy(LONG[:30], "blockdiff:block=5,select=static,steps=1", budget=30, wrong_slots=(2,))
    assert decoded.tokens != LONG[:30] and decoded.tokens[:3] == LONG[:3]
    assert parse_strategy("blockdiff").lossy


@pytest.mark.parametrize(("steps", "forwards"), [(1, 1), (2, 2), (4, 4), (99, 4)])
def test_a_static_schedule_takes_its_steps_and_one_cache_write_a_block(steps: int, forwards: int) -> None:
    _, trace, rounds = on_toy(LONG, f"blockdiff:block=5,select=static,steps={steps}", budget=41)
    full = rounds.count
    assert trace.counters.fwd_denoise == forwards * full
    assert trace.counters.fwd_cache_write == full and rounds.committed == (5,) * full


def test_parts_of_a_block_forward_their_own_rows_alone() -> None:
    whole, full, _ = on_toy(LONG, "blockdiff:block=7,select=sequential", budget=43)
    parts, part, _ = on_toy(LONG, "blockdiff:block=7,select=sequential,sub=3", budget=43)
    assert whole.tokens == parts.tokens == LONG[:43]
    assert part.counters.fwd_denoise == full.counters.fwd_denoise
    per_block = part.counters.rows_denoise / part.counters.rounds
    assert per_block == 2 * (7 + 2 * 3) < full.counters.rows_denoise / full.counters.rounds


@given(
    work=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), min_size=1, max_size=5),
    batch=st.integers(2, 5),
    sub=st.sampled_from(["", ",sub=2"]),
)
@settings(max_examples=25)
def test_a_ragged_batch_gives_what_single_runs_give(
    work: list[tuple[int, int]], batch: int, sub: str
) -> None:
    check_batches(f"blockdiff:block=5,select=static,steps=3{sub}", work, batch, wrong_positions=(7, 8))


def test_a_random_model_gives_the_same_alone_and_together(
    backend: TransformersLocal, make_request: Callable[..., Request]
) -> None:
    asked = [make_request(variant=i, budget=30 - 5 * i) for i in range(3)]
    for arm in ("blockdiff:block=6,select=entropy", "blockdiff:block=6,select=static,steps=3,sub=2"):
        alone = [backend.generate(r, DecodeConfig(strategy=arm, max_new_tokens=30)) for r in asked]
        joint = backend.generate_batch(asked, DecodeConfig(strategy=f"{arm},batch=3", max_new_tokens=30))
        assert [a.token_ids for a in alone] == [j.token_ids for j in joint]


SURE = {1: 0.99, 2: 0.5, 3: 0.95, 4: 0.2, 5: 0.95}
ENTROPY = {1: 0.1, 2: 0.3, 3: 0.05, 4: 2.0, 5: 0.15}


@pytest.mark.parametrize(
    ("rule", "steps", "revealed"),
    [
        ("static", 3, [1, 3]),
        ("static", 5, [1]),
        ("dynamic", 3, [1, 3, 5]),
        ("dynamic", 1, [1, 2, 3, 4, 5]),
        ("threshold", 5, [1, 3, 5]),
        ("sequential", 3, [1, 2]),
        ("entropy", 5, [1, 3, 5]),  # 0.05, 0.1 and 0.15; 0.3 more would pass 0.35
        ("cosine", 4, [1]),  # floor(5 cos(pi / 8)) = 4 are left
        ("cosine+threshold", 4, [1, 3, 5]),
    ],
)
def test_each_rule_reveals_what_its_line_says(rule: Rule, steps: int, revealed: list[int]) -> None:
    assert Selection(rule, 5, steps, 0.9, 0.35).reveal(0, SURE, ENTROPY) == revealed


def test_a_threshold_nobody_passes_still_reveals_the_surest() -> None:
    assert Selection("threshold", 5, 5, 1.0, 0.0).reveal(0, SURE, {}) == [1]
    assert Selection("entropy", 5, 5, 1.0, 0.0).reveal(0, SURE, ENTROPY) == [3]


def test_a_cosine_schedule_of_32_slots_in_10_steps() -> None:
    rule = Selection("cosine", 32, 10, 0.9, 0.35)
    assert [rule._cosine(step) for step in range(10)] == [1, 1, 2, 3, 3, 4, 4, 5, 4, 5]
