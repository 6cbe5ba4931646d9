"""The values that cross module lines.

Everything here may reach disk, so every class is a frozen pydantic model that refuses unknown fields.
Counter names are those of the decoding literature, never a bare "acceptance length".
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Task = Literal["text", "table", "formula"]
StopReason = Literal["eos", "length", "error"]

TASKS: tuple[Task, ...] = ("text", "table", "formula")

SampleTask = Literal["text", "table", "formula", "page"]
"""What one sample is: a region crop of one task, or a page of many regions."""

SAMPLE_TASKS: tuple[SampleTask, ...] = (*TASKS, "page")

Point = tuple[float, float]
"""(x, y) in image pixels, from the upper left corner."""


class Record(BaseModel):
    """Frozen; unknown fields are errors; floats in full precision."""

    model_config = ConfigDict(frozen=True, extra="forbid")


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
    max_new_tokens: int = Field(ge=1)


class Rounds(Record):
    """Per-round counts, one entry a round, columnar. An AR step is a round that offers 0 and commits 1."""

    offered: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    forwards: tuple[int, ...] = ()


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
    draft_offered: int = 0
    draft_accepted: int = 0
    ar_tokens: int = 0
    tokens_discarded_after_stop: int = 0
    kv_rows_freed: int = 0
    prompt_tokens: int = 0
    vision_tokens: int = 0

    @property
    def decode_tokens(self) -> int:
        """Tokens committed by decode rounds (each prefill's own token left out); 0 when nothing came out."""
        return max(self.tokens_out - self.requests, 0)

    @property
    def decode_forwards(self) -> int:
        """Full-model forwards of every decode kind; prefill, vision and small heads are not in it."""
        return self.fwd_draft + self.fwd_verify + self.fwd_denoise + self.fwd_cache_write


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
    decode_ns: int | None = None
    total_ns: int | None = None
    forward_share: float | None = None


class Trace(Record):
    """Counters, per-round log and times of one request, cross-checked when built."""

    counters: Counters
    rounds: Rounds
    times: Times

    @model_validator(mode="after")
    def _adds_up(self) -> Trace:
        r, c = self.rounds, self.counters
        lengths = {len(r.offered), len(r.accepted), len(r.committed), len(r.forwards)}
        if lengths != {c.rounds}:
            raise ValueError(
                f"rounds has columns of lengths {sorted(lengths)}, counters.rounds is {c.rounds}"
            )
        if sum(r.committed) != c.decode_tokens:
            raise ValueError(f"rounds commit {sum(r.committed)} tokens, decode tokens are {c.decode_tokens}")
        for offered, accepted, committed in zip(r.offered, r.accepted, r.committed, strict=True):
            if not 0 <= accepted <= offered or not 0 <= committed <= accepted + 2:
                raise ValueError(
                    f"impossible round: offered {offered}, accepted {accepted}, committed {committed}"
                )
        if sum(r.forwards) != c.decode_forwards:
            raise ValueError(f"rounds make {sum(r.forwards)} forwards, counters say {c.decode_forwards}")
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
