"""Where time goes, and what the speedup should be: pages by stage, Amdahl's split, the cost of forwards.

    decode:   predicted = tau_round * c(1) / sum over a round of c(Q_i)
    request:  predicted = 1 / ((1 - d) + d / decode speedup),  d = decode share of the base arm (Amdahl)

A residual is measured / predicted - 1: what the model leaves out (host work, matching, cache handling).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gravbench.analysis.counters import (
    CounterSummary,
    summarise_counters,
    tokens_in_forwards,
    tokens_in_rounds,
)
from gravbench.analysis.speed import request_ns
from gravbench.arms import batch_of
from gravbench.records import TASKS, Counters, Piece, Record, Task
from gravbench.store.schema import GenRecord

REQUEST_STAGES = ("image", "vision", "prefill", "decode")
STAGES = ("load", "layout", "crop", *REQUEST_STAGES, "assembly")
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
    """Wall clock of a page, from opening the image to final Markdown; `None` for crops, failed pages and
    pages whose times were left out."""
    stages = record.assembly.stages if record.assembly else None
    return stages.total_ns if stages else None


def whole_ns(record: GenRecord) -> int | None:
    """Time of the whole sample: of its assembly, or of the one request it is."""
    return page_ns(record) or request_ns(record)


def summarise_pages(pairs: Sequence[Mapping[str, GenRecord]], arm: str, *, base: str | None) -> PagesSummary:
    """Summary of one arm over page pairs, with its Amdahl split against `base` where both read the page."""
    read = [pair[arm] for pair in pairs if pair[arm].assembly is not None]
    assemblies = [record.assembly for record in read if record.assembly is not None]
    regions = [piece for record in read for piece in record.pieces]
    return PagesSummary(
        n_pages=len(pairs),
        n_read=len(read),
        regions={
            task: _regions([r for r in regions if r.task == task])
            for task in TASKS
            if any(r.task == task for r in regions)
        },
        skipped=_added([assembly.skipped for assembly in assemblies]),
        dropped=_added([assembly.dropped for assembly in assemblies]),
        stages_ns=stage_sums(read),
        amdahl=_page_split(pairs, arm, base) if base is not None else None,
    )


def stage_sums(records: Sequence[GenRecord]) -> dict[str, int]:
    """Nanoseconds by stage over all pages; with `draft`, `verify` (parts of decode), `other` and `total`."""
    assemblies = [record.assembly for record in records if record.assembly is not None]
    stages = [assembly.stages for assembly in assemblies if assembly.stages is not None]
    sums = {
        name: _spent(records, name)
        if name in REQUEST_STAGES
        else sum(getattr(one, f"{name}_ns") for one in stages)
        for name in STAGES
    }
    total = sum(one.total_ns for one in stages)
    return {
        **sums,
        "draft": _spent(records, "draft"),
        "verify": _spent(records, "verify"),
        "other": max(0, total - sum(sums.values())),
        "total": total,
    }


def _spent(records: Sequence[GenRecord], stage: str) -> int:
    """Nanoseconds of one stage of all requests, as far as they were measured."""
    traces = (piece.trace for record in records for piece in record.pieces)
    return sum(getattr(trace.times, f"{stage}_ns") or 0 for trace in traces if trace is not None)


def _regions(regions: Sequence[Piece]) -> RegionSummary:
    counted = [region.trace.counters for region in regions if region.trace is not None]
    rounds = sum(c.rounds for c in counted)
    return RegionSummary(
        regions=len(regions),
        failed=sum(region.error is not None for region in regions),
        loops=sum(region.loop_flag for region in regions),
        stopped_by_length=sum(region.stop_reason == "length" for region in regions),
        tokens_out=sum(c.tokens_out for c in counted),
        tpf_all=_ratio(sum(map(tokens_in_forwards, counted)), sum(c.decode_forwards for c in counted)),
        accepted_draft=_drafted(counted, rounds),
        tau_round=_ratio(sum(map(tokens_in_rounds, counted)), rounds),
    )


def _drafted(counted: Sequence[Counters], rounds: int) -> float | None:
    if not any(c.draft_offered for c in counted):
        return None
    return _ratio(sum(c.draft_accepted for c in counted), rounds)


def _page_split(pairs: Sequence[Mapping[str, GenRecord]], arm: str, base: str) -> AmdahlSplit | None:
    both = [
        (pair[base], pair[arm])
        for pair in pairs
        if base in pair and pair[base].assembly is not None and pair[arm].assembly is not None
    ]
    whole, own_whole = (sum(page_ns(pair[side]) or 0 for pair in both) for side in (0, 1))
    decode, own_decode = (_spent([pair[side] for pair in both], "decode") for side in (0, 1))
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


Pairs = Sequence[tuple[GenRecord, GenRecord]]
COST_TABLE_MIN = 2
KINDS = ("draft", "denoise", "verify", "cache_write", "head")
"""Of the forwards of a round, those of a small head last."""


class RoundPart(Record):
    """Forwards of one kind: how many a round makes, their mean rows, and what one of them costs in c(1)."""

    forwards: float
    rows: float
    cost: float


class CostModel(Record):
    """Predicted and measured decode speedup; `None` where a factor was not measured.

    `round_cost` is the cost of a round's forwards in units of c(1), `source` says where it comes from:
    the forward times in the run's own traces, or a table of c(Q)/c(1). Steps of a small head are in it.
    """

    source: Literal["traces", "table"]
    tau_round: float
    rows_per_draft: float | None
    rows_per_verify: float | None
    round_cost: float
    predicted: float
    measured: float
    residual: float
    accepted_draft: float | None = None
    parts: dict[str, RoundPart] | None = None
    """draft, denoise, verify, cache_write and head, those that were made."""
    outside: float | None = None
    """What a round spends beyond its forwards (host work, or what a table gets wrong), in c(1)."""


GOAL = 2.0
"""The decode speedup that a strategy should reach, or its cost model say why not."""


def shortfall(model: CostModel) -> str | None:
    """Why a strategy stays below `GOAL`; `None` where it does not, or where nothing was measured.

    Ceilings on its speedup: every forward at c(1); at its own c(Q); the head's steps too; all that was
    measured. The first of them below the goal names the reason.
    """
    if model.measured >= GOAL or model.parts is None:
        return None
    main = [part for kind, part in model.parts.items() if kind != "head"]
    made = sum(part.forwards for part in main)
    wide = sum(part.forwards * part.cost for part in main)
    goal, allowed = f"{GOAL:g}×", f"{model.tau_round / GOAL:.2f} c(1) a round"
    if model.tau_round < GOAL * made:
        return f"tokens: {model.tau_round / made:.2f} a forward, below {goal} even if each cost c(1)"
    if model.tau_round < GOAL * wide:
        return f"c(Q): {made:.2f} forwards of {wide / made:.2f} c(1), and {goal} allows {allowed}"
    if model.tau_round < GOAL * model.round_cost:
        return (
            f"head: {model.round_cost - wide:.2f} c(1) beside forwards of {wide:.2f}; {goal} allows {allowed}"
        )
    beside = f"{model.outside or 0:.2f} c(1) beside {model.round_cost:.2f}"
    return f"outside forwards: {beside}; {goal} allows {allowed}"


class Amdahl(Record):
    """Request times by stage, and the request speedup that the decode speedup alone would give.

    Stage values are fractions of the arm's request time; `other` is what no stage covers.
    """

    base_shares: dict[str, float]
    own_shares: dict[str, float]
    decode_speedup: float
    predicted: float
    measured: float
    residual: float


def cost_model(pairs: Pairs, *, table: Mapping[int, float] | None = None) -> CostModel | None:
    """Cost model over (base, own) pairs, base being plain AR; `None` without timed decode rounds in both.

    `table` is c(Q)/c(1) of single requests by row count, linear between its entries; without it, and where N
    requests decode together (a forward then has N times the rows, and its cost is shared), the traces' own
    draft and verify times are used.
    """
    ok = [(a, b) for a, b in pairs if a.status == b.status == "ok"]
    if any(batch_of(b.arm) > 1 for _, b in ok):
        table = None
    base, own = summarise_counters(a for a, _ in ok), summarise_counters(b for _, b in ok)
    base_ns, own_ns = (_spent(records, "decode") for records in zip(*ok, strict=True)) if ok else (0, 0)
    if not (own.tau_round and own.rounds and base.decode_forwards and base_ns and own_ns):
        return None
    unit_ns = base_ns / base.decode_forwards  # c(1)
    parts = _parts(own, {kind: _spent([b for _, b in ok], kind) / unit_ns for kind in KINDS}, table)
    round_cost = sum(part.forwards * part.cost for part in parts.values())
    if not round_cost:
        return None
    predicted = own.tau_round / round_cost
    measured = base_ns / own_ns
    return CostModel(
        source="traces" if table is None else "table",
        tau_round=own.tau_round,
        rows_per_draft=_mean_rows(own.rows_draft, own.fwd_draft),
        rows_per_verify=_mean_rows(own.rows_verify, own.fwd_verify),
        round_cost=round_cost,
        predicted=predicted,
        measured=measured,
        residual=measured / predicted - 1,
        accepted_draft=own.accepted_draft if own.draft_offered else None,
        parts=parts,
        outside=own_ns / unit_ns / own.rounds - round_cost,
    )


def amdahl(pairs: Pairs) -> Amdahl | None:
    """Stage shares of both arms and the request speedup they predict; `None` without request times."""
    ok = [(a, b) for a, b in pairs if a.status == b.status == "ok"]
    if not ok:
        return None
    base_all, own_all = (_spent(records, "total") for records in zip(*ok, strict=True))
    base_decode, own_decode = (_spent(records, "decode") for records in zip(*ok, strict=True))
    if not (base_all and own_all and base_decode and own_decode):
        return None
    share, speedup = base_decode / base_all, base_decode / own_decode
    predicted = 1 / ((1 - share) + share / speedup)
    measured = base_all / own_all
    return Amdahl(
        base_shares=_shares([a for a, _ in ok], base_all),
        own_shares=_shares([b for _, b in ok], own_all),
        decode_speedup=speedup,
        predicted=predicted,
        measured=measured,
        residual=measured / predicted - 1,
    )


def _parts(
    counters: CounterSummary, spent: Mapping[str, float], table: Mapping[int, float] | None
) -> dict[str, RoundPart]:
    """What the rounds were made of. A forward costs what the table says of its mean rows, else what it took
    of `spent` (in c(1), by kind); steps of a head are in no table."""
    known = sorted(table or ())
    if table is not None and len(known) < COST_TABLE_MIN:
        raise ValueError("a table of forward costs needs at least two row counts")
    parts = {}
    for kind in KINDS:
        made, rows = getattr(counters, f"fwd_{kind}"), getattr(counters, f"rows_{kind}")
        if made:
            cost = spent[kind] / made
            if table is not None and kind != "head":
                cost = float(np.interp(rows / made, known, [table[q] for q in known]))
            parts[kind] = RoundPart(forwards=made / counters.rounds, rows=rows / made, cost=cost)
    return parts


def _shares(records: Sequence[GenRecord], whole: int) -> dict[str, float]:
    shares = {stage: _spent(records, stage) / whole for stage in REQUEST_STAGES}
    return {**shares, "other": 1 - sum(shares.values())}


def _mean_rows(rows: int, forwards: int) -> float | None:
    return rows / forwards if forwards else None
