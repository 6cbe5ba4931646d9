"""One session: generate what the plan still misses, pair by pair, each record durable before the next.

Crops that decode together are answered arm by arm; then their records are written, before the next batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue, ValidationError

from gravbench.arms import batch_of
from gravbench.errors import GravbenchError
from gravbench.pages.reader import Reading
from gravbench.provenance import ResidentMemory
from gravbench.records import PeakMemory, Piece, SampleTask
from gravbench.runner.folder import Claim
from gravbench.runner.plan import Answering, SampleReader, planned_groups, stands_alone
from gravbench.scorers.contract import Sample
from gravbench.store.rundir import EventLog, PairKey, complete_pairs, is_failed, next_attempts, write_markdown
from gravbench.store.schema import (
    GenError,
    GenRecord,
    GenStatus,
    Phase,
    PlanEntry,
    State,
    record_bytes,
    sha256_text,
)

HEARTBEAT_S = 2.0
WARM_UP_TRIES = 3


class Progress(Protocol):
    """What the session tells the outside."""

    def start(self, *, done: int, total: int) -> None: ...
    def advance(self) -> None: ...
    def note(self, message: str) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Clocks:
    """Time sources, as arguments: `monotonic_ns` for durations, `unix` for labels only."""

    monotonic_ns: Callable[[], int] = time.perf_counter_ns
    unix: Callable[[], float] = time.time


@dataclass(frozen=True, kw_only=True)
class MemoryWatch:
    """Peaks of memory between `begin` and `end`, both called outside every clock."""

    process: ResidentMemory | None
    """`None`: the model is in another process, and memory of this one says nothing."""
    device: Callable[[], int | None]
    """A backend's `take_peak_bytes`."""

    def begin(self) -> None:
        self.device()
        if self.process is not None:
            self.process.begin()

    def end(self) -> PeakMemory | None:
        """`None` where nothing can be measured."""
        process = None if self.process is None else self.process.peak_bytes()
        device = self.device()
        if process is None and device is None:
            return None
        return PeakMemory(process_bytes=process, device_bytes=device)


