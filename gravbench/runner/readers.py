"""Entries of the plan -> readings: one arm on samples that decode together, each kind by its own reader.

A defect of the engine costs the samples that meet it, never silently and never others of their batch.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

from gravbench.errors import EngineError, GravbenchError
from gravbench.pages.reader import PageReader, Reading
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Generation, SampleTask, piece_of, untimed
from gravbench.runner.plan import request_for
from gravbench.scorers.contract import Sample
from gravbench.store.schema import PlanEntry, sha256_of, sha256_text

if TYPE_CHECKING:
    from gravbench.pages.regions import PageSample
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample as Crop

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
        return [Reading(pieces=(piece,), text=piece.text, error=piece.error) for piece in pieces]

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
