"""Counters and speedups from traces: ratios of sums over samples, each under its full name.

Decode tokens are `tokens_out - 1`: prefill's own token is in no numerator, the first EOS counts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gravbench.analysis.acceptance import acceptance
from gravbench.analysis.bootstrap import RESAMPLES, Design, Interval
from gravbench.analysis.loaded import Unit
from gravbench.analysis.speed_estimate import estimate_speedup
from gravbench.records import Counters, Record, Trace
from gravbench.store.schema import GenRecord

COUNTED = tuple(Counters.model_fields)


class CounterSummary(Record):
    """Summed counters of one strategy, and their ratios. A ratio is `None` when its denominator is 0.

    * `tpf_all` = decode tokens / full-model decode forwards of every kind
    * `accepted_draft` = accepted draft tokens / rounds (no seed, no bonus); drafts accepted behind the end of
      an output count, here and in `accept_hist`: trimming takes nothing back
    * `tau_round` = committed tokens / rounds (all a round appended, after trimming at the stop)
    * `acceptance_rate` = accepted / offered draft tokens
    * `chars_per_forward` = characters of the final text / full-model decode forwards
    * `requests_per_forward` = decode forwards of all requests / forwards that were run for them: how full the
      batches were, 1 without batches; it depends on who was under way together, as no other counter does
    * `tau_bonus` = `accepted_draft` + 1
    * `accept_hist[a]` = rounds that accepted `a` drafts, of those that offered any
    * `pos_accept[j]` = share that accepted draft `j` (from 1), of the rounds that accepted `j - 1`
    * `first_reject_pos[j]` = rounds whose first rejected draft was `j`

    The last four are absent where no draft was offered. Rounds cut by EOS or the budget count in `pos_accept`
    and `first_reject_pos` up to the cut alone.
    """

    tpf_all: float | None = None
    accepted_draft: float | None = None
    tau_round: float | None = None
    acceptance_rate: float | None = None
    chars_per_forward: float | None = None
    requests_per_forward: float | None = None
    tau_bonus: float | None = None
    accept_hist: dict[int, int] | None = None
    pos_accept: dict[int, float] | None = None
    first_reject_pos: dict[int, int] | None = None
    samples: int
    characters: int
    decode_tokens: int
    decode_forwards: int
    loops: int
    stopped_by_length: int
    requests: int
    tokens_out: int
    rounds: int
    fwd_vision: int
    fwd_prefill: int
    fwd_draft: int
    fwd_verify: int
    fwd_denoise: int
    fwd_cache_write: int
    fwd_head: int
    rows_prefill: int
    rows_draft: int
    rows_verify: int
    rows_denoise: int
    rows_cache_write: int
    draft_offered: int
    draft_accepted: int
    ar_tokens: int
    tokens_discarded_after_stop: int
    kv_rows_freed: int
    prompt_tokens: int
    vision_tokens: int


class Speedup(Interval):
    """sum of AR times / sum of this strategy's times over pairs, with its interval; `n_pairs` went in."""

    n_pairs: int
    base_ns: int
    own_ns: int


def summarise_counters(records: Iterable[GenRecord]) -> CounterSummary:
    """Counters summed over the ok records; failed ones have no trace and are left out."""
    ok = [(r, r.trace) for r in records if r.status == "ok" and r.trace is not None]
    totals = {name: sum(getattr(trace.counters, name) for _, trace in ok) for name in COUNTED}
    tokens = sum(trace.counters.decode_tokens for _, trace in ok)
    forwards = sum(trace.counters.decode_forwards for _, trace in ok)
    characters = sum(len(record.text) for record, _ in ok)
    rounds = totals["rounds"]
    drafts = acceptance(record for record, _ in ok)
    return CounterSummary(
        tpf_all=_ratio(tokens, forwards),
        accepted_draft=_ratio(totals["draft_accepted"], rounds),
        tau_round=_ratio(tokens, rounds),
        acceptance_rate=_ratio(totals["draft_accepted"], totals["draft_offered"]),
        chars_per_forward=_ratio(characters, forwards),
        requests_per_forward=_occupancy([trace for _, trace in ok]),
        tau_bonus=_ratio(totals["draft_accepted"] + rounds, rounds) if totals["draft_offered"] else None,
        accept_hist=drafts.histogram if drafts else None,
        pos_accept=drafts.conditional if drafts else None,
        first_reject_pos=drafts.first_rejections if drafts else None,
        samples=len(ok),
        characters=characters,
        decode_tokens=tokens,
        decode_forwards=forwards,
        loops=sum(record.loop_flag for record, _ in ok),
        stopped_by_length=sum(record.stop_reason == "length" for record, _ in ok),
        **totals,
    )


def decode_ns(record: GenRecord) -> int | None:
    """Time of the decode rounds alone; `None` when not measured."""
    return record.trace.times.decode_ns if record.trace else None


def request_ns(record: GenRecord) -> int | None:
    """Time of the whole request, image and prefill included; `None` when not measured."""
    return record.trace.times.total_ns if record.trace else None


def speedup(
    units: Sequence[Unit],
    base: str,
    own: str,
    time_of: Callable[[GenRecord], int | None],
    *,
    design: Design,
    seed: int,
) -> Speedup | None:
    """Speedup of `own` over `base` as comparisons and reports estimate it; `design` has one row per unit.

    `None` without time to divide by.
    """
    found = estimate_speedup(units, base, own, time_of, design=design, seed=seed, resamples=RESAMPLES)
    if found is None:
        return None
    return Speedup(
        value=found.value,
        low=found.low,
        high=found.high,
        n_pairs=found.n_pairs,
        base_ns=found.base_ns,
        own_ns=found.own_ns,
    )


def _occupancy(traces: Sequence[Trace]) -> float | None:
    """Decode forwards / their shares, over the traces that measured both; `None` where none did."""
    known = [
        (trace.counters.decode_forwards, trace.times.forward_share)
        for trace in traces
        if trace.times.forward_share
    ]
    run = sum(share for _, share in known if share is not None)
    return sum(forwards for forwards, _ in known) / run if run else None


def _ratio(numerator: int, denominator: int) -> float | None:
    return numerator / denominator if denominator else None
