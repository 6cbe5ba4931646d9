"""False alarms and power of every gate rule, by simulation with a known truth.

A/A: the same commit and weights twice. Noise where there is any: acceptance moves by 8 % a sample, 3.4 % of
the outputs flip at a near-tie (the rate published for bfloat16 serving), a flip moves one token in forty.
"""

from collections.abc import Callable

import numpy as np
import pytest
from verdict_support import quick_policy, share_with_interval, simulated_table

from gravbench.analysis.bootstrap import Floats, design_of, independent
from gravbench.analysis.identity import Audit
from gravbench.gate.policy import Policy
from gravbench.gate.rules import (
    judge_acceptance,
    judge_accuracy,
    judge_count,
    judge_counter,
    judge_forwards,
    judge_identity,
    judge_speed,
)
from gravbench.store.schema import ScoreRecord

TRIALS = 150
SEEDS = (11, 12, 13, 14)
"""Run once, after the rules stood. Seed 1 was looked at while they were made and proves nothing."""
CROPS = 128
FLIPS = 0.034
FLIP_SIZE = 0.025
TASK_OF = ("text",) * 64 + ("table",) * 32 + ("formula",) * 32
METRIC_OF = {"text": "text_ned", "table": "table_teds", "formula": "formula_ned"}

Trial = Callable[[np.random.Generator, Policy], bool]
Record = Callable[[str, object], None]


def rate(trial: Trial, *, trials: int = TRIALS) -> tuple[float, float, float]:
    """How often `trial` fails over `trials` of every seed, with the exact interval."""
    policy = quick_policy()
    fails = sum(trial(np.random.default_rng((seed, i)), policy) for seed in SEEDS for i in range(trials))
    return share_with_interval(fails, trials * len(SEEDS))


def counter_fails(name: str, drop: float, n: int = CROPS) -> Trial:
    def trial(rng: np.random.Generator, policy: Policy) -> bool:
        table, rule = simulated_table(rng, n, drop=drop), getattr(policy.rules, name)
        if name == "forwards_per_sample":
            return judge_forwards(table, rule, policy, arm="x", design=independent(n)).status == "fail"
        return judge_counter(name, table, rule, policy, arm="x", design=independent(n)).status == "fail"

    return trial


def acceptance_fails(drop: float) -> Trial:
    groups = {f"kind {k}": [i for i in range(CROPS) if i % 4 == k] for k in range(4)}

    def trial(rng: np.random.Generator, policy: Policy) -> bool:
        table = simulated_table(rng, CROPS, drop=drop)
        rule = policy.rules.draft_acceptance
        return (
            judge_acceptance(table, groups, rule, policy, arm="x", design=independent(CROPS)).status == "fail"
        )

    return trial


def score(index: int, value: float) -> tuple[ScoreRecord]:
    task = TASK_OF[index]
    return (
        ScoreRecord.model_construct(
            sample_id=f"{task}-{index}",
            arm="x",
            rep=0,
            task=task,
            metric=METRIC_OF[task],
            value=value,
            counts={},
            signature="s",
        ),
    )


DESIGN = design_of([str(i) for i in range(CROPS)], list(TASK_OF))


