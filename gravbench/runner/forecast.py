"""What a run would do, take and leave: its plan, and time and disk measured on a few of its samples."""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.options import RunOptions
from gravbench.records import Record, SampleTask
from gravbench.runner.plan import order_plan
from gravbench.runner.run import OpenBackend, run
from gravbench.runner.session import Progress
from gravbench.scorers.contract import Sample
from gravbench.store.rundir import RunDirectory
from gravbench.store.schema import GenRecord
from gravbench.suites.data import OpenedSuite, take

if TYPE_CHECKING:
    from gravbench.suites.manifest import Suite

PROBED = 2
"""Samples of each task that are answered to measure time and disk."""


class Seconds(Record):
    """`value` takes each task's mean over the probed samples; `low` and `high` their fastest and slowest."""

    value: float
    low: float
    high: float


class Forecast(Record):
    """One run before it is made. `seconds` are of answering alone: neither loading nor scoring is in them."""

    suite: str
    samples: dict[SampleTask, int]
    arms: tuple[str, ...]
    repeats: int
    answers: int
    """Samples times arms times repeats."""
    max_new_tokens: dict[str, int]
    probed: int
    """Samples that were answered by every arm; nothing of them is kept."""
    seconds: Seconds
    by_arm: dict[str, Seconds]
    disk_bytes: int
    failed: int
    """Probed answers that failed; they count with the time they took."""


def forecast(
    options: RunOptions,
    suite: Suite,
    opened: OpenedSuite,
    *,
    open_backend: OpenBackend,
    progress: Progress,
    environ: Mapping[str, str],
) -> Forecast:
    """Answer a few samples in a folder that is thrown away, and multiply.

    `options` have their arms. The suite's data and the model are opened as for the run itself, so whatever
    would stop it stops this.
    """
    chosen = take(opened.samples, options.limit, stratify=options.stratify, seed=options.seed)
    plan = order_plan(
        chosen, options.strategies, seed=options.seed, repeats=options.repeats, shard=options.shard
    )
    asked = Counter(sample_id for sample_id, _ in {(entry.sample_id, entry.rep) for entry in plan})
    chosen = tuple(sample for sample in chosen if sample.sample_id in asked)
    counts = Counter[SampleTask]()
    for sample in chosen:
        counts[sample.task] += asked[sample.sample_id]
    probe = _probe(chosen)
    with tempfile.TemporaryDirectory(prefix="gravbench-plan-") as scratch:
        folder = Path(scratch) / "run"
        run(
            options.but(
                out=folder, limit=None, stratify=None, shard=None, repeats=1, fresh=False, retry_failed=False
            ),
            suite,
            probe,
            open_backend=open_backend,
            progress=progress,
            environ=environ,
            opened=opened,
        )
        records = RunDirectory(folder).generations()
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    by_arm = {arm: _seconds([r for r in records if r.arm == arm], counts) for arm in options.strategies}
    return Forecast(
        suite=suite.name,
        samples=dict(Counter(sample.task for sample in chosen)),
        arms=options.strategies,
        repeats=options.repeats,
        answers=len(plan),
        max_new_tokens={str(task): suite.max_new_tokens[task] for task in suite.tasks},
        probed=len(probe),
        seconds=Seconds(
            **{name: sum(getattr(own, name) for own in by_arm.values()) for name in Seconds.model_fields}
        ),
        by_arm=by_arm,
        disk_bytes=round(size / len(records) * len(plan)),
        failed=sum(record.status != "ok" for record in records),
    )


def _probe(samples: Sequence[Sample]) -> list[Sample]:
    """Of each task some from its middle: the order of ids often goes from plain to hard."""
    by_task: dict[SampleTask, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_task[sample.task].append(sample)
    found = []
    for own in by_task.values():
        step = len(own) / PROBED
        places = dict.fromkeys(int(step * (number + 0.5)) for number in range(PROBED))
        found += [own[place] for place in places]
    return found


def _seconds(records: Sequence[GenRecord], counts: Mapping[SampleTask, int]) -> Seconds:
    """One arm's time for so many answers a task; records that shared their forwards shared the time."""
    shared = Counter(record.forward_group for record in records if record.forward_group is not None)
    times: dict[SampleTask, list[float]] = defaultdict(list)
    for record in records:
        group = record.forward_group
        parts = 1 if group is None else shared[group]
        times[record.task].append((record.done_ns - record.submit_ns) / 1e9 / parts)
    totals = [
        tuple(counts[task] * value for value in (sum(own) / len(own), min(own), max(own)))
        for task, own in times.items()
    ]
    value, low, high = (sum(column) for column in zip(*totals, strict=True))
    return Seconds(value=value, low=low, high=high)
