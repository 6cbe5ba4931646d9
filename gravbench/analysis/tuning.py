"""Which strategy pays: forwards that were recorded, priced by a table of costs, and the choice that follows.

    cost of answers   sum over their forwards of c(N, Q): N answers in it, Q rows of the widest, in c(1)
    cost_tpf          decode tokens / cost: the speedup over `ar` that no clock has touched
    rate              decode tokens / (cost + host): host is what a round spends outside forwards

A verify of fewer drafts than were offered is predicted from acceptance by position (Kaplan-Meier, see
`counters`): S_j does not depend on how many are verified, so `selfspec:block=B,verify=m` promises

    (2 + S_1 + .. + S_m) / (c(B + 1) + c(m + 1) + host)

tokens for its cost. A choice is one strategy for all tasks, and another one for a task alone where that
promises more than 3 % and was seen often enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gravbench.analysis.counters import Acceptance
from gravbench.arms import parse_arm
from gravbench.decoding.costs import Costs
from gravbench.decoding.setting import Estimate
from gravbench.records import Counters, ForwardKind, Rounds, Task, Trace

Cost = Callable[[int, float], float]
"""(answers in a forward, rows of the widest) -> its cost in c(1), the forward of one answer and one row."""

ORDER: tuple[ForwardKind, ...] = ("draft", "denoise", "verify", "cache_write")
"""Of the forwards of a round."""
GAIN, SEEN, REACHED = 1.03, 30, 20
"""A task leaves the common choice for a gain above the first, seen in as many rounds as the second; a
position counts that as many rounds reached as the third."""


def cost_of(tables: Mapping[int, Costs]) -> Cost:
    """c(N, Q) of tables by N; straight lines between the N that were measured.

    A single table, of one answer, takes N answers of Q rows for one of N Q.
    """
    if len(tables) == 1:
        (table,) = tables.values()
        return lambda answers, rows: table(answers * rows)
    known = sorted(tables)

    def cost(answers: int, rows: float) -> float:
        low = max((n for n in known if n <= answers), default=known[0])
        high = min((n for n in known if n >= answers), default=known[-1])
        share = (answers - low) / (high - low) if high > low else 0.0
        return (1 - share) * tables[low](rows) + share * tables[high](rows)

    return cost


class Work(NamedTuple):
    """One answer: its decode tokens, rounds, and the rows of each of its forwards, in order."""

    tokens: int
    rounds: int
    rows: tuple[float, ...]


def work_of(trace: Trace) -> Work:
    """What an answer took. A forward's rows are told by its round where these add up, else the mean of its
    kind."""
    counters, rounds = trace.counters, trace.rounds or Rounds()
    columns = [
        (rounds.forwards[kind], _rows(kind, counters, rounds)) for kind in ORDER if kind in rounds.forwards
    ]
    rows = [
        float(width[number])
        for number in range(rounds.count)
        for made, width in columns
        for _ in range(made[number])
    ]
    return Work(counters.decode_tokens, rounds.count, tuple(rows))


def _rows(kind: ForwardKind, counters: Counters, rounds: Rounds) -> Sequence[float]:
    """Rows of the forwards of `kind`, by round."""
    made, whole = rounds.forwards[kind], getattr(counters, f"rows_{kind}")
    for told in (rounds.nodes or (), [offered + 1 for offered in rounds.offered]):
        if told and sum(n * width for n, width in zip(made, told, strict=True)) == whole:
            return told
    return (whole / max(sum(made), 1),) * rounds.count


def spent(works: Iterable[Work], cost: Cost, *, batch: int = 1) -> float:
    """Cost of answers, `batch` of them under way together: as one ends the next in line joins.

    Each forward takes all that are under way and is as wide as the widest.
    """
    if batch == 1:
        return sum(cost(1, rows) for work in works for rows in work.rows)
    waiting, busy, total = iter([work.rows for work in works if work.rows]), list[list[float]](), 0.0
    while True:
        while len(busy) < batch and (rows := next(waiting, None)) is not None:
            busy.append(list(reversed(rows)))
        if not busy:
            return total
        total += cost(len(busy), max(rows.pop() for rows in busy))
        busy = [rows for rows in busy if rows]


def estimate(
    arm: str, task: Task, works: Sequence[Work], cost: Cost, *, batch: int, host: float, group: int = 1
) -> Estimate:
    """What a strategy costs whose answers are `works`; `host`: of a round, in c(1).

    A run decodes in groups of `group` answers, and a batch drains at the end of its group.
    """
    step = max(group, batch)
    groups = [works[first : first + step] for first in range(0, len(works), step)]
    rounds = sum(work.rounds for work in works)
    return Estimate(
        arm=arm,
        task=task,
        batch=batch,
        tokens=sum(work.tokens for work in works),
        rounds=rounds,
        cost=sum(spent(group, cost, batch=batch) for group in groups),
        host=rounds * host,
    )


def narrower(whole: Estimate, drafts: Acceptance, cost: Cost, *, block: int) -> list[Estimate]:
    """`selfspec:block=B,verify=m` for every m < B, predicted of `whole`, which verified all B drafts."""
    survival = [0.0] * block
    for place in drafts.positions:
        if place.position <= block and place.reached >= REACHED:
            survival[place.position - 1] = drafts.survival.get(place.position, 0.0)
    host = whole.host / whole.rounds if whole.rounds else 0.0

    def per_round(verified: int) -> tuple[float, float]:
        rows = cost(whole.batch, block + 1) + cost(whole.batch, verified + 1)
        return 2 + sum(survival[:verified]), rows / whole.batch

    tokens, units = per_round(block)
    found = []
    for verified in range(1, block):
        own_tokens, own_units = per_round(verified)
        rounds = whole.rounds * tokens / own_tokens
        found.append(
            whole.model_copy(
                update={
                    "arm": _with(whole.arm, verified),
                    "rounds": round(rounds),
                    "cost": whole.cost * (own_units / own_tokens) / (units / tokens),
                    "host": rounds * host,
                    "measured": False,
                }
            )
        )
    return found


def _with(arm: str, verified: int) -> str:
    options = dict(parse_arm(arm).options) | {"verify": str(verified)}
    return f"{parse_arm(arm).strategy}:" + ",".join(f"{key}={options[key]}" for key in sorted(options))


def rate(estimates: Iterable[Estimate]) -> float:
    """Decode tokens for the time of a forward of one row, of several tasks together."""
    parts = list(estimates)
    return sum(part.tokens for part in parts) / sum(part.cost + part.host for part in parts)


Board = Mapping[str, Mapping[Task, Estimate]]
"""Strategy -> task -> its estimate, at one batch size."""


def board_of(estimates: Iterable[Estimate], batch: int) -> dict[str, dict[Task, Estimate]]:
    """Estimates of one batch size by strategy and task."""
    found: dict[str, dict[Task, Estimate]] = {}
    for one in estimates:
        if one.batch == batch and one.tokens:
            found.setdefault(one.arm, {})[one.task] = one
    return found


def ranked(board: Board) -> list[str]:
    """Strategies that answered every task of the board, the fastest over all tasks first."""
    tasks = {task for own in board.values() for task in own}
    whole = [arm for arm, own in board.items() if own.keys() == tasks]
    return sorted(whole, key=lambda arm: (-rate(board[arm].values()), arm))


def choose(board: Board) -> dict[Task, str]:
    """The strategy of each task: the fastest over all, and another one where it pays clearly more."""
    common = ranked(board)[0]
    plan: dict[Task, str] = {}
    for task, usual in board[common].items():
        own = [(arm, by_task[task]) for arm, by_task in board.items() if by_task[task].rounds >= SEEN]
        best, found = max(own, key=lambda named: named[1].rate, default=(common, usual))
        plan[task] = best if found.rate > GAIN * usual.rate else common
    return plan


def predicted(board: Board, plan: Mapping[Task, str]) -> float:
    """Rate of a plan over its tasks."""
    return rate(board[arm][task] for task, arm in plan.items())
