"""The values that cross module lines.

Everything here may reach disk, so every class is a frozen pydantic model that refuses unknown fields.
Counter names are those of the decoding literature, never a bare "acceptance length".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

Task = Literal["text", "table", "formula"]
StopReason = Literal["eos", "length", "error"]

ForwardKind = Literal["draft", "verify", "denoise", "cache_write", "head"]
"""What a decode forward is counted as; `head` is one of a small head beside the model."""

MODEL_KINDS: tuple[ForwardKind, ...] = ("draft", "verify", "denoise", "cache_write")
FORWARD_KINDS: tuple[ForwardKind, ...] = (*MODEL_KINDS, "head")

TASKS: tuple[Task, ...] = ("text", "table", "formula")

SampleTask = Literal["text", "table", "formula", "page"]
"""What one sample is: a region crop of one task, or a page of many regions."""

SAMPLE_TASKS: tuple[SampleTask, ...] = (*TASKS, "page")

Point = tuple[float, float]
"""(x, y) in image pixels, from the upper left corner."""


class Record(BaseModel):
    """Frozen; unknown fields are errors; floats in full precision."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class DecodeConfig(Record):
    """How one request is decoded. `strategy` is the id with its options, e.g. `selfspec:block=16`."""

    strategy: str
    max_new_tokens: int = Field(ge=1)
    """Budget in output tokens, the prefill's own token and the first EOS included."""


class Request(Record):
    """One model call: one region image and one prompt."""

    request_id: str
    sample_id: str
    task: Task
    image_path: str
    prompt: str | None = None
    """What the model is asked; `None`: the backend's own prompt for the task."""
    max_new_tokens: int = Field(ge=1)


@lru_cache(maxsize=512)
def _constant(value: int, length: int) -> tuple[int, ...]:
    return (value,) * length


def _shared(column: tuple[int, ...]) -> tuple[int, ...]:
    """A column of equal counts is one object for all requests of that length: most of them are."""
    if column and column.count(column[0]) == len(column):
        return _constant(column[0], len(column))
    return column


Column = Annotated[tuple[int, ...], AfterValidator(_shared)]
"""One count a round."""


class Rounds(Record):
    """What each round did, one entry a round, columnar. An AR round offers 0 and commits 1."""

    offered: Column = ()
    """Drafts that were verified; of a tree, its nodes without the root."""
    accepted: Column = ()
    """Drafts the verifier agreed with, never reduced by truncation."""
    committed: Column = ()
    """Tokens that survived EOS and budget: first the seeds, then drafts, then the verifier's own."""
    seeds: Column = ()
    """Exact tokens that stood before the drafts; 0 for a round that is not seeded."""
    extra: Column = ()
    """committed <= accepted + extra: 1 for chains and trees, 2 for `selfspec`, K + 1 for K edit passes."""
    forwards: dict[ForwardKind, Column] = Field(default_factory=dict)
    """Forwards by kind; kinds that the request never made are left out."""
    nodes: Column | None = None
    """Rows of the candidate tree, root included; `None` where rounds build none."""

    @model_validator(mode="after")
    def _rounds_are_possible(self) -> Rounds:
        columns = (self.accepted, self.committed, self.seeds, self.extra, *self.forwards.values())
        lengths = {len(column) for column in (*columns, self.nodes or self.offered)}
        if lengths != {len(self.offered)}:
            raise ValueError(f"rounds has columns of lengths {sorted({*lengths, len(self.offered)})}")
        counts = zip(self.offered, self.accepted, self.committed, self.seeds, self.extra, strict=True)
        for offered, accepted, committed, seeds, extra in counts:
            if (
                not 0 <= accepted <= offered
                or not 0 <= committed <= accepted + extra
                or not 0 <= seeds <= extra
            ):
                raise ValueError(
                    f"impossible round: offered {offered}, accepted {accepted}, committed {committed}, "
                    f"seeds {seeds}, extra {extra}"
                )
        return self

    @property
    def count(self) -> int:
        """How many rounds there are."""
        return len(self.offered)

    @property
    def model_forwards(self) -> tuple[int, ...]:
        """Full-model forwards of each round; those of a small head are not in it."""
        kinds = [column for kind, column in self.forwards.items() if kind != "head"]
        return tuple(map(sum, zip(*kinds, strict=True))) if kinds else (0,) * self.count


