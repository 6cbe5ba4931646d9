"""`gravbench tune`: measure, predict, confirm. A setting is what is left of two runs and a table of costs.

1. c(N, Q) is measured: N requests in a forward, Q rows of each.
2. Every candidate decodes the tuning suite once; the table is set to the level of their forwards, and these
   are priced by it (`gravbench.analysis.tuning`).
3. The plan that promises most is run beside `ar` and the best single strategies, interleaved. A plan that is
   clearly slower than one of them yields to it; a prediction that is off by more than a tenth is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.analysis.counters import acceptance
from gravbench.analysis.summary import Speedups
from gravbench.analysis.tuning import (
    Board,
    Cost,
    board_of,
    choose,
    cost_of,
    estimate,
    narrower,
    predicted,
    ranked,
    rate,
    spent,
    work_of,
)
from gravbench.arms import AR, batch_of, canonical, parse_arm, with_batch, without_batch
from gravbench.decoding.costs import Costs
from gravbench.decoding.setting import Confirmed, Estimate, Setting, Survival, setting_json
from gravbench.decoding.strategies import parse_strategy
from gravbench.errors import DataError, UsageError
from gravbench.options import RunOptions
from gravbench.protocols import BackendInfo
from gravbench.provenance import capture
from gravbench.records import TASKS, Task, Times
from gravbench.resources import __version__
from gravbench.runner.engine import check_strategies, lossy_arms, machine_of
from gravbench.runner.plan import group_size
from gravbench.runner.run import OpenBackend, run
from gravbench.runner.session import Progress
from gravbench.store.files import write_atomic
from gravbench.store.rundir import RunDirectory
from gravbench.store.schema import GenRecord, canonical_json
from gravbench.suites.manifest import suite_digest

if TYPE_CHECKING:
    from gravbench.suites.data import OpenedSuite
    from gravbench.suites.manifest import Suite

CANDIDATES = (
    "selfspec1",
    "selfspec1:block=4",
    "selfspec1:groups=auto",
    "tree:nodes=15",
    "tree:budget=auto",
    "repair",
    "diffuspec",
    "adaptive",
    "edit:passes=auto",
    "stream",
    "mtp",
)
"""Tried beside `ar` and `selfspec` at each block size, where the checkpoint can: every exact strategy that
needs no supplied text."""
CONTESTANTS = 3
ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 17, 24, 32, 33, 64)
CONTEXT = 96
"""Rows in the cache while costs are measured: prefix and half an answer of a crop."""
MISSED = 0.1
"""A prediction is missed when it lies further than this outside the measured interval."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Tables of c(N, Q)/c(1) by requests N and rows Q, and c(1) in nanoseconds (`None`: not measured)."""

    tables: Mapping[int, Mapping[int, float]]
    unit_ns: float | None = None

    @property
    def cost(self) -> Cost:
        """c(N, Q) of them."""
        return cost_of(
            {n: Costs(tuple(sorted(t)), tuple(t[q] for q in sorted(t))) for n, t in self.tables.items()}
        )


def levelled(measured: Measured, records: Sequence[GenRecord]) -> Measured:
    """The tables at the level of decoding: short answers meet caches that are colder than a measurement's.

    The shape of the tables stays; one factor for the forwards of `ar`, another for all wider ones, set them
    to the time that the forwards of `records`, decoded one by one, took.
    """
    if measured.unit_ns is None:
        return measured
    took, priced = {True: 0, False: 0}, {True: 0.0, False: 0.0}
    for record in records:
        for _, trace in record.answers:
            took[record.arm == AR] += _forwards_ns(trace.times)
            priced[record.arm == AR] += spent([work_of(trace)], measured.cost)
    if not all(took.values()):
        return measured
    single, wide = (took[of_ar] / priced[of_ar] / measured.unit_ns for of_ar in (True, False))
    tables = {
        n: {q: cost * (1.0 if n == q == 1 else wide / single) for q, cost in table.items()}
        for n, table in measured.tables.items()
    }
    return Measured(tables=tables, unit_ns=single * measured.unit_ns)


def _forwards_ns(times: Times) -> int:
    """Nanoseconds of an answer's model forwards."""
    parts = (times.draft_ns, times.verify_ns, times.denoise_ns, times.cache_write_ns)
    return sum(ns or 0 for ns in parts)