@dataclass(kw_only=True)
class Session:
    """Work on one claimed folder. `run` returns the finished pairs."""

    claim: Claim
    samples: Mapping[str, Sample]
    readers: Mapping[SampleTask, SampleReader]
    settle: Callable[[], None]
    """Called between requests, outside every clock."""
    session_id: str
    progress: Progress
    clocks: Clocks
    memory: MemoryWatch
    retry_failed: bool = False
    """Pairs that failed are decoded again, in a further attempt."""
    _started_ns: int = 0
    _last_beat: float = 0.0
    _done: int = 0
    _failed: int = 0
    _sessions: int = 1
    _calls: int = 0
    _events: EventLog | None = field(default=None)
    _answering: Answering = field(init=False)

    def run(self) -> dict[PairKey, dict[str, GenRecord]]:
        """Generate every pair that is not complete; a pair cut by a kill is done again, all its arms."""
        run, manifest = self.claim.run, self.claim.manifest
        self._started_ns = self.clocks.monotonic_ns()
        torn = run.repair()
        records = run.generations()
        pairs = complete_pairs(records, manifest.plan)
        retried = {key for key, pair in pairs.items() if self.retry_failed and is_failed(pair)}
        pending = _pending_pairs(manifest.plan, skip=pairs.keys() - retried)
        earlier = run.state()
        self._sessions = (earlier.sessions if earlier else 0) + (1 if pending else 0)
        self._done = len(manifest.plan) - sum(len(group) for group in pending)
        self._failed = sum(r.status != "ok" for key in pairs.keys() - retried for r in pairs[key].values())
        self._events = EventLog(run)
        self._answering = Answering(samples=self.samples, readers=self.readers, log=self._log)
        try:
            self._log(
                "session", {"session_id": self.session_id, "resumed": self.claim.resumed, "torn": list(torn)}
            )
            if retried:
                self._log("retry_failed", {"sample_ids": [*sorted({sample_id for sample_id, _ in retried})]})
            if self.claim.took_over:
                self._log("stale_lock", {"owner": repr(self.claim.took_over)})
            self._beat("generating", force=True)
            if pending:
                self._generate(pending, next_attempts(records), pairs)
        except BaseException as error:
            self._last_words(error)
            raise
        finally:
            self.progress.stop()
            self._events.close()
        return pairs

    def finish(self) -> None:
        """Say in `state.json` that the summary is written."""
        self._beat("complete", force=True)

    def _generate(
        self,
        pending: Sequence[Sequence[PlanEntry]],
        attempts: Mapping[PairKey, int],
        pairs: dict[PairKey, dict[str, GenRecord]],
    ) -> None:
        self.progress.start(done=self._done, total=len(self.claim.manifest.plan))
        groups = self._groups(pending)
        self._warm_up(groups)
        writer = self.claim.run.gen_writer()
        try:
            for group in groups:
                found: dict[PairKey, dict[str, GenRecord]] = {}
                for entries in _by_arm(group):
                    for entry, record in zip(entries, self._records(entries, attempts), strict=True):
                        writer.append(record_bytes(record))
                        write_markdown(self.claim.run.path, record)
                        found.setdefault((entry.sample_id, entry.rep), {})[entry.arm] = record
                        self._done += 1
                        self._failed += record.status != "ok"
                        self.progress.advance()
                        self._beat("generating")
                    self.settle()
                pairs.update(found)
        finally:
            writer.close()

    def _groups(self, pending: Sequence[Sequence[PlanEntry]]) -> list[list[Sequence[PlanEntry]]]:
        """Pairs that decode together, as the plan has them; those that are finished left out."""
        left = {(pair[0].sample_id, pair[0].rep): pair for pair in pending}
        crops = sum(not stands_alone(sample.task) for sample in self.samples.values())
        planned = planned_groups(
            self.claim.manifest.plan, lambda sample_id: self.samples[sample_id].task, crops=crops
        )
        groups = [[left[key] for key in keys if key in left] for keys in planned]
        return [group for group in groups if group]

    def _warm_up(self, groups: Sequence[Sequence[Sequence[PlanEntry]]]) -> None:
        """One unrecorded request per task and arm, then one batch per arm that has any.

        A sample that fails gives way to the next, up to a cap.
        """
        warm: dict[tuple[SampleTask, str], int] = {}
        for pair in (pair for group in groups for pair in group):
            task = self.samples[pair[0].sample_id].task
            for entry in pair:
                tries = warm.get((task, entry.arm), 0)
                if tries < WARM_UP_TRIES:
                    reading = self._answering.answer([entry])[0]
                    warm[task, entry.arm] = WARM_UP_TRIES if reading.error is None else tries + 1
        batches = [group for group in groups if not stands_alone(self.samples[group[0][0].sample_id].task)]
        for entries in _by_arm(max(batches, key=len)) if batches else ():
            if batch_of(entries[0].arm) > 1:
                self._answering.answer(entries)
        self.settle()
        self._log("warm_up", {"requests": len(warm)})

    def _records(self, entries: Sequence[PlanEntry], attempts: Mapping[PairKey, int]) -> Iterator[GenRecord]:
        """Answer entries of one arm together; they share the moments of submission and completion."""
        self.memory.begin()
        submit_ns = self.clocks.monotonic_ns() - self._started_ns
        readings = self._answering.answer(entries)
        done_ns = self.clocks.monotonic_ns() - self._started_ns
        together = {"peak_memory": self.memory.end()}
        shared = len(entries) > 1 and batch_of(entries[0].arm) > 1
        self._calls += shared
        for entry, reading in zip(entries, readings, strict=True):
            attempt = attempts.get((entry.sample_id, entry.rep), 0) + 1
            own = reading.span_ns
            record = self._record(
                entry,
                reading,
                attempt=attempt,
                submit_ns=own[0] - self._started_ns if own else submit_ns,
                done_ns=own[1] - self._started_ns if own else done_ns,
            )
            yield record.model_copy(update={**together, "forward_group": self._calls if shared else None})

    def _record(
        self, entry: PlanEntry, reading: Reading, *, attempt: int, submit_ns: int, done_ns: int
    ) -> GenRecord:
        sample, identity = self.samples[entry.sample_id], self.claim.manifest.identity
        budget = sum(identity.max_new_tokens[piece.task] for piece in reading.pieces)

        def record(status: GenStatus, error: GenError | None, pieces: tuple[Piece, ...]) -> GenRecord:
            return GenRecord(
                run_id=self.claim.manifest.run_id,
                session_id=self.session_id,
                sample_id=entry.sample_id,
                arm=entry.arm,
                rep=entry.rep,
                slot=entry.slot,
                attempt=attempt,
                task=sample.task,
                suite_sha=identity.suite_sha,
                input_sha=sample.image_sha256,
                prompt_sha=self._answering.reader_of(sample).prompt_sha(sample),
                max_new_tokens=max(1, budget),
                status=status,
                error=error,
                stop_reason=reading.stop_reason,
                loop_flag=reading.loop_flag,
                text=reading.text,
                text_sha=sha256_text(reading.text),
                pieces=pieces,
                assembly=reading.assembly,
                submit_ns=submit_ns,
                done_ns=done_ns,
            )

        if reading.error is not None:
            return record("error", _request_error(reading.error), reading.pieces)
        try:
            return record("ok", None, reading.pieces)
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"]
            breach = GenError(kind="InvalidRecord", message=message, stage="record")
            bare = tuple(piece.model_copy(update={"trace": None}) for piece in reading.pieces)
            return record("invalid_record", breach, bare)

    def _log(self, kind: str, details: Mapping[str, JsonValue]) -> None:
        if self._events is not None:
            self._events.add(kind, details, unix_time=self.clocks.unix())

    def _beat(self, phase: Phase, *, force: bool = False, reason: str | None = None) -> None:
        now = self.clocks.unix()
        if not force and now - self._last_beat < HEARTBEAT_S:
            return
        self._last_beat = now
        self.claim.run.write_state(
            State(
                phase=phase,
                done=self._done,
                total=len(self.claim.manifest.plan),
                failed=self._failed,
                sessions=self._sessions,
                heartbeat_unix=now,
                exit_reason=reason,
            )
        )

    def _last_words(self, error: BaseException) -> None:
        """Best effort: the state file is derived, and the disk may be the very thing that failed."""
        phase: Phase = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        try:
            self._beat(phase, force=True, reason=f"{type(error).__name__}: {error}")
        except GravbenchError as second:
            self.progress.note(f"state.json could not be written: {second.message}")


def _pending_pairs(plan: Sequence[PlanEntry], *, skip: Set[PairKey]) -> list[list[PlanEntry]]:
    """The plan's entries by pair, in slot order, without the finished pairs."""
    groups: dict[PairKey, list[PlanEntry]] = {}
    for entry in sorted(plan, key=lambda e: e.slot):
        key = (entry.sample_id, entry.rep)
        if key not in skip:
            groups.setdefault(key, []).append(entry)
    return list(groups.values())


def _by_arm(group: Sequence[Sequence[PlanEntry]]) -> list[list[PlanEntry]]:
    """Entries of several pairs, arm by arm, in the order of arms of the first pair."""
    return [[entry for pair in group for entry in pair if entry.arm == first.arm] for first in group[0]]


def _request_error(message: str) -> GenError:
    kind, colon, rest = message.partition(": ")
    if colon and kind.isidentifier():
        return GenError(kind=kind, message=rest, stage="generate")
    return GenError(kind="RequestError", message=message, stage="generate")
