"""Page runs: stage times, regions by task, and what ties decode speedup to page speedup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from gravbench.records import TASKS, Counters, Record, Task
from gravbench.store.page_schema import PageDetail, RegionDetail
from gravbench.store.schema import GenRecord

STAGES = ("load", "layout", "crop", "image", "vision", "prefill", "decode", "assembly")
"""Stages that follow one another on a page; draft and verify lie inside decode."""


class RegionSummary(Record):
    """Regions of one task over all pages. `tpf_all` = decode tokens / full-model decode forwards."""

    regions: int
    failed: int
    loops: int
    stopped_by_length: int
    tokens_out: int
    tpf_all: float | None = None
    accepted_draft: float | None = None
    tau_round: float | None = None


class AmdahlSplit(Record):
    """How the decode speedup becomes a page speedup.

    With f the share of the base's page time spent decoding and s the decode speedup (ratios of sums over
    pages), predicted = 1 / ((1 - f) + f / s); residual = measured - predicted: time outside decoding that
    differs between the arms. `ceiling` = 1 / (1 - f), the page speedup of infinitely fast decoding.
    """

    decode_share: float
    decode_speedup: float
    predicted: float
    measured: float
    residual: float
    ceiling: float | None = None


class PagesSummary(Record):
    """One strategy on pages. `stages_ns` are sums over pages; `other` is page time in no stage."""

    n_pages: int
    n_read: int = 0
    """Pages that did not fail: what the other fields are of."""
    regions: dict[Task, RegionSummary]
    skipped: dict[str, int]
    dropped: dict[str, int]
    stages_ns: dict[str, int]
    amdahl: AmdahlSplit | None = None


def page_ns(record: GenRecord) -> int | None:
    """Wall clock of a page, from opening the image to final Markdown; `None` for crops and failed pages."""
    return record.page.stages.total_ns if record.page else None


def summarise_pages(pairs: Sequence[Mapping[str, GenRecord]], arm: str, *, base: str | None) -> PagesSummary:
    """Summary of one arm over page pairs, with its Amdahl split against `base` where both read the page."""
    pages = [pair[arm].page for pair in pairs]
    details = [page for page in pages if page is not None]
    regions = [region for page in details for region in page.regions]
    return PagesSummary(
        n_pages=len(pairs),
        n_read=len(details),
        regions={
            task: _regions([r for r in regions if r.task == task])
            for task in TASKS
            if any(r.task == task for r in regions)
        },
        skipped=_added([page.skipped for page in details]),
        dropped=_added([page.dropped for page in details]),
        stages_ns=stage_sums(details),
        amdahl=_amdahl(pairs, arm, base) if base is not None else None,
    )


def stage_sums(details: Sequence[PageDetail]) -> dict[str, int]:
    """Nanoseconds by stage over all pages; with `draft`, `verify` (parts of decode), `other` and `total`."""
    sums = {name: sum(getattr(d.stages, f"{name}_ns") for d in details) for name in STAGES}
    total = sum(d.stages.total_ns for d in details)
    return {
        **sums,
        "draft": sum(d.stages.draft_ns for d in details),
        "verify": sum(d.stages.verify_ns for d in details),
        "other": max(0, total - sum(sums.values())),
        "total": total,
    }


def page_without_clocks(page: PageDetail) -> dict[str, JsonValue]:
    """A page's record with nothing that a clock wrote."""
    return {
        "image": page.image,
        "layout": page.layout,
        "assembler": page.assembler,
        "regions": [region.model_dump(mode="json", exclude={"times"}) for region in page.regions],
        "skipped": dict(page.skipped),
        "dropped": dict(page.dropped),
    }


def _regions(regions: Sequence[RegionDetail]) -> RegionSummary:
    counted = [region.counters for region in regions if region.counters is not None]
    tokens = sum(c.decode_tokens for c in counted)
    rounds = sum(c.rounds for c in counted)
    return RegionSummary(
        regions=len(regions),
        failed=sum(region.error is not None for region in regions),
        loops=sum(region.loop_flag for region in regions),
        stopped_by_length=sum(region.stop_reason == "length" for region in regions),
        tokens_out=sum(c.tokens_out for c in counted),
        tpf_all=_ratio(tokens, sum(c.decode_forwards for c in counted)),
        accepted_draft=_drafted(counted, rounds),
        tau_round=_ratio(tokens, rounds),
    )


def _drafted(counted: Sequence[Counters], rounds: int) -> float | None:
    if not any(c.draft_offered for c in counted):
        return None
    return _ratio(sum(c.draft_accepted for c in counted), rounds)


def _amdahl(pairs: Sequence[Mapping[str, GenRecord]], arm: str, base: str) -> AmdahlSplit | None:
    both = [
        (pair[base].page, pair[arm].page)
        for pair in pairs
        if base in pair and pair[base].page is not None and pair[arm].page is not None
    ]
    slow = [first.stages for first, _ in both if first is not None]
    fast = [second.stages for _, second in both if second is not None]
    whole, own_whole = sum(s.total_ns for s in slow), sum(s.total_ns for s in fast)
    decode, own_decode = sum(s.decode_ns for s in slow), sum(s.decode_ns for s in fast)
    if not whole or not own_whole or not own_decode:
        return None
    share, speedup = decode / whole, decode / own_decode
    predicted = 1 / ((1 - share) + share / speedup) if speedup else 1 / (1 - share)
    measured = whole / own_whole
    return AmdahlSplit(
        decode_share=share,
        decode_speedup=speedup,
        predicted=predicted,
        measured=measured,
        residual=measured - predicted,
        ceiling=1 / (1 - share) if share < 1 else None,
    )


def _added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(sorted(total.items()))


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None
