"""The records of a run directory: manifest, generation, score, state. Frozen; unknown fields are refused."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

import orjson
from pydantic import ConfigDict, Field, JsonValue, model_validator

from gravbench.records import (
    Counters,
    PeakMemory,
    Piece,
    Record,
    SampleTask,
    StopReason,
    Task,
    Times,
    Trace,
    summed_counters,
    summed_times,
)
from gravbench.scorers.contract import Note

GenStatus = Literal["ok", "error", "invalid_record"]
Phase = Literal["generating", "scoring", "complete", "interrupted", "failed"]

CLOCK_SLACK_NS = 1_000
"""Stages may exceed the total by this much: one tick of a coarse monotonic clock."""


class StoredRecord(Record):
    """A record with a `schema` key; `schema_id` in Python, since pydantic owns the short name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: str
    """First, so that a line of another version is refused for that and not for what follows from it."""


class PlanEntry(Record):
    """One unit of work. `slot` is the global order, kept to study drift; `rep` counts repetitions from 0."""

    slot: int = Field(ge=0)
    sample_id: str
    arm: str
    rep: int = Field(default=0, ge=0)


class LayoutInfo(Record):
    """Which layout provider, with everything that can move a region."""

    name: str
    model: str | None = None
    digest: str
    """Hash of weights, thresholds and rules."""


class RunIdentity(Record):
    """No path, no clock, no host. The suite's digest covers the ground truth of crops that ship, a page's
    digest its annotation; crops cut from pages have a digest of their ground truth."""

    gravbench: str
    suite: str
    suite_version: int
    suite_sha: str
    n_samples: int = Field(ge=1)
    samples_sha: str
    references_sha: str | None = None
    """Of crops cut from pages; absent elsewhere."""
    prompts: dict[Task, str]
    max_new_tokens: dict[Task, int]
    scorer: str
    """Names of the suite's scorers, joined by `+`. Signatures stand with each score."""
    strategies: tuple[str, ...] = ()
    """In the order given; empty where one strategy is vouched for alone."""
    texts_sha: dict[str, str] | None = None
    """By arm, hash of the files it decodes by: texts, costs, a setting; absent where no arm has any."""
    repeats: int = Field(default=1, ge=1)
    shard: str | None = None
    """Which part of the plan, as `2/4`; absent where it is all."""
    seed: int
    limit: int | None = None
    stratify: str | None = None
    where: str | None = None
    """The attribute and value of `--where`."""
    pages: str | None = None
    """The shell pattern of `--pages`."""
    backend: str
    """With the options it was given, as `--backend` takes it."""
    engine: str
    model_digest: str
    device: str
    dtype: str
    threads: int
    assembler: str | None = None
    """Absent, as are layout and grid, where no page was read."""
    layout: LayoutInfo | None = None
    crop_grid: int | None = None

    @property
    def scorers(self) -> tuple[str, ...]:
        return tuple(self.scorer.split("+"))

    @property
    def backend_name(self) -> str:
        return self.backend.partition(":")[0]

    def document(self) -> dict[str, JsonValue]:
        """As JSON, without what is absent."""
        return self.model_dump(mode="json", exclude_none=True)

    def differing_field(self, other: RunIdentity) -> str | None:
        """The first field (in sorted order) in which the two differ, with both values; `None` if equal."""
        mine, theirs = self.document(), other.document()
        name = next((n for n in sorted({*mine, *theirs}) if mine.get(n) != theirs.get(n)), None)
        return name and f"{name}: {_short(mine, name)} here, {_short(theirs, name)} in the folder"


def _short(document: Mapping[str, JsonValue], name: str) -> str:
    text = canonical_json(document.get(name)).decode("utf-8")
    return text if len(text) <= 90 else text[:87] + "..."


class Manifest(StoredRecord):
    """`manifest.json`: written first, never changed. `identity` is what makes two runs the same plan."""

    schema_id: Literal["gravbench.run/2"] = Field(default="gravbench.run/2", alias="schema")
    run_id: str
    created_utc: str
    argv: tuple[str, ...]
    identity: RunIdentity
    identity_sha: str
    plan: tuple[PlanEntry, ...]
    model: dict[str, JsonValue]
    environment: dict[str, JsonValue]
    protocol: dict[str, JsonValue]

    @model_validator(mode="after")
    def _identity_is_hashed(self) -> Manifest:
        if sha256_of(self.identity.document()) != self.identity_sha:
            raise ValueError("identity_sha is not the hash of identity: the manifest was edited")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """Strategy strings in the order they were given."""
        return self.identity.strategies

    @property
    def command(self) -> str:
        """What goes on with this run, as a shell takes it; without `--fresh`, which would begin anew."""
        return shlex.join(word for word in self.argv if word != "--fresh")


