"""Samples -> the ordered plan and the requests of a run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gravbench.records import Request
from gravbench.store.schema import PlanEntry, sha256_of
from gravbench.suites.selection import S, Selectable, take

if TYPE_CHECKING:
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample


def suite_digest(suite: Suite) -> str:
    """Hash of everything in a manifest that decides what is measured; its place and prose are not in it."""
    return sha256_of(suite.model_dump(mode="json", exclude={"description", "manifest_path", "data"}))


def limit_samples(samples: Sequence[S], limit: int | None) -> tuple[S, ...]:
    """The first `limit` samples, taken from every task in proportion, in the order of `samples`."""
    return take(samples, limit)


def order_plan(samples: Sequence[Selectable], arms: Sequence[str], *, seed: int) -> tuple[PlanEntry, ...]:
    """Interleaved plan: samples shuffled by `seed`, arms of one sample next to each other.

    Samples go in blocks of two: the block's first sample runs the arms in a random order, the second in
    the reverse (ABBA), so that linear drift cancels inside the block.
    """
    rng = random.Random(seed)
    order = list(samples)
    rng.shuffle(order)
    entries: list[PlanEntry] = []
    arm_order = list(arms)
    for index, sample in enumerate(order):
        if index % 2 == 0:
            rng.shuffle(arm_order)
        else:
            arm_order.reverse()
        for arm in arm_order:
            entries.append(PlanEntry(slot=len(entries), sample_id=sample.sample_id, arm=arm))
    return tuple(entries)


def request_for(sample: Sample, suite: Suite) -> Request:
    """The one model call of a crop."""
    return Request(
        request_id=sample.sample_id,
        sample_id=sample.sample_id,
        task=sample.task,
        image_path=sample.image_path,
        max_new_tokens=suite.max_new_tokens[sample.task],
    )