def joined_rounds(parts: Sequence[Rounds | None]) -> Rounds | None:
    """Rounds one after another; `None` when those of any part are hidden."""
    if len(parts) == 1:
        return parts[0]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    kinds = [kind for kind in FORWARD_KINDS if any(kind in part.forwards for part in known)]
    trees = any(part.nodes is not None for part in known)
    return Rounds(
        offered=tuple(n for part in known for n in part.offered),
        accepted=tuple(n for part in known for n in part.accepted),
        committed=tuple(n for part in known for n in part.committed),
        seeds=tuple(n for part in known for n in part.seeds),
        extra=tuple(n for part in known for n in part.extra),
        forwards={
            kind: tuple(n for p in known for n in p.forwards.get(kind, (0,) * p.count)) for kind in kinds
        },
        nodes=tuple(n for p in known for n in p.nodes or (0,) * p.count) if trees else None,
    )


class Counters(Record):
    """What decoding did, counted without any clock.

    `tokens_out` counts the prefill's token, and the first EOS once; decode tokens = `tokens_out - requests`
    is the numerator of every per-forward and per-round figure. `rows_*` are summed query lengths.
    """

    requests: int = Field(default=1, ge=0)
    """Model calls summed here: 1, or the number of regions of a page."""
    tokens_out: int = Field(ge=0)
    rounds: int = Field(ge=0)
    fwd_vision: int = 0
    fwd_prefill: int = 0
    fwd_draft: int = 0
    fwd_verify: int = 0
    fwd_denoise: int = 0
    fwd_cache_write: int = 0
    fwd_head: int = 0
    rows_prefill: int = 0
    rows_draft: int = 0
    rows_verify: int = 0
    rows_denoise: int = 0
    rows_cache_write: int = 0
    rows_head: int = 0
    draft_offered: int = 0
    draft_accepted: int = 0
    ar_tokens: int = 0
    tokens_discarded_after_stop: int = 0
    kv_rows_freed: int = 0
    tree_nodes: int = 0
    prompt_tokens: int = 0
    vision_tokens: int = 0
    own: dict[str, float] = Field(default_factory=dict)
    """Counts that the strategy alone keeps, by name."""

    @property
    def decode_tokens(self) -> int:
        """Tokens committed by decode rounds (each prefill's own token left out); 0 when nothing came out."""
        return max(self.tokens_out - self.requests, 0)

    @property
    def decode_forwards(self) -> int:
        """Full-model forwards of every decode kind; prefill, vision and small heads are not in it."""
        return self.fwd_draft + self.fwd_verify + self.fwd_denoise + self.fwd_cache_write


def summed_counters(parts: Sequence[Counters]) -> Counters:
    """Counts of several requests as one."""
    if len(parts) == 1:
        return parts[0]
    names = [name for name in Counters.model_fields if name != "own"]
    own: dict[str, float] = {}
    for part in parts:
        for name, amount in part.own.items():
            own[name] = own.get(name, 0) + amount
    return Counters(**{name: sum(getattr(part, name) for part in parts) for name in names}, own=own)


class Times(Record):
    """Nanoseconds of a monotonic clock, per stage of one request; `None` = not measured.

    Requests that decode together share the time of a forward equally. `forward_share` is their share of
    the forwards themselves: a decode forward of n requests counts 1/n. It belongs here, since like a time
    it depends on who else was under way.
    """

    image_ns: int | None = None
    vision_ns: int | None = None
    prefill_ns: int | None = None
    draft_ns: int | None = None
    verify_ns: int | None = None
    denoise_ns: int | None = None
    cache_write_ns: int | None = None
    head_ns: int | None = None
    decode_ns: int | None = None
    total_ns: int | None = None
    forward_share: float | None = None


def summed_times(parts: Sequence[Times]) -> Times:
    """Times of several requests one after another: of each stage the sum, where every request measured it."""
    if len(parts) == 1:
        return parts[0]
    columns = {name: [getattr(part, name) for part in parts] for name in Times.model_fields}
    return Times(**{name: None if None in column else sum(column) for name, column in columns.items()})