class Amendment(StoredRecord):
    """`amendment.json`: inputs of failed samples that were mended since, so that they could be decoded again.

    The manifest stays as it was written; `RunDirectory.manifest` reads the two together.
    """

    schema_id: Literal["gravbench.amendment/1"] = Field(default="gravbench.amendment/1", alias="schema")
    samples_sha: str
    """Digest of the samples' names and images as they are now."""
    mended: tuple[str, ...] = Field(min_length=1)
    """Ids of the samples whose input is another one than the manifest was written for."""
    data: JsonValue = None
    """What the manifest's `protocol.data` says of the copy, as it is now."""


class State(StoredRecord):
    """`state.json`: small, replaced atomically, derived; the records are the truth."""

    schema_id: Literal["gravbench.state/1"] = Field(default="gravbench.state/1", alias="schema")
    phase: Phase
    done: int = Field(ge=0)
    total: int = Field(ge=0)
    failed: int = Field(ge=0)
    sessions: int = Field(ge=0)
    heartbeat_unix: float
    exit_reason: str | None = None


class GenError(Record):
    """Why a sample has no usable answer. `stage` is where: image, generate or record."""

    kind: str
    message: str
    stage: str


class StageTimes(Record):
    """Nanoseconds of one page, by stage. `region_ns` is the wall clock of all model calls of the page.

    `total_ns` = load + layout + crop + region + assembly and what lies between them.
    """

    load_ns: int = Field(ge=0)
    layout_ns: int = Field(ge=0)
    crop_ns: int = Field(ge=0)
    region_ns: int = Field(ge=0)
    assembly_ns: int = Field(ge=0)
    total_ns: int = Field(ge=0)


class Assembly(Record):
    """How a page was cut into pieces, and its text put together from theirs.

    `skipped` and `dropped` count regions that are not read, by label.
    """

    image: str
    layout: str
    assembler: str
    skipped: dict[str, int]
    dropped: dict[str, int]
    stages: StageTimes | None = None
    """Absent where times of several machines would stand together."""


