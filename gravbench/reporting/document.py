"""`gravbench.report/1`: everything a report shows, as JSON. The HTML is a function of it alone."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from gravbench.analysis.comparison import ArmComparison, FieldDifference
from gravbench.analysis.counters import CounterSummary
from gravbench.analysis.identity import Audit
from gravbench.analysis.quality import QualityLevel
from gravbench.analysis.run_analysis import RunAnalysis
from gravbench.records import Record, Rounds
from gravbench.store.schema import StoredRecord


class PairTimes(Record):
    """Columns, one entry a pair in which strategy and speed base are ok and timed; nanoseconds of whole
    requests, shares of them where crops decode together."""

    sample_ids: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    base_ns: tuple[int, ...] = ()
    own_ns: tuple[int, ...] = ()


class SlotCosts(Record):
    """Columns in slot order: decode nanoseconds per decode forward of the speed base and of the strategy."""

    slots: tuple[float, ...] = ()
    base: tuple[float, ...] = ()
    own: tuple[float, ...] = ()


class ArmPart(Record):
    """What a strategy's charts need beyond its analysis. `hidden` ok samples have no log of their rounds."""

    arm: str
    block: int | None
    counters: CounterSummary
    levels: dict[str, QualityLevel]
    pairs: PairTimes
    base_stages: dict[str, int] = Field(default_factory=dict)
    """Nanoseconds by stage over the pages that both arms read, of the speed base; empty for crops."""
    own_stages: dict[str, int] = Field(default_factory=dict)
    costs: SlotCosts
    ok: int
    hidden: int


GateStatus = Literal["pass", "inconclusive", "warn", "missing", "fail", "off"]


class GateRow(Record):
    """One rule of the gate on one strategy; `observed` was held against `limit`."""

    status: GateStatus
    arm: str
    rule: str
    observed: float | None
    limit: float | None
    explanation: str


class GatePart(Record):
    """What the gate says of a run. `reference` is `None` when there was none to hold it against.

    `problems` say why nothing was judged; then there are no rows. `outcome` is `None` where nobody asked for
    a gate and the shipped reference, if there is one, is of another run.
    """

    reference: str | None
    outcome: Literal["pass", "fail", "not-comparable"] | None
    rows: tuple[GateRow, ...] = ()
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class RunPart(Record):
    """One run: its analysis, how it was made, and what a reader must know before believing it."""

    name: str
    run_id: str
    created_utc: str
    argv: tuple[str, ...]
    identity: dict[str, JsonValue]
    identity_sha: str
    model: dict[str, JsonValue]
    environment: dict[str, JsonValue]
    protocol: dict[str, JsonValue]
    sessions: int
    analysis: RunAnalysis
    arms: tuple[ArmPart, ...]
    cautions: tuple[str, ...]
    signatures: dict[str, str]
    pieces: dict[int, str]
    """Text of each token id that occurs; empty when the tokenizer is not at hand."""
    gate: GatePart | None = None
    """Absent when nobody asked a gate, as in documents older than the field."""


class PairPart(Record):
    """A later run held against the first. `problem` says why nothing could be compared."""

    base: str
    own: str
    problem: str | None = None
    arms: tuple[ArmComparison, ...] = ()
    settings: tuple[FieldDifference, ...] = ()
    environment: tuple[FieldDifference, ...] = ()
    not_comparable: tuple[str, ...] = ()


class NullPart(Record):
    """AR against AR, and what differed between the two."""

    audit: Audit
    setting: str


class Answer(Record):
    """What one strategy of one run made of a sample. `requests` = (tokens out, rounds) of each model call."""

    run: int
    arm: str
    status: str
    stop_reason: str
    error: str | None
    loop: bool
    text: str
    token_ids: tuple[int, ...]
    rounds: Rounds | None
    requests: tuple[tuple[int, int], ...]
    request_ns: int | None
    decode_ns: int | None
    scores: dict[str, float | None]
    reasons: dict[str, str]
    identical: bool | None


class GallerySample(Record):
    """One sample with everything said about it. `image` is a small picture as a data address."""

    sample_id: str
    rep: int
    task: str
    categories: dict[str, str]
    image: str | None
    image_name: str | None
    image_wh: tuple[int, int] | None
    image_note: str | None
    reference: str | None
    answers: tuple[Answer, ...]


class ReportDocument(StoredRecord):
    """The whole report."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.report/1"] = Field(default="gravbench.report/1", alias="schema")
    title: str
    gravbench_version: str
    commands: tuple[str, ...]
    resamples: int
    seed: int
    intervals: str | None = None
    """How the intervals were made; documents without the field have plain BCa intervals."""
    runs: tuple[RunPart, ...] = Field(min_length=1)
    comparisons: tuple[PairPart, ...] = ()
    null: NullPart | None = None
    gallery: tuple[GallerySample, ...] = ()
