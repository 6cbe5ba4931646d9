"""What the speedup should be, from counters and the cost of forwards, against what was measured.

    decode:   predicted = tau_round * c(1) / sum over a round of c(Q_i)
    request:  predicted = 1 / ((1 - d) + d / decode speedup),  d = decode share of the base arm (Amdahl)

A residual is measured / predicted - 1: what the model leaves out (host work, matching, cache handling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from gravbench.analysis.speed import CounterSummary, summarise_counters
from gravbench.arms import batch_of
from gravbench.records import Record
from gravbench.store.schema import GenRecord

Pairs = Sequence[tuple[GenRecord, GenRecord]]
COST_TABLE_MIN = 2
STAGES = ("image", "vision", "prefill", "decode")


class CostModel(Record):
    """Predicted and measured decode speedup; `None` where a factor was not measured.

    `round_cost` is the cost of a round's forwards in units of c(1), `source` says where it comes from:
    the forward times in the run's own traces, or a table of c(Q)/c(1).
    """

    source: Literal["traces", "table"]
    tau_round: float
    rows_per_draft: float | None
    rows_per_verify: float | None
    round_cost: float
    predicted: float
    measured: float
    residual: float


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
    base_ns, own_ns = (_total(records, "decode") for records in zip(*ok, strict=True)) if ok else (0, 0)
    if not (own.tau_round and own.rounds and base.decode_forwards and base_ns and own_ns):
        return None
    unit_ns = base_ns / base.decode_forwards  # c(1)
    if table is None:
        spent = sum(_total([b for _, b in ok], stage) for stage in ("draft", "verify"))
        if not spent:
            return None
        round_cost = spent / own.rounds / unit_ns
    else:
        round_cost = _table_cost(own, table)
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
    )


def amdahl(pairs: Pairs) -> Amdahl | None:
    """Stage shares of both arms and the request speedup they predict; `None` without request times."""
    ok = [(a, b) for a, b in pairs if a.status == b.status == "ok"]
    if not ok:
        return None
    base_all, own_all = (_total(records, "total") for records in zip(*ok, strict=True))
    base_decode, own_decode = (_total(records, "decode") for records in zip(*ok, strict=True))
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


def _table_cost(counters: CounterSummary, table: Mapping[int, float]) -> float:
    """Cost of an average round in units of c(1), each kind of forward at its mean number of rows."""
    known = sorted(table)
    if len(known) < COST_TABLE_MIN:
        raise ValueError("a table of forward costs needs at least two row counts")
    total = 0.0
    for rows, forwards in (
        (counters.rows_draft, counters.fwd_draft),
        (counters.rows_verify, counters.fwd_verify),
        (counters.rows_denoise, counters.fwd_denoise),
        (counters.rows_cache_write, counters.fwd_cache_write),
    ):
        if forwards:
            total += forwards * float(np.interp(rows / forwards, known, [table[q] for q in known]))
    return total / counters.rounds


def _shares(records: Sequence[GenRecord], whole: int) -> dict[str, float]:
    shares = {stage: _total(records, stage) / whole for stage in STAGES}
    return {**shares, "other": 1 - sum(shares.values())}


def _total(records: Sequence[GenRecord], stage: str) -> int:
    return sum(getattr(r.trace.times, f"{stage}_ns") or 0 for r in records if r.trace is not None)


def _mean_rows(rows: int, forwards: int) -> float | None:
    return rows / forwards if forwards else None