class PeakMemory(Record):
    """Most memory that was in use at once, bytes; what was not measured is `None`, never 0."""

    process_bytes: int | None = Field(default=None, gt=0)
    """Resident memory of the whole process: model, libraries, and what was used before and not given back."""
    device_bytes: int | None = Field(default=None, ge=0)
    """What the allocator of an accelerator had given out."""


class Trace(Record):
    """Counters, per-round log and times of one request, cross-checked when built.

    `rounds` is `None` when the engine hides them: then its totals stand alone.
    """

    counters: Counters
    rounds: Rounds | None
    times: Times
    hidden: dict[str, str] = Field(default_factory=dict)
    """What a server does not tell (`token_ids`, `rounds`, `times`, ...), and why; left out when empty."""

    @model_serializer(mode="wrap")
    def _as_told(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = whole(self)
        if not self.hidden:
            document.pop("hidden", None)
        return document

    @model_validator(mode="after")
    def _adds_up(self) -> Trace:
        r, c = self.rounds, self.counters
        if not 0 <= c.draft_accepted <= c.draft_offered:
            raise ValueError(f"counters accept {c.draft_accepted} of {c.draft_offered} offered drafts")
        if r is None:
            return self
        if r.count != c.rounds:
            raise ValueError(f"{r.count} rounds are logged, counters.rounds is {c.rounds}")
        for name, logged, counted in (
            ("commit {} tokens, decode tokens are {}", r.committed, c.decode_tokens),
            ("offer {} drafts, counters say {}", r.offered, c.draft_offered),
            ("accept {} drafts, counters say {}", r.accepted, c.draft_accepted),
            *(
                (f"make {{}} {k} forwards, counters say {{}}", r.forwards.get(k, ()), getattr(c, f"fwd_{k}"))
                for k in FORWARD_KINDS
            ),
        ):
            if sum(logged) != counted:
                raise ValueError("rounds " + name.format(sum(logged), counted))
        return self


class Generation(Record):
    """What a backend returns for one request. `token_ids` ends with EOS when `stop_reason` is eos."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    stop_reason: StopReason
    loop_flag: bool = False
    error: str | None = None
    trace: Trace | None = None
    span_ns: tuple[int, int] | None = None
    """Submission and completion on the process's monotonic clock, where requests overlap."""


class Piece(Record):
    """One answer of the model: a whole crop, or one region of a page, in reading order.

    A piece that failed has `error`, and neither text nor trace.
    """

    region_id: str = ""
    """Empty for a crop."""
    label: str
    """What the layout calls the region; the task of a crop."""
    task: Task
    polygon: tuple[Point, ...] = ()
    """The region on its page; empty: the whole image."""
    crop_wh: tuple[int, int] | None = None
    """Size of what was cut out; `None`: the image as it is."""
    text: str
    token_ids: tuple[int, ...]
    stop_reason: StopReason | None
    """`None`: an import that does not tell."""
    loop_flag: bool
    error: str | None = None
    trace: Trace | None

    @property
    def hides_tokens(self) -> bool:
        """Whether tokens came out whose ids a server kept to itself."""
        return self.trace is not None and "token_ids" in self.trace.hidden

    def request_id(self, sample_id: str) -> str:
        """The name of its request: the sample's own, or `page#region`."""
        return f"{sample_id}#{self.region_id}" if self.region_id else sample_id


def piece_of(
    answer: Generation,
    *,
    task: Task,
    label: str,
    region_id: str = "",
    polygon: tuple[Point, ...] = (),
    crop_wh: tuple[int, int] | None = None,
) -> Piece:
    """The answer to one request as a piece of its sample."""
    ok = answer.stop_reason != "error" and answer.trace is not None
    return Piece(
        region_id=region_id,
        label=label,
        task=task,
        polygon=polygon,
        crop_wh=crop_wh,
        text=answer.text if ok else "",
        token_ids=answer.token_ids if ok else (),
        stop_reason=answer.stop_reason if ok else "error",
        loop_flag=answer.loop_flag,
        error=None if ok else answer.error or "no trace",
        trace=answer.trace if ok else None,
    )


def untimed(piece: Piece) -> Piece:
    """The piece without its times."""
    if piece.trace is None:
        return piece
    return piece.model_copy(update={"trace": piece.trace.model_copy(update={"times": Times()})})
