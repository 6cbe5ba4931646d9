"""One run judged against its own AR arm: same text? faster? what did drafting do? was the machine steady?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.analysis.acceptance import Acceptance, acceptance
from gravbench.analysis.bootstrap import RESAMPLES, Design, Interval, Statistic, bootstraps, divided
from gravbench.analysis.buckets import Group, groups
from gravbench.analysis.cost_model import Amdahl, CostModel, amdahl, cost_model
from gravbench.analysis.divergence import TAU_FLOAT32, Audit, audit
from gravbench.analysis.drift import Drift, Steadiness, measure_drift, measure_steadiness
from gravbench.analysis.equality import is_identical
from gravbench.analysis.loaded import LoadedRun, Unit
from gravbench.analysis.overall_difference import QualityDifference, quality_differences
from gravbench.analysis.pages import page_ns
from gravbench.analysis.speed import decode_ns, request_ns
from gravbench.analysis.speed_estimate import (
    OutlierRow,
    SpeedEstimate,
    TimeOf,
    estimate_speedup,
    outliers,
    sub_design,
)
from gravbench.arms import base_of
from gravbench.protocols import Referee
from gravbench.records import Record

BASE = "ar"
GROUP_RESAMPLES = 2_000

RATIOS: dict[str, tuple[int, int]] = {
    "tau_round": (0, 1),
    "tpf_all": (0, 2),
    "accepted_draft": (3, 1),
    "forwards_per_sample": (2, 4),
}
"""Name -> (numerator, denominator) among tokens, rounds, forwards, accepted drafts, samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisOptions:
    """Settings of an analysis. `forward_costs` is c(Q)/c(1) by row count, if measured."""

    seed: int = 0
    resamples: int = RESAMPLES
    referee: Referee | None = None
    tau: float = TAU_FLOAT32
    forward_costs: Mapping[int, float] | None = None


class GroupRow(Record):
    """One strategy on a group of samples; described, never gated."""

    kind: str
    label: str
    n: int
    failed: int
    identical: int
    decode: SpeedEstimate | None
    request: SpeedEstimate | None
    page: SpeedEstimate | None = None
    """Whole pages; absent for groups without pages, and in documents older than the field."""
    counters: dict[str, Interval]
    quality: dict[str, QualityDifference]


class ArmAnalysis(Record):
    """One strategy of a run, held against `base`: `ar` at the same batch size. What compares them is absent
    without such an arm.

    `quality` is own - ar in points. `decode_identical` is the decode speedup on token-identical pairs alone.
    """

    arm: str
    base: str | None = None
    n: int
    failed: int
    loops: int
    truncated: int
    counters: dict[str, Interval]
    acceptance: Acceptance | None
    quality: dict[str, QualityDifference]
    identity: Audit | None
    decode: SpeedEstimate | None
    request: SpeedEstimate | None
    page: SpeedEstimate | None
    """Whole pages, from opening the image to final Markdown; absent without pages."""
    decode_identical: SpeedEstimate | None
    groups: tuple[GroupRow, ...]
    cost_model: CostModel | None
    amdahl: Amdahl | None
    drift: Drift | None
    steadiness: Steadiness | None
    outliers: tuple[OutlierRow, ...]


class RunAnalysis(Record):
    """Every strategy of one run."""

    run: str
    suite: str
    n_samples: int
    n_clusters: int
    arms: tuple[ArmAnalysis, ...]
    notes: tuple[str, ...]


def analyse_run(run: LoadedRun, options: AnalysisOptions) -> RunAnalysis:
    """All figures of one run, intervals included."""
    design = run.design()
    return RunAnalysis(
        run=run.name,
        suite=str(run.manifest.identity["suite"]),
        n_samples=len(run.units),
        n_clusters=design.n_clusters,
        arms=tuple(_arm(run, arm, design, options) for arm in run.arms),
        notes=run.notes,
    )