def accuracy_fails(points_lost: float, *, tasks: tuple[str, ...] = tuple(METRIC_OF)) -> Trial:
    """Components of `tasks` lose exactly `points_lost`, all of it in a random fifth of their samples."""

    def trial(rng: np.random.Generator, policy: Policy) -> bool:
        base = rng.uniform(0.7, 0.95, CROPS)
        own = base + np.where(rng.random(CROPS) < FLIPS, rng.normal(0, FLIP_SIZE, CROPS), 0.0)
        for task in tasks:
            members = np.flatnonzero(np.array(TASK_OF) == task)
            hit = rng.choice(members, size=len(members) // 5, replace=False)
            own[hit] -= points_lost / 100 * len(members) / len(hit)
        sides = [
            [score(i, v if TASK_OF[i] == "table" else 1 - v) for i, v in enumerate(values)]
            for values in (base.tolist(), own.tolist())
        ]
        verdicts = judge_accuracy(*sides, policy.rules.accuracy, policy, arm="x", design=DESIGN)
        return any(verdict.status == "fail" for verdict in verdicts)

    return trial


def flips_fail(excess: float) -> Trial:
    def trial(rng: np.random.Generator, policy: Policy) -> bool:
        flips: Floats = (rng.random((CROPS, 2)) < (FLIPS + excess, FLIPS)).astype(np.float64)
        ties = int(flips[:, 0].sum())
        audit = Audit(
            compared=CROPS,
            identical=CROPS - ties,
            same_text=CROPS - ties,
            both_failed=0,
            classes={"near-tie": ties} if ties else {},
            differences=(),
            tau=1e-4,
            refereed=True,
        )
        rule = policy.rules.ar_identity.model_copy(update={"mode": "near-ties"})
        verdict = judge_identity(
            audit, rule, policy, name="ar_identity", arm="x", flips=flips, design=independent(CROPS)
        )
        return verdict.status == "fail"

    return trial


def count_fails(rng: np.random.Generator, policy: Policy) -> bool:
    """A hundredth of the flips end in the budget, as many the other way round."""
    turned = rng.random((CROPS, 2)) < FLIPS * 0.01
    base, own = 3 + int(turned[:, 0].sum()), 3 + int(turned[:, 1].sum())
    return judge_count("loops", base, own, policy.rules.loops, n=CROPS, arm="x").status == "fail"


def speed_fails(speedup: float) -> Trial:
    def trial(rng: np.random.Generator, policy: Policy) -> bool:
        own = rng.lognormal(0, 0.6, CROPS)
        times = np.column_stack((speedup * own * np.exp(rng.normal(-0.02, 0.2, CROPS)), own))
        verdict = judge_speed(
            times, policy.rules.speed, policy, arm="x", base="ar", design=independent(CROPS)
        )
        return verdict.status == "fail"

    return trial


@pytest.mark.parametrize(
    ("rule", "trial"),
    [
        ("tau_round", counter_fails("tau_round", 0.0)),
        ("tpf_all", counter_fails("tpf_all", 0.0)),
        ("forwards_per_sample", counter_fails("forwards_per_sample", 0.0)),
        ("draft_acceptance", acceptance_fails(0.0)),
        ("accuracy", accuracy_fails(0.0)),
        ("ar_identity, near-ties", flips_fail(0.0)),
        ("failed, stopped_by_length, loops", count_fails),
        ("speed", speed_fails(1.5)),
    ],
)
def test_same_commit_twice_raises_few_alarms(rule: str, trial: Trial, record_property: Record) -> None:
    share, low, high = rate(trial)
    record_property(f"A/A false alarms, {rule}", f"{share:.3f} [{low:.3f}, {high:.3f}]")
    assert share <= 0.05, f"{rule}: {share:.3f} [{low:.3f}, {high:.3f}]"


@pytest.mark.parametrize("rule", ["tau_round", "tpf_all", "forwards_per_sample"])
def test_five_percent_fewer_accepted_tokens_on_128_crops_is_found(rule: str, record_property: Record) -> None:
    share, low, high = rate(counter_fails(rule, 0.05), trials=125)
    record_property(f"found at -5 %, {rule}", f"{share:.3f} [{low:.3f}, {high:.3f}]")
    assert share >= 0.95


@pytest.mark.parametrize(
    ("points_lost", "tasks"),
    [(0.3, tuple(METRIC_OF)), (0.4, ("text",)), (0.4, ("table",)), (0.4, ("formula",))],
)
def test_accuracy_drop_beyond_its_margin_is_found(
    points_lost: float, tasks: tuple[str, ...], record_property: Record
) -> None:
    """The margin is 0.2 points, of a component and of the composite."""
    share, low, high = rate(accuracy_fails(points_lost, tasks=tasks), trials=50)
    record_property(f"found at -{points_lost} points, {tasks}", f"{share:.3f} [{low:.3f}, {high:.3f}]")
    assert share >= 0.95


def test_speed_at_its_floor_alarms_no_oftener_than_the_level_says() -> None:
    """The hardest case: the truth sits on the floor. 5 % is inside the interval of the rate."""
    _, low, _ = rate(speed_fails(1.0))
    assert low <= 0.05


def test_flips_far_beyond_the_null_are_found() -> None:
    share, _, _ = rate(flips_fail(0.15), trials=50)
    assert share >= 0.95
