"""Samples -> the ordered plan, the requests of it, and readings: one arm on samples that decode together.

A defect of the engine costs the samples that meet it, never silently and never others of their batch.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import JsonValue

from gravbench.arms import batch_of
from gravbench.errors import EngineError, GravbenchError, UsageError
from gravbench.pages.reader import PageReader, Reading
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Generation, Request, SampleTask, piece_of, untimed
from gravbench.scorers.contract import Sample
from gravbench.store.schema import PlanEntry, sha256_of, sha256_text
from gravbench.suites.data import Selectable

if TYPE_CHECKING:
    from gravbench.pages.regions import PageSample
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample as Crop


T = TypeVar("T")


def order_plan(
    samples: Sequence[Selectable],
    arms: Sequence[str],
    *,
    seed: int,
    repeats: int = 1,
    shard: str | None = None,
) -> tuple[PlanEntry, ...]:
    """Interleaved plan: samples shuffled by `seed`, arms of one sample next to each other.

    Samples go in blocks of two: the block's first sample runs the arms in a random order, the second in
    the reverse (ABBA), so that linear drift cancels inside the block. Where arms decode several crops
    together, such a group of crops takes the place of the sample: each arm decodes all of it in turn.
    Every repeat is such a pass over all samples, in an order of its own. A `shard` `i/n` has each n-th block
    of the plan from the i-th on, with the slots that its entries have in the whole.

    `UsageError` where `i` is above `n`, or the plan has fewer than `i` blocks.
    """
    part, parts = parse_shard(shard)
    rng = random.Random(seed)
    entries: list[PlanEntry] = []
    slots = index = 0
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
            pairs = [(sample, arm) for arm in arm_order for sample in group]
            if index // 2 % parts == part:
                entries += [
                    PlanEntry(slot=slot, sample_id=sample.sample_id, arm=arm, rep=rep)
                    for slot, (sample, arm) in enumerate(pairs, start=slots)
                ]
            slots += len(pairs)
    if not entries:
        raise UsageError(
            f"--shard {shard}: nothing is left for it, the plan has {(index + 2) // 2} blocks",
            hint="Take fewer shards.",
        )
    return tuple(entries)


def parse_shard(shard: str | None) -> tuple[int, int]:
    """`2/4` -> (1, 4): which part, counted from 0, of how many; `None` is the one part of one."""
    number, _, parts = (shard or "1/1").partition("/")
    if int(number) > int(parts):
        raise UsageError(f"--shard {shard}: there are only {parts} shards", hint="From 1/N to N/N.")
    return int(number) - 1, int(parts)


def planned_groups(
    plan: Sequence[PlanEntry], task_of: Callable[[str], str], *, crops: int
) -> list[list[tuple[str, int]]]:
    """The plan's groups again: the (sample, rep) that arms answer one after the other, in order.

    `crops` is how many crops the whole plan has, of which this may be a shard.
    """
    order = dict.fromkeys((e.sample_id, e.rep) for e in sorted(plan, key=lambda e: e.slot))
    size = group_size({e.arm for e in plan}, crops=crops)
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


def request_for(sample: Crop, suite: Suite) -> Request:
    """The one model call of a crop."""
    return Request(
        request_id=sample.sample_id,
        sample_id=sample.sample_id,
        task=sample.task,
        image_path=sample.image_path,
        prompt=suite.prompts[sample.task],
        max_new_tokens=suite.max_new_tokens[sample.task],
    )


Log = Callable[[str, Mapping[str, JsonValue]], None]


class SampleReader(Protocol):
    """How samples of one kind become answers, and what a record says of the question."""

    def read(self, samples: Sequence[Any], *, strategy: str) -> list[Reading]:
        """One answer a sample, in order; samples that are given together decode together."""
        ...

    def prompt_sha(self, sample: Any) -> str:
        """Hash of what the model is asked."""
        ...

    def failed(self, sample: Any, reason: str) -> Reading:
        """The answer of a sample that met a defect of the engine."""
        ...


@dataclass(frozen=True, kw_only=True)
class CropReader:
    """A crop is one request."""

    suite: Suite
    backend: Backend

    def read(self, samples: Sequence[Crop], *, strategy: str) -> list[Reading]:
        requests = [request_for(sample, self.suite) for sample in samples]
        longest = max(request.max_new_tokens for request in requests)
        decode = DecodeConfig(strategy=strategy, max_new_tokens=longest)
        if len(requests) == 1:
            answers = [self.backend.generate(requests[0], decode)]
        else:
            answers = self.backend.generate_batch(requests, decode)
        pieces = [
            piece_of(answer, task=sample.task, label=sample.task)
            for sample, answer in zip(samples, answers, strict=True)
        ]
        return [
            Reading(pieces=(piece,), text=piece.text, error=piece.error, span_ns=answer.span_ns)
            for piece, answer in zip(pieces, answers, strict=True)
        ]

    def prompt_sha(self, sample: Crop) -> str:
        return sha256_text(self.suite.prompts[sample.task])

    def failed(self, sample: Crop, reason: str) -> Reading:
        name = sample.sample_id
        answer = Generation(request_id=name, text="", token_ids=(), stop_reason="error", error=reason)
        piece = piece_of(answer, task=sample.task, label=sample.task)
        return Reading(pieces=(piece,), text="", error=reason)


@dataclass(frozen=True, kw_only=True)
class RegionsReader:
    """A page is a request for each of its regions."""

    suite: Suite
    reader: PageReader

    def read(self, samples: Sequence[PageSample], *, strategy: str) -> list[Reading]:
        return [self.reader.read(sample, strategy=strategy) for sample in samples]

    def prompt_sha(self, sample: PageSample) -> str:  # noqa: ARG002
        return sha256_of({str(task): text for task, text in self.suite.prompts.items()})

    def failed(self, sample: PageSample, reason: str) -> Reading:  # noqa: ARG002
        return Reading(pieces=(), text="", error=reason)


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Asks for the samples of a suite. `log` takes what a reader of the run should be told."""

    samples: Mapping[str, Sample]
    readers: Mapping[SampleTask, SampleReader]
    log: Log

    def reader_of(self, sample: Sample) -> SampleReader:
        return self.readers[sample.task]

    def answer(self, entries: Sequence[PlanEntry]) -> list[Reading]:
        """Readings of entries of one arm, in their order."""
        try:
            return self._read(entries)
        except GravbenchError:
            raise
        except MemoryError as error:
            raise EngineError(
                f"out of memory on sample {entries[0].sample_id!r}, strategy {entries[0].arm!r}",
                hint="Free memory, then repeat the same command: it continues where it stopped.",
            ) from error
        except Exception as error:
            names: list[JsonValue] = [entry.sample_id for entry in entries]
            self.log(
                "fault", {"sample_ids": names, "arm": entries[0].arm, "traceback": traceback.format_exc()}
            )
            if len(entries) > 1:
                return [_untimed(self.answer([entry])[0]) for entry in entries]
            sample = self.samples[entries[0].sample_id]
            return [self.reader_of(sample).failed(sample, f"{type(error).__name__}: {error}")]

    def _read(self, entries: Sequence[PlanEntry]) -> list[Reading]:
        samples = [self.samples[entry.sample_id] for entry in entries]
        return self.reader_of(samples[0]).read(samples, strategy=entries[0].arm)


def _untimed(reading: Reading) -> Reading:
    """The reading without its times: decoded alone after a fault, it says nothing of its batch."""
    return replace(reading, pieces=tuple(untimed(piece) for piece in reading.pieces))