def counter_ratios(
    units: Sequence[Unit], arm: str, design: Design, *, seed: int, resamples: int
) -> dict[str, Interval]:
    """The `RATIOS` over the ok samples with intervals; one whose denominator is 0 is absent."""
    rows, kept = [], []
    for index, unit in enumerate(units):
        record = unit.records[arm]
        if record.status == "ok" and record.trace is not None:
            c = record.trace.counters
            rows.append((c.decode_tokens, c.rounds, c.decode_forwards, c.draft_accepted, 1))
            kept.append(index)
    if not rows:
        return {}
    columns, here = np.array(rows, dtype=np.float64), sub_design(design, kept)
    statistics = {name: _of(*pair) for name, pair in RATIOS.items()}
    return bootstraps(columns, statistics, here, seed=seed, resamples=resamples)


def _of(numerator: int, denominator: int) -> Statistic:
    return lambda sums: divided(sums[..., numerator], sums[..., denominator])


def _arm(run: LoadedRun, arm: str, design: Design, options: AnalysisOptions) -> ArmAnalysis:
    records, units = run.records(arm), run.units
    base = base_of(arm, run.arms)
    against = base is not None
    base = base or arm
    pairs = [(unit.records[base], unit.records[arm]) for unit in units] if against else []
    same = [i for i, pair in enumerate(pairs) if is_identical(*pair)]
    seed, resamples = options.seed, options.resamples

    def speed(kept: Sequence[int], time_of: TimeOf) -> SpeedEstimate | None:
        if not kept:
            return None
        return estimate_speedup(
            [units[i] for i in kept],
            base,
            arm,
            time_of,
            design=sub_design(design, kept),
            seed=seed,
            resamples=resamples,
        )

    everything = range(len(units)) if against else ()
    return ArmAnalysis(
        arm=arm,
        base=base if against else None,
        n=len(units),
        failed=sum(r.status != "ok" for r in records),
        loops=sum(r.loop_flag for r in records),
        truncated=sum(r.stop_reason == "length" for r in records),
        counters=counter_ratios(units, arm, design, seed=seed, resamples=resamples),
        acceptance=acceptance(records),
        quality=quality_differences(
            run.unit_scores(base), run.unit_scores(arm), design=design, seed=seed, resamples=resamples
        )
        if against
        else {},
        identity=audit(pairs, referee=options.referee, tau=options.tau) if against else None,
        decode=speed(everything, decode_ns),
        request=speed(everything, request_ns),
        page=speed(everything, page_ns),
        decode_identical=speed(same, decode_ns),
        groups=tuple(
            _group(run, arm, group, design, options, base=base if against else None)
            for group in groups(units, run.facts, base=base)
        ),
        cost_model=cost_model(pairs, table=options.forward_costs) if against else None,
        amdahl=amdahl(pairs) if against else None,
        drift=measure_drift(units, base, arm) if against else None,
        steadiness=measure_steadiness(units, base, arm) if against else None,
        outliers=outliers(units, base, arm, request_ns) if against else (),
    )


def _group(
    run: LoadedRun, arm: str, group: Group, design: Design, options: AnalysisOptions, *, base: str | None
) -> GroupRow:
    kind, label, kept = group
    units, here = [run.units[i] for i in kept], sub_design(design, kept)
    seed, resamples = options.seed, min(options.resamples, GROUP_RESAMPLES)
    own_scores = run.unit_scores(arm)
    base_scores = own_scores if base is None else run.unit_scores(base)

    def speed(time_of: TimeOf) -> SpeedEstimate | None:
        if base is None:
            return None
        return estimate_speedup(units, base, arm, time_of, design=here, seed=seed, resamples=resamples)

    return GroupRow(
        kind=kind,
        label=label,
        n=len(units),
        failed=sum(unit.records[arm].status != "ok" for unit in units),
        identical=0 if base is None else sum(is_identical(u.records[base], u.records[arm]) for u in units),
        decode=speed(decode_ns),
        request=speed(request_ns),
        page=speed(page_ns),
        counters=counter_ratios(units, arm, here, seed=seed, resamples=resamples),
        quality=quality_differences(
            [base_scores[i] for i in kept],
            [own_scores[i] for i in kept],
            design=here,
            seed=seed,
            resamples=resamples,
        ),
    )
