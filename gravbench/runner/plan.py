"""Samples -> the ordered plan and the requests of a run."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from gravbench.arms import batch_of
from gravbench.records import Request
from gravbench.store.schema import PlanEntry
from gravbench.suites.data import Selectable

if TYPE_CHECKING:
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample

T = TypeVar("T")


def order_plan(
    samples: Sequence[Selectable], arms: Sequence[str], *, seed: int, repeats: int = 1
) -> tuple[PlanEntry, ...]:
    """Interleaved plan: samples shuffled by `seed`, arms of one sample next to each other.

    Samples go in blocks of two: the block's first sample runs the arms in a random order, the second in
    the reverse (ABBA), so that linear drift cancels inside the block. Where arms decode several crops
    together, such a group of crops takes the place of the sample: each arm decodes all of it in turn.
    Every repeat is such a pass over all samples, in an order of its own.
    """
    rng = random.Random(seed)
    entries: list[PlanEntry] = []
    arm_order = list(arms)
    size = group_size(arms, crops=sum(not stands_alone(sample.task) for sample in samples))
    for rep in range(repeats):
        order = list(samples)
        rng.shuffle(order)
        for index, group in enumerate(together(order, lambda sample: sample.task, size=size)):
            if index % 2 == 0:
                rng.shuffle(arm_order)
            else:
                arm_order.reverse()
            entries += [
                PlanEntry(slot=0, sample_id=sample.sample_id, arm=arm, rep=rep)
                for arm in arm_order
                for sample in group
            ]
    return tuple(entry.model_copy(update={"slot": slot}) for slot, entry in enumerate(entries))


def planned_groups(plan: Sequence[PlanEntry], task_of: Callable[[str], str]) -> list[list[tuple[str, int]]]:
    """The plan's groups again: the (sample, rep) that arms answer one after the other, in order."""
    order = dict.fromkeys((e.sample_id, e.rep) for e in sorted(plan, key=lambda e: e.slot))
    crops = {sample_id for sample_id, _ in order if not stands_alone(task_of(sample_id))}
    size = group_size({e.arm for e in plan}, crops=len(crops))
    return [
        group
        for rep in sorted({rep for _, rep in order})
        for group in together([k for k in order if k[1] == rep], lambda key: task_of(key[0]), size=size)
    ]


def stands_alone(task: str) -> bool:
    """Whether a sample is a batch of its own, as the regions of a page are."""
    return task == "page"


def group_size(arms: Iterable[str], *, crops: int) -> int:
    """Crops that stand together in the plan, the same for all arms.

    Four times the largest batch, since a batch drains at the end of its group; fewer where less than ten
    groups would be left for intervals to count, but at least one batch. 1 where no arm has batches.
    """
    batch = max(batch_of(arm) for arm in arms)
    return 1 if batch == 1 else max(batch, min(4 * batch, crops // 10))


def together(items: Iterable[T], task_of: Callable[[T], str], *, size: int) -> Iterator[list[T]]:
    """Groups of up to `size` samples in the order given; some stand alone."""
    group: list[T] = []
    for item in items:
        if stands_alone(task_of(item)):
            yield [item]
            continue
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def request_for(sample: Sample, suite: Suite) -> Request:
    """The one model call of a crop."""
    return Request(
        request_id=sample.sample_id,
        sample_id=sample.sample_id,
        task=sample.task,
        image_path=sample.image_path,
        prompt=suite.prompts[sample.task],
        max_new_tokens=suite.max_new_tokens[sample.task],
    )
