"""Entries of the plan -> readings: one arm on one page, or on crops that decode together.

A defect of the engine costs the samples that meet it, never silently and never others of their batch.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from gravbench.errors import EngineError, GravbenchError
from gravbench.pages.reader import PageReader, PageReading
from gravbench.pages.regions import PageSample
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Generation, Times
from gravbench.runner.plan import request_for
from gravbench.store.schema import PlanEntry

if TYPE_CHECKING:
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample

Log = Callable[[str, Mapping[str, JsonValue]], None]


@dataclass(frozen=True, kw_only=True)
class Answering:
    """Asks the backend for the samples of a suite. `log` takes what a reader of the run should be told."""

    suite: Suite
    samples: Mapping[str, Sample | PageSample]
    backend: Backend
    reader: PageReader | None
    log: Log

    def answer(self, entries: Sequence[PlanEntry]) -> list[PageReading]:
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
            return [_failed(entries[0].sample_id, f"{type(error).__name__}: {error}")]

    def _read(self, entries: Sequence[PlanEntry]) -> list[PageReading]:
        arm, samples = entries[0].arm, [self.samples[entry.sample_id] for entry in entries]
        if isinstance(samples[0], PageSample):
            assert self.reader is not None, "a plan with pages needs a reader"
            return [self.reader.read(samples[0], strategy=arm)]
        requests = [request_for(s, self.suite) for s in samples if not isinstance(s, PageSample)]
        longest = max(request.max_new_tokens for request in requests)
        decode = DecodeConfig(strategy=arm, max_new_tokens=longest)
        if len(requests) == 1:
            answers = [self.backend.generate(requests[0], decode)]
        else:
            answers = self.backend.generate_batch(requests, decode)
        return [PageReading(generation=answer, detail=None) for answer in answers]


def _untimed(reading: PageReading) -> PageReading:
    """The reading without its times: decoded alone after a fault, it says nothing of its batch."""
    trace = reading.generation.trace
    if trace is None:
        return reading
    untimed = reading.generation.model_copy(update={"trace": trace.model_copy(update={"times": Times()})})
    return PageReading(generation=untimed, detail=reading.detail)


def _failed(sample_id: str, reason: str) -> PageReading:
    failed = Generation(request_id=sample_id, text="", token_ids=(), stop_reason="error", error=reason)
    return PageReading(generation=failed, detail=None)