def measured_here(
    options: RunOptions, suite: Suite, batches: Sequence[int], *, opened: OpenBackend
) -> Measured:
    """Costs of this machine, for one request and all powers of two up to the largest batch.

    `UsageError` for a backend whose forwards cannot be asked for one by one.
    """
    from gravbench.backends.forward_cost import measure_model
    from gravbench.backends.glm.step_model import GlmStepModel

    with closing(opened(options, suite)) as backend:
        model = getattr(backend, "step_model", None)
        if not isinstance(model, GlmStepModel):
            raise UsageError(
                f"tune: the forwards of backend '{options.backend}' cannot be measured",
                hint="Give their costs: --forward-cost FILE, what doctor --forward-cost --json writes.",
            )
        most = max(batches)
        counts = sorted({*batches, *(2**k for k in range(most.bit_length()) if 2**k <= most)})
        costs = measure_model(model, requests=counts, row_counts=ROWS, context=CONTEXT)
    tables: dict[int, dict[int, float]] = {}
    for one in costs:
        tables.setdefault(one.requests, {})[one.rows] = one.ratio
    return Measured(tables=tables, unit_ns=costs[0].seconds * 1e9)


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """One call of `tune`: where it works, on what, and with what."""

    options: RunOptions
    suite: Suite
    opened: OpenedSuite
    blocks: tuple[int, ...]
    batches: tuple[int, ...]
    folder: Path
    open_backend: OpenBackend
    measure: Callable[[], Measured]
    progress: Progress
    environ: Mapping[str, str]

    def tune(self) -> Setting:
        """Measure, predict and confirm; the setting. `folder` keeps the two runs it was made of."""
        measured = self.measure()
        costs = self.folder / "costs.json"
        write_atomic(
            costs, canonical_json({"forward_cost": {str(q): c for q, c in measured.tables[1].items()}})
        )
        arms = self._candidates(costs)
        records, info = self._decoded(arms, "candidates")
        measured = levelled(measured, records)
        boards = {batch: board_of(self._estimates(records, measured, batch), batch) for batch in self.batches}
        plans = {batch: choose(board) for batch, board in boards.items()}
        batch = max(self.batches, key=lambda size: predicted(boards[size], plans[size]))
        setting = Setting(
            gravbench=__version__,
            created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            model=info.model,
            model_digest=info.model_digest,
            machine=machine_of(info, capture(self.environ), backend=self.options.backend),
            suite=self.suite.name,
            suite_sha=suite_digest(self.suite),
            n_samples=len({record.sample_id for record in records}),
            plan=_whole_plan(plans[batch], boards[batch]),
            batch=batch,
            unit_ns=measured.unit_ns,
            forward_cost=dict(measured.tables[1]),
            batch_cost={n: dict(table) for n, table in measured.tables.items() if n > 1},
            estimates=tuple(
                one for board in boards.values() for own in board.values() for one in own.values()
            ),
            survival=tuple(_survival(records)),
        )
        return self._confirmed(setting, boards[batch])

    def _candidates(self, costs: Path) -> tuple[str, ...]:
        """The arms of the first run; `UsageError` for those that no plan may name."""
        varied = [f"selfspec:block={block}" for block in self.blocks]
        asked = self.options.strategies or self._possible((*varied, *CANDIDATES))
        arms = check_strategies((AR, *(_with_costs(arm, costs) for arm in asked if arm != AR)))
        wrong = [
            arm for arm in arms if arm in lossy_arms(arms) or parse_arm(arm).sampling or batch_of(arm) > 1
        ]
        wrong += [arm for arm in arms if parse_arm(arm).strategy in ("tuned", "hsd") or "texts=" in arm]
        if wrong:
            raise UsageError(
                f"tune: strategy '{wrong[0]}' cannot be chosen: a plan holds for every suite and writes "
                "what ar writes",
                hint="Leave out lossy strategies, texts, temperatures and batch sizes.",
            )
        return arms

    def _possible(self, arms: Sequence[str]) -> list[str]:
        """The arms that this checkpoint can run."""
        found = []
        with closing(self.open_backend(self.options, self.suite)) as backend:
            for arm in arms:
                with suppress(UsageError):
                    backend.check([arm])
                    found.append(arm)
        return found

    def _decoded(self, arms: tuple[str, ...], name: str) -> tuple[list[GenRecord], BackendInfo]:
        folder, _ = self._run(arms, name)
        stored = RunDirectory(folder)
        return stored.generations(), BackendInfo.model_validate(stored.manifest().model)

    def _run(self, arms: tuple[str, ...], name: str) -> tuple[Path, dict[str, Speedups | None]]:
        """An interleaved run of `arms`; its folder, and speedups by arm."""
        outcome = run(
            self.options.but(strategies=arms, out=self.folder / name),
            self.suite,
            self.opened.samples,
            open_backend=self.open_backend,
            progress=self.progress,
            environ=self.environ,
            opened=self.opened,
        )
        if outcome.too_many_errors:
            raise DataError(
                f"tune: {outcome.summary.failed_samples} of {outcome.summary.n_samples} samples failed",
                hint=f"`error` in {outcome.run_dir}/gen/*.jsonl says why each one failed.",
            )
        return outcome.run_dir, {arm: own.speedup for arm, own in outcome.summary.strategies.items()}

    def _estimates(self, records: Sequence[GenRecord], measured: Measured, batch: int) -> list[Estimate]:
        """Every candidate, and `selfspec` that verifies less than it drafts, on every task."""
        found: list[Estimate] = []
        group = group_size([with_batch(AR, batch)], crops=len({r.sample_id for r in records}))
        for arm in dict.fromkeys(record.arm for record in records):
            own = [record for record in records if record.arm == arm]
            host = _host(own, measured.unit_ns)
            for task in TASKS:
                answers = [(r, t) for r in own for piece, t in r.answers if piece.task == task]
                if not answers:
                    continue
                works = [work_of(trace) for _, trace in answers]
                one = estimate(_plain(arm), task, works, measured.cost, batch=batch, host=host, group=group)
                found.append(one)
                block, drafts = parse_arm(arm).block, acceptance([r for r in own if r.task == task])
                if parse_arm(arm).strategy == "selfspec" and block and drafts and one.rounds:
                    found += narrower(one, drafts, measured.cost, block=block)
        return found

    def _confirmed(self, setting: Setting, board: Board) -> Setting:
        """The setting, held against `ar` and the best single strategies; the fastest of them stays."""
        plan, batch = setting.plan, setting.batch
        path = self.folder / "tuning.json"
        write_atomic(path, setting_json(setting))
        singles = [arm for arm in ranked(board) if arm != AR]
        contest = {arm: rate(board[arm].values()) for arm in singles[:CONTESTANTS]}
        mixed = len(set(plan.values())) > 1
        if mixed:
            used = {task: arm for task, arm in plan.items() if task in board[AR]}
            contest = {f"tuned:setting={path}": predicted(board, used), **contest}
        named = {with_batch(_with_costs(arm, path), batch): arm for arm in contest}
        _, speedups = self._run((with_batch(AR, batch), *named), "confirmed")
        usual = rate(board[AR].values())
        found: list[Confirmed] = []
        for arm, own in named.items():
            speed = speedups[arm]
            if speed is not None and speed.decode is not None:
                name = "tuned" if own.startswith("tuned") else own
                decode = speed.decode
                found.append(
                    Confirmed(
                        arm=name,
                        predicted=contest[own] / usual,
                        measured=decode.value,
                        low=decode.value if decode.low is None else decode.low,
                        high=decode.value if decode.high is None else decode.high,
                    )
                )
        return setting.model_copy(
            update={"plan": _settled(plan, found), "confirmed": tuple(found), "cautions": _missed(found)}
        )


