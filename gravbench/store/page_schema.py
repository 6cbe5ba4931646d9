"""What a page keeps beside its Markdown: regions with their own counters and times, and stage times."""

from __future__ import annotations

from pydantic import Field

from gravbench.records import Counters, Point, Record, StopReason, Task, Times


class RegionDetail(Record):
    """One region that was read, in reading order.

    Its token ids are the next `counters.tokens_out` of the page's; its rounds the next `counters.rounds`.
    A region that failed has `error`, no text, and no counters.
    """

    region_id: str
    label: str
    task: Task
    polygon: tuple[Point, ...]
    crop_wh: tuple[int, int] | None = None
    text: str
    stop_reason: StopReason
    loop_flag: bool
    error: str | None = None
    counters: Counters | None = None
    times: Times | None = None


class StageTimes(Record):
    """Nanoseconds of one page, by stage. `region_ns` is the wall clock of all model calls of the page.

    vision, prefill, draft, verify and decode are sums over regions; with regions in flight together they may
    exceed `region_ns`. `total_ns` = load + layout + crop + region + assembly and what lies between them.
    """

    load_ns: int = Field(ge=0)
    layout_ns: int = Field(ge=0)
    crop_ns: int = Field(ge=0)
    region_ns: int = Field(ge=0)
    assembly_ns: int = Field(ge=0)
    total_ns: int = Field(ge=0)
    image_ns: int = Field(default=0, ge=0)
    vision_ns: int = Field(default=0, ge=0)
    prefill_ns: int = Field(default=0, ge=0)
    draft_ns: int = Field(default=0, ge=0)
    verify_ns: int = Field(default=0, ge=0)
    decode_ns: int = Field(default=0, ge=0)


class PageDetail(Record):
    """How a page came about. `skipped` and `dropped` count regions that are not read, by label."""

    image: str
    layout: str
    assembler: str
    regions: tuple[RegionDetail, ...]
    skipped: dict[str, int]
    dropped: dict[str, int]
    stages: StageTimes