class SampleAnswer(StoredRecord):
    """What one arm made of one sample: its pieces, and the text that is scored.

    A crop has one piece, whose text it is. A page has one a region, and an assembly.
    """

    sample_id: str
    rep: int = Field(ge=0)
    task: SampleTask
    input_sha: str
    prompt_sha: str
    max_new_tokens: int = Field(ge=1)
    """Budget of all pieces together."""
    status: GenStatus
    error: GenError | None
    stop_reason: StopReason | None
    """`length` when any piece ran into its budget; `None`: an import that does not tell."""
    loop_flag: bool
    text: str
    text_sha: str
    pieces: tuple[Piece, ...]
    assembly: Assembly | None = None
    """`None` where the one piece is the whole sample, and for a page that failed before its regions."""
    imported: bool = False
    """Another program wrote it: what it did not tell is unknown, not zero."""

    @property
    def tells_tokens(self) -> bool:
        """Whether its token ids are known."""
        if self.imported:
            return any(piece.token_ids for piece in self.pieces)
        return not any(piece.hides_tokens for piece in self.pieces)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Those of all pieces, one after another."""
        return tuple(token for piece in self.pieces for token in piece.token_ids)

    @property
    def answers(self) -> tuple[tuple[Piece, Trace], ...]:
        """The pieces that were read, with their traces; none when the sample failed."""
        if self.status != "ok":
            return ()
        return tuple((piece, piece.trace) for piece in self.pieces if piece.trace is not None)

    @cached_property
    def counters(self) -> Counters | None:
        """Counts of all pieces together; `None` when the sample failed, or nobody told them."""
        if self.status != "ok" or (self.imported and not self.answers):
            return None
        return summed_counters([trace.counters for _, trace in self.answers])

    @cached_property
    def times(self) -> Times | None:
        """Times of all pieces together; `None` when the sample failed.

        Nor has an import any: they were not taken beside those of other arms, so they compare with none.
        """
        if self.status != "ok" or self.imported:
            return None
        return summed_times([trace.times for _, trace in self.answers])

    @model_validator(mode="after")
    def _consistent(self) -> SampleAnswer:
        if (self.status == "ok") != (self.error is None):
            raise ValueError(f"status is {self.status!r} but error is {self.error!r}")
        if self.text_sha != sha256_text(self.text):
            raise ValueError("text_sha is not the hash of text")
        problem = breach(self) if self.status == "ok" else None
        if problem is not None:
            raise ValueError(problem)
        return self


class GenRecord(SampleAnswer):
    """One finished (sample, arm, rep) of one attempt; a line of `gen/<shard>.jsonl`.

    Times are nanoseconds of the process's monotonic clock since the session began. Both arms of a pair
    carry the same `session_id` and `attempt`; a pair cut in two by a kill is redone under a new attempt.
    """

    schema_id: Literal["gravbench.gen/3"] = Field(default="gravbench.gen/3", alias="schema")
    run_id: str
    session_id: str
    arm: str
    slot: int = Field(ge=0)
    attempt: int = Field(ge=1)
    suite_sha: str
    timing_source: Literal["engine", "import"] = "engine"
    forward_group: int | None = Field(default=None, ge=0)
    """Records of one session and arm with the same number shared forwards; `None`: it decoded alone."""
    submit_ns: int = Field(ge=0)
    done_ns: int = Field(ge=0)
    peak_memory: PeakMemory | None = None
    """While it was decoded, with those that decoded together; `None` where nothing was measured."""

    @model_validator(mode="after")
    def _in_order(self) -> GenRecord:
        if self.done_ns < self.submit_ns:
            raise ValueError(f"done_ns {self.done_ns} lies before submit_ns {self.submit_ns}")
        return self


class ScoreRecord(StoredRecord):
    """One metric of one prediction, with the sufficient statistics to aggregate it again.

    `value` is `None` when the metric does not apply, and then `reason` says why. A failed sample has the
    worst value and `failed` set, so it stays in every denominator.
    """

    schema_id: Literal["gravbench.score/1"] = Field(default="gravbench.score/1", alias="schema")
    sample_id: str
    arm: str
    rep: int = Field(default=0, ge=0)
    task: SampleTask
    metric: str
    signature: str
    value: float | None
    counts: dict[str, float]
    failed: bool = False
    reason: str | None = None
    notes: tuple[Note, ...] = ()
    prediction_sha: str
    reference_sha: str


def breach(record: SampleAnswer) -> str | None:
    """What an answer that claims to be complete gets wrong about itself; `None` when it adds up."""
    if record.pieces and not record.answers and not record.imported:
        return "an ok record needs a trace"
    if record.stop_reason == "error":
        return "an ok record cannot stop by error"
    for piece, trace in record.answers:
        if len(piece.token_ids) != trace.counters.tokens_out and not (
            piece.hides_tokens and not piece.token_ids
        ):
            return f"{len(piece.token_ids)} token ids, counters.tokens_out is {trace.counters.tokens_out}"
    tokens = len(record.token_ids)
    if tokens > record.max_new_tokens and not record.imported:
        return f"{tokens} tokens out of a budget of {record.max_new_tokens}"
    return next((fault for _, trace in record.answers if (fault := _times_breach(trace))), None)


def _times_breach(trace: Trace) -> str | None:
    times = trace.times
    stages = (times.vision_ns, times.prefill_ns, times.decode_ns)
    if any(value < 0 for _, value in times if value is not None):
        return f"negative duration in {times!r}"
    spent = sum(t for t in stages if t is not None)
    if times.total_ns is not None and spent > times.total_ns + CLOCK_SLACK_NS:
        return f"stages take {spent} ns, the whole request {times.total_ns} ns"
    return None


def canonical_json(value: Any) -> bytes:
    """One line of UTF-8 JSON, keys sorted, floats in full precision: equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def record_bytes(record: Record) -> bytes:
    """A record as `canonical_json`, under its on-disk key names."""
    return canonical_json(record.model_dump(mode="json", by_alias=True))


def sha256_of(value: Any) -> str:
    """sha256 of `canonical_json(value)`, in hex."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def sha256_text(text: str) -> str:
    """sha256 of the UTF-8 bytes of `text`, in hex."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
