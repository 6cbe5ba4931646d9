"""One run judged against its own AR arms: same text? faster? what did drafting do? was the machine steady?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gravbench.analysis.bootstrap import RESAMPLES, Design, Interval, Statistic, bootstraps, divided
from gravbench.analysis.certificate import Certificate
from gravbench.analysis.counters import (
    Acceptance,
    acceptance,
    hidden_notes,
    tokens_in_forwards,
    tokens_in_rounds,
)
from gravbench.analysis.groups import Group, WordOrder, groups, word_order_of
from gravbench.analysis.identity import TAU_FLOAT32, Audit, audit, is_identical
from gravbench.analysis.load import Load, load_of
from gravbench.analysis.loaded import (
    LoadedRun,
    RunData,
    ScoreNote,
    Unit,
    data_losses,
    import_notes,
    is_lossy,
    memory_words,
    peak_memory,
    run_data,
    score_notes,
)
from gravbench.analysis.quality import QualityDifference, element_differences, quality_differences
from gravbench.analysis.speed import (
    Drift,
    OutlierRow,
    SpeedEstimate,
    Steadiness,
    TimeOf,
    decode_ns,
    estimate_speedup,
    measure_drift,
    measure_steadiness,
    outliers,
    request_ns,
    share_notes,
    speed_notes,
    sub_design,
)
from gravbench.analysis.stages import Amdahl, CostModel, amdahl, cost_model, page_ns
from gravbench.arms import speed_base, text_base
from gravbench.protocols import Referee
from gravbench.records import PeakMemory, Record
from gravbench.store.schema import GenRecord

GROUP_RESAMPLES = 2_000

RATIOS: dict[str, tuple[int, int]] = {
    "tau_round": (5, 1),
    "tpf_all": (0, 2),
    "accepted_draft": (3, 1),
    "forwards_per_sample": (2, 4),
}
"""Name -> (numerator, denominator) among tokens in forwards, rounds, forwards, accepted drafts, samples
whose forwards were told, tokens in rounds."""


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
    """One strategy of a run, held against `ar` arms of the run. What compares them is absent without one.

    `quality` is own - ar in points. `decode_identical` is the decode speedup on pairs of the same tokens.
    """

    arm: str
    base: str | None = None
    """What `quality` and `identity` are against: `ar` at the same batch size if run, else another `ar`."""
    speed_base: str | None = None
    """What times are against: `ar` at the same batch size alone; of `ar:batch=N`, plain `ar`.

    Documents older than the field used `base`.
    """
    n: int
    failed: int
    loops: int
    truncated: int | None
    """`None`: of imports that do not say why an answer ended."""
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
    lossy: bool = False
    """Its tokens may differ from those of `ar` by design, so `identity` is not asked."""
    peak_memory: PeakMemory | None = None
    """While its answers were made; absent where it was not measured, and in older documents."""
    certificates: tuple[Certificate, ...] | None = None
    """Its tokens against their own prefix, by precision; absent where the run was not audited."""
    load: Load | None = None
    """Throughput and latency of servers; absent for what ran in one process, and in older documents."""


class RunAnalysis(Record):
    """Every strategy of one run."""

    run: str
    suite: str
    n_samples: int
    n_clusters: int
    arms: tuple[ArmAnalysis, ...]
    notes: tuple[str, ...]
    score_notes: tuple[ScoreNote, ...] = ()
    """What the scorers say of single elements; absent in older documents."""
    model: str | None = None
    """Name and beginning of the digest; absent in older documents."""
    data: RunData | None = None
    """Which copy of the page data was run; absent for suites without pages, and in older documents."""
    peak_memory: str | None = None
    """Peaks of all arms in words, or why there are none; absent for imports, and in older documents."""
    word_order: dict[str, dict[str, WordOrder]] | None = None
    """By arm and metric, text as written against its words shuffled; absent for suites without such pairs."""


def analyse_run(run: LoadedRun, options: AnalysisOptions) -> RunAnalysis:
    """All figures of one run, intervals included."""
    design = run.design()
    return RunAnalysis(
        run=run.name,
        suite=run.manifest.identity.suite,
        n_samples=len(run.units),
        n_clusters=design.n_clusters,
        arms=tuple(_arm(run, arm, design, options) for arm in run.arms),
        notes=(
            *data_losses(run.manifest.protocol),
            *import_notes(run.manifest.protocol),
            *run.notes,
            *speed_notes(run.arms),
            *share_notes([run.records(arm) for arm in run.arms]),
            *hidden_notes(run.records(arm) for arm in run.arms),
        ),
        score_notes=score_notes(s for own in run.scores.values() for s in own),
        model=f"{run.manifest.model.get('model')} ({str(run.manifest.identity.model_digest)[:12]})",
        data=run_data(run.manifest.protocol),
        word_order=word_order_of((s for own in run.scores.values() for s in own), run.facts),
        peak_memory=memory_words(run.manifest.protocol, {a: peak_memory(run.records(a)) for a in run.arms}),
    )


def counter_ratios(
    units: Sequence[Unit], arm: str, design: Design, *, seed: int, resamples: int
) -> dict[str, Interval]:
    """The `RATIOS` over the ok samples with intervals; one whose denominator is 0 is absent."""
    rows, kept = [], []
    for index, unit in enumerate(units):
        c = unit.records[arm].counters
        if c is not None:
            told = int(c.decode_forwards > 0 or not c.decode_tokens)
            counts = (c.rounds, c.decode_forwards, c.draft_accepted, told)
            rows.append((tokens_in_forwards(c), *counts, tokens_in_rounds(c)))
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
    base, timed = text_base(arm, run.arms), speed_base(arm, run.arms)
    pairs, lossy = _pairs(units, base, arm), is_lossy(run.manifest.protocol, arm)
    timed_pairs = _pairs(units, timed, arm)
    seed, resamples = options.seed, options.resamples

    def speed(time_of: TimeOf, kept: Sequence[int] | None = None) -> SpeedEstimate | None:
        return _speed(run, arm, time_of, design, kept, base=timed, seed=seed, resamples=resamples)

    return ArmAnalysis(
        arm=arm,
        base=base,
        speed_base=timed,
        n=len(units),
        failed=sum(r.status != "ok" for r in records),
        loops=sum(r.loop_flag for r in records),
        truncated=None
        if all(r.stop_reason is None for r in records if r.status == "ok")
        and any(r.imported for r in records)
        else sum(r.stop_reason == "length" for r in records),
        counters=counter_ratios(units, arm, design, seed=seed, resamples=resamples),
        acceptance=acceptance(records),
        quality=quality_differences(
            run.unit_scores(base), run.unit_scores(arm), design=design, seed=seed, resamples=resamples
        )
        if base is not None
        else {},
        identity=None if base is None or lossy else audit(pairs, referee=options.referee, tau=options.tau),
        decode=speed(decode_ns),
        request=speed(request_ns),
        page=speed(page_ns),
        decode_identical=speed(decode_ns, [i for i, pair in enumerate(timed_pairs) if is_identical(*pair)]),
        groups=(
            *(
                _group(run, arm, group, design, options)
                for group in groups(units, run.facts, base=base or arm)
            ),
            *_element_groups(run, base, arm, design, options),
        ),
        cost_model=cost_model(timed_pairs, table=options.forward_costs),
        amdahl=amdahl(timed_pairs),
        drift=measure_drift(units, timed, arm) if timed is not None else None,
        steadiness=measure_steadiness(units, timed, arm) if timed is not None else None,
        outliers=outliers(units, timed, arm, request_ns) if timed is not None else (),
        lossy=lossy,
        peak_memory=peak_memory(records),
        certificates=run.certificates.get(arm),
        load=load_of(records) if run.manifest.protocol.get("served") is True else None,
    )


def _pairs(units: Sequence[Unit], base: str | None, arm: str) -> list[tuple[GenRecord, GenRecord]]:
    return [] if base is None else [(unit.records[base], unit.records[arm]) for unit in units]


def _speed(
    run: LoadedRun,
    arm: str,
    time_of: TimeOf,
    design: Design,
    kept: Sequence[int] | None = None,
    *,
    base: str | None,
    seed: int,
    resamples: int,
) -> SpeedEstimate | None:
    """Speedup over `base` on the units `kept`, by default all; `None` without a base, a unit or a time."""
    rows = range(len(run.units)) if kept is None else kept
    if base is None or not rows:
        return None
    return estimate_speedup(
        [run.units[i] for i in rows],
        base,
        arm,
        time_of,
        design=sub_design(design, rows),
        seed=seed,
        resamples=resamples,
    )


def _group(run: LoadedRun, arm: str, group: Group, design: Design, options: AnalysisOptions) -> GroupRow:
    kind, label, kept = group
    units, here = [run.units[i] for i in kept], sub_design(design, kept)
    seed, resamples = options.seed, options.resamples
    if kind != "task":  # tasks stand in a run's summary too, with the same intervals
        resamples = min(resamples, GROUP_RESAMPLES)
    base, timed = text_base(arm, run.arms), speed_base(arm, run.arms)
    own_scores, base_scores = run.unit_scores(arm), run.unit_scores(base or arm)

    def speed(time_of: TimeOf) -> SpeedEstimate | None:
        return _speed(run, arm, time_of, design, kept, base=timed, seed=seed, resamples=resamples)

    return GroupRow(
        kind=kind,
        label=label,
        n=len(units),
        failed=sum(unit.records[arm].status != "ok" for unit in units),
        identical=sum(is_identical(*pair) for pair in _pairs(units, base, arm)),
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


ELEMENTS = {"text_block": "text", "display_formula": "formulas", "table": "tables"}
"""What a group of elements is called: `line of tables`."""


def _element_groups(
    run: LoadedRun, base: str | None, arm: str, design: Design, options: AnalysisOptions
) -> Iterator[GroupRow]:
    """Groups by attributes of elements; their `n` counts the pages that have such an element."""
    if base is None or not run.elements:
        return
    theirs, mine = run.unit_elements(base), run.unit_elements(arm)
    for element, name in ELEMENTS.items():
        labels = sorted({label for sums in (*theirs, *mine) for label in sums.get(element, {})})
        for label in labels:
            kept = [
                i
                for i in range(len(mine))
                if any(label in side[i].get(element, {}) for side in (theirs, mine))
            ]
            attribute, _, value = label.partition(": ")
            pairs = _pairs([run.units[i] for i in kept], base, arm)
            yield GroupRow(
                kind=f"{attribute} of {name}",
                label=value,
                n=len(kept),
                failed=sum(own.status != "ok" for _, own in pairs),
                identical=sum(is_identical(*pair) for pair in pairs),
                decode=None,
                request=None,
                counters={},
                quality=element_differences(
                    [theirs[i] for i in kept],
                    [mine[i] for i in kept],
                    element,
                    label,
                    design=sub_design(design, kept),
                    seed=options.seed,
                    resamples=min(options.resamples, GROUP_RESAMPLES),
                ),
            )