def _whole_plan(plan: Mapping[Task, str], board: Board) -> dict[Task, str]:
    """A plan for every task: those that the suite does not have take the strategy that is best over all."""
    return {task: plan.get(task, ranked(board)[0]) for task in TASKS}


def _plain(arm: str) -> str:
    """The arm without its batch and the costs it was given."""
    read = parse_arm(without_batch(arm))
    kept = ",".join(f"{key}={value}" for key, value in read.options if key != "costs")
    return f"{read.strategy}:{kept}" if kept else read.strategy


def _with_costs(arm: str, costs: Path) -> str:
    """The strategy with the costs that were measured, where it weighs some and names none."""
    if getattr(parse_strategy(arm), "costs", "") is None:
        return canonical(f"{arm}{',' if ':' in arm else ':'}costs={costs}")
    return arm


def _host(records: Sequence[GenRecord], unit_ns: float | None) -> float:
    """What a round spends outside the model's forwards, in c(1); 0 where the costs were given."""
    if unit_ns is None:
        return 0.0
    took, rounds = 0, 0
    for record in records:
        for _, trace in record.answers:
            took += (trace.times.decode_ns or 0) - _forwards_ns(trace.times)
            rounds += trace.counters.rounds
    return max(took, 0) / rounds / unit_ns if rounds else 0.0


def _survival(records: Sequence[GenRecord]) -> list[Survival]:
    """Acceptance by position of every arm that drafts, by task."""
    found = []
    for arm in dict.fromkeys(record.arm for record in records):
        for task in TASKS:
            drafts = acceptance([r for r in records if r.arm == arm and r.task == task])
            if drafts is not None:
                found.append(
                    Survival(
                        arm=_plain(arm),
                        task=task,
                        reached=tuple(place.reached for place in drafts.positions),
                        survival=tuple(drafts.survival.values()),
                    )
                )
    return found


def _settled(plan: dict[Task, str], found: Sequence[Confirmed]) -> dict[Task, str]:
    """The plan, or the single strategy that was measured clearly faster than it."""
    own = next((one for one in found if one.arm == "tuned"), None) or next(iter(found), None)
    best = max(found, key=lambda one: one.measured, default=None)
    if own is None or best is None or best.low <= own.high:
        return plan
    return dict.fromkeys(TASKS, best.arm)


def _missed(found: Sequence[Confirmed]) -> tuple[str, ...]:
    """A caution for every prediction further than a tenth outside what was measured."""
    return tuple(
        f"{one.arm}: predicted {one.predicted:.2f}x over ar, measured {one.measured:.2f}x "
        f"({one.low:.2f} to {one.high:.2f}): the machine was busy, or the costs are not those of decoding"
        for one in found
        if not (1 - MISSED) * one.low <= one.predicted <= (1 + MISSED) * one.high
    )
