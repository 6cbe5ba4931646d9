"""The choice of `tune`, held against recorded forwards and a table of costs; no clock is in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from gravbench.analysis.counters import Acceptance, PositionAcceptance
from gravbench.analysis.tuning import (
    Cost,
    Work,
    board_of,
    choose,
    cost_of,
    estimate,
    narrower,
    ranked,
    rate,
    spent,
    work_of,
)
from gravbench.decoding.costs import SHIPPED, Costs
from gravbench.decoding.setting import Estimate
from gravbench.records import TASKS, Counters, Rounds, Task, Times, Trace

STEEP = Costs((1, 4, 9, 17, 33, 64), (1.0, 1.94, 2.32, 2.94, 4.15, 6.45))
"""Of the shipped model in float32 on one busy core."""
TABLES = {"shipped": SHIPPED, "steep": STEEP}
REPORTED = "crops-mini"


@cache
def recorded() -> dict[str, dict[str, dict[Task, dict[str, object]]]]:
    """Suite -> strategy -> task -> tokens, rounds, forwards by their rows, acceptance by position."""
    path = Path(__file__).parents[2] / "golden" / "tuning.json"
    return json.loads(path.read_text(encoding="utf-8"))["suites"]  # type: ignore[no-any-return]


def board(suite: str, cost: Cost) -> dict[str, dict[Task, Estimate]]:
    """Every strategy on a suite, `selfspec` with narrower verifies too."""
    found: list[Estimate] = []
    for arm, by_task in recorded()[suite].items():
        for task, own in by_task.items():
            rows = own["rows"]
            assert isinstance(rows, Mapping)
            widths = tuple(float(width) for width, count in rows.items() for _ in range(count))
            work = Work(int(str(own["tokens"])), int(str(own["rounds"])), widths)
            found.append(estimate(arm, task, [work], cost, batch=1, host=0.0))
            if arm.startswith("selfspec:block=") and "verify" not in arm:
                block = int(arm.partition("=")[2])
                found += narrower(found[-1], drafts(own), cost, block=block)
    return board_of(found, 1)


def drafts(own: Mapping[str, object]) -> Acceptance:
    reached, accepted = own["reached"], own["accepted"]
    assert isinstance(reached, list) and isinstance(accepted, list)
    return Acceptance(
        histogram={},
        committed={},
        positions=tuple(
            PositionAcceptance(
                position=place,
                at_risk=n,
                reached=n,
                accepted=a,
                unconditional=None,
                conditional=a / n if n else None,
            )
            for place, (n, a) in enumerate(zip(reached, accepted, strict=True), start=1)
        ),
    )


@pytest.mark.parametrize("table", TABLES)
def test_a_plan_fitted_on_crops_tune_is_within_two_percent_of_the_best_in_hindsight(table: str) -> None:
    """Of every strategy, block and verify on the reported suite, and of the best of each task there."""
    cost = cost_of({1: TABLES[table]})
    plan = choose(board("crops-tune", cost))
    there = board(REPORTED, cost)
    own = rate(there[arm][task] for task, arm in plan.items())
    fixed = {arm: rate(by_task.values()) for arm, by_task in there.items()}
    assert len(fixed) > 50
    assert own >= 0.98 * max(fixed.values())
    each = [max((one[task] for one in there.values()), key=lambda one: one.rate) for task in TASKS]
    assert own >= 0.96 * rate(each)


@pytest.mark.parametrize("suite", ["crops-tune", REPORTED])
def test_adaptive_is_within_two_percent_of_the_best_fixed_block(suite: str) -> None:
    """Under the costs that its rounds were recorded with."""
    there = board(suite, cost_of({1: SHIPPED}))
    blocks = [rate(own.values()) for arm, own in there.items() if arm.startswith("selfspec:")]
    assert rate(there["adaptive"].values()) >= 0.98 * max(blocks)


def test_a_narrower_verify_costs_what_was_predicted_of_the_whole_one() -> None:
    """`selfspec` at two blocks and verifies, decoded and predicted: within 5 %."""
    for table in TABLES.values():
        there = board("crops-tune", cost_of({1: table}))
        plain = board_of([one for own in there.values() for one in own.values() if one.measured], 1)
        for arm in ("selfspec:block=8,verify=4", "selfspec:block=12,verify=6"):
            guessed = [
                one
                for task in TASKS
                for one in narrower(
                    plain[arm.partition(",")[0]][task],
                    drafts(recorded()["crops-tune"][arm.partition(",")[0]][task]),
                    cost_of({1: table}),
                    block=int(arm.partition("=")[2].partition(",")[0]),
                )
                if one.arm == arm
            ]
            assert rate(guessed) == pytest.approx(rate(plain[arm].values()), rel=0.05)


@pytest.mark.parametrize("task", TASKS)
def test_acceptance_by_position_foretells_what_a_narrower_verify_accepts(task: Task) -> None:
    """sum S_j of the whole verify against that of a decoded verify of m drafts: within 5 %."""
    own = recorded()["crops-tune"]
    for block, verified in ((8, 4), (12, 6)):
        whole = drafts(own[f"selfspec:block={block}"][task]).survival
        narrow = drafts(own[f"selfspec:block={block},verify={verified}"][task]).survival
        foretold = sum(whole[place] for place in range(1, verified + 1))
        assert foretold == pytest.approx(sum(narrow.values()), rel=0.05)


def test_no_verify_of_a_block_beats_one_that_knows_how_many_are_right() -> None:
    """The ceiling of every rule that picks a verify by round."""
    cost = cost_of({1: SHIPPED})
    there = board(REPORTED, cost)
    for task in TASKS:
        right = drafts(recorded()[REPORTED]["selfspec:block=8"][task]).survival
        shares = [a - b for a, b in zip([1.0, *right.values()], [*right.values(), 0.0], strict=True)]
        tokens = sum(share * (2 + n) for n, share in enumerate(shares))
        knowing = tokens / sum(share * (cost(1, 9) + cost(1, n + 1)) for n, share in enumerate(shares))
        own = [by_task[task].rate for arm, by_task in there.items() if arm.startswith("selfspec:block=8")]
        assert knowing >= 0.97 * max(own)  # the ends of answers are in the one and not in the other


def test_where_nothing_pays_ar_is_chosen() -> None:
    dear = cost_of({1: Costs((1, 2, 64), (1.0, 3.0, 99.0))})
    assert set(choose(board("crops-tune", dear)).values()) == {"ar"}


def test_a_task_leaves_the_common_choice_for_a_clear_gain_alone() -> None:
    def one(arm: str, task: Task, cost: float, rounds: int = 100) -> Estimate:
        return Estimate(arm=arm, task=task, batch=1, tokens=100, rounds=rounds, cost=cost, host=0)

    usual = [one("a", task, 50) for task in TASKS]
    other = [one("b", "text", 49), one("b", "table", 40), one("b", "formula", 90)]
    found = board_of([*usual, *other], 1)
    assert ranked(found) == ["a", "b"]
    assert choose(found) == {"text": "a", "table": "b", "formula": "a"}
    seldom = [one("b", "text", 49), one("b", "table", 40, rounds=29), one("b", "formula", 90)]
    assert choose(board_of([*usual, *seldom], 1))["table"] == "a"


def test_a_batch_pays_each_forward_once_as_wide_as_its_widest() -> None:
    """Two at a time: (1, 3), (1, 3), then the third alone, then with nobody."""
    works = [Work(3, 2, (1, 1)), Work(9, 3, (3, 3, 3)), Work(2, 1, (2,))]
    log: list[tuple[int, float]] = []

    def cost(answers: int, rows: float) -> float:
        log.append((answers, rows))
        return 1.0

    assert spent(works, cost, batch=2) == 3
    assert log == [(2, 3), (2, 3), (2, 3)]
    assert spent(works, lambda n, q: n * q, batch=1) == 13


def test_costs_between_measured_batches_lie_between_theirs() -> None:
    tables = {1: Costs((1, 2), (1.0, 2.0)), 4: Costs((1, 2), (2.0, 5.0))}
    cost = cost_of(tables)
    assert (cost(1, 2), cost(4, 2), cost(2, 2), cost(9, 1)) == (2.0, 5.0, 3.0, 2.0)
    assert cost_of({1: SHIPPED})(3, 3) == SHIPPED(9)


def test_rows_of_a_forward_are_told_by_its_round_where_they_add_up() -> None:
    rounds = Rounds(
        offered=(3, 0, 1),
        accepted=(1, 0, 1),
        committed=(3, 1, 3),
        seeds=(1, 1, 1),
        extra=(2, 2, 2),
        forwards={"draft": (1, 1, 1), "verify": (1, 0, 1)},
    )
    counters = Counters(
        tokens_out=8, rounds=3, fwd_draft=3, fwd_verify=2, rows_draft=12, rows_verify=6,
        draft_offered=4, draft_accepted=2,
    )  # fmt: skip
    trace = Trace(counters=counters, rounds=rounds, times=Times())
    assert work_of(trace) == Work(7, 3, (4, 4, 4, 4, 2))
    wider = counters.model_copy(update={"rows_verify": 7})
    assert work_of(trace.model_copy(update={"counters": wider})).rows == (4, 3.5, 4, 4, 3.5)
