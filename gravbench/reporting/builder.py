"""Finished runs to a report document: analyses, the columns behind the charts, cautions, the gallery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gravbench.analysis.bootstrap import METHOD, MIN_FREEDOM
from gravbench.analysis.comparison import comparability_problems, compare_one, compare_runs
from gravbench.analysis.counters import at_acceptance_floor, hides_rounds, summarise_counters
from gravbench.analysis.loaded import IMPORTED, LoadedRun, data_caution, note_lines, run_data
from gravbench.analysis.quality import quality_levels
from gravbench.analysis.run_analysis import GROUP_RESAMPLES, AnalysisOptions, ArmAnalysis, RunAnalysis
from gravbench.analysis.speed import cost_per_forward, timed_rows
from gravbench.analysis.stages import stage_sums, whole_ns
from gravbench.arms import AR, is_ar, parse_arm, speed_base
from gravbench.errors import GravbenchError
from gravbench.reporting.document import (
    ArmPart,
    GatePart,
    NullPart,
    PairPart,
    PairTimes,
    ReportDocument,
    RunPart,
    SlotCosts,
)
from gravbench.reporting.gallery import SampleSource, gallery_of
from gravbench.resources import __version__

FEW_PAIRS = 30


def cautions_of(run: LoadedRun, analysis: RunAnalysis, parts: Sequence[ArmPart]) -> tuple[str, ...]:
    """Warnings of one run; empty when there is nothing to say."""
    caution = data_caution(run_data(run.manifest.protocol))
    found: list[str] = [] if caution is None else [caution]
    n = analysis.n_samples
    if not any(map(is_ar, run.arms)):
        held = f"text is held against {run.arms[0]}, the first" if len(run.arms) > 1 else "identity neither"
        found.append(f"There is no ar arm: speedup was not measured, {held}.")
    if all(map(is_ar, run.arms)):
        found.append("Only ar was run: there is nothing to hold against it.")
    if n < MIN_FREEDOM + 1:
        counted = f"{n} sample" + ("s" if n != 1 else "")
        found.append(f"{counted}: no interval can be given, and nothing generalises from so few.")
    elif n < FEW_PAIRS:
        found.append(
            f"{n} samples: intervals over so few are rough; a difference near their ends is not settled."
        )
    for arm, part in zip(analysis.arms, parts, strict=True):
        found += _of_arm(arm, part)
    found += _of_times(analysis.arms)
    sessions = len({record.session_id for unit in run.units for record in unit.records.values()})
    if sessions > 1 and run.manifest.identity.backend != IMPORTED:
        found.append(
            f"The run was resumed: {sessions} sessions; every pair lies inside one of them, so speedups hold."
        )
    given = run.manifest.model.get("warnings")
    if isinstance(given, list):
        found += [str(text) for text in given]
    return tuple(dict.fromkeys([*found, *analysis.notes, *note_lines(analysis.score_notes)]))


def _of_arm(arm: ArmAnalysis, part: ArmPart) -> list[str]:
    name, c, found = arm.arm, part.counters, []
    if arm.failed == arm.n:
        found.append(f"{name}: all {arm.n} samples failed; there is no text, no count and no time of it.")
    elif arm.failed:
        found.append(f"{name}: {arm.failed} of {arm.n} samples failed; they score worst.")
    if arm.identity is not None and arm.identity.faults and arm.identity.by_text < arm.identity.compared:
        judged = (
            ""
            if arm.identity.refereed or arm.identity.by_text
            else " (no referee was asked which of them are near-ties)"
        )
        found.append(
            f"{name}: {arm.identity.faults} outputs differ from {arm.base or AR} without an excuse{judged}."
        )
    if c.draft_offered and not c.draft_accepted:
        found.append(
            f"{name}: not one of {c.draft_offered} draft tokens was accepted; drafting costs time and "
            "gives nothing."
        )
    elif at_acceptance_floor(c):
        found.append(
            f"{name}: acceptance is at its floor; the checkpoint may not have been trained to draft, and its "
            "speedup says nothing of the strategy."
        )
    if arm.loops:
        found.append(
            f"{name}: {arm.loops} outputs contain a repetition loop; repeated text is easily drafted, so "
            "they flatter acceptance and speed."
        )
    if arm.truncated:
        found.append(
            f"{name}: {arm.truncated} outputs were cut at their budget; unfinished text scores worse, and a "
            "larger budget may change quality and speed."
        )
    return found


def _of_times(arms: Sequence[ArmAnalysis]) -> list[str]:
    """What the clock did during the run, a line a kind: strategies with numbers, then what it means."""
    drifting = [f"{a.arm} {a.drift.change:+.1%}" for a in arms if a.drift is not None and a.drift.drifting]
    known = [(a.arm, a.steadiness) for a in arms if a.steadiness is not None]
    unsteady = [f"{name} {s.last_three_spread:.1%}" for name, s in known if not s.steady]
    cold = [f"{name} {s.warm_up:+.1%}" for name, s in known if s.cold_start]
    found = []
    if drifting:
        found.append(
            f"The cost ratio to the base drifted from the first pair to the last: {', '.join(drifting)}. "
            "Each speedup is an average over that change; a run at another hour may differ by as much."
        )
    if unsteady:
        found.append(
            f"The machine did not hold still, the last three blocks of pairs differ: {', '.join(unsteady)}. "
            "Do not trust a smaller difference between strategies; text and counters are not touched by it."
        )
    if cold:
        found.append(
            f"A cold start, the first block of pairs lies off the others: {', '.join(cold)}. Above 0 it "
            "flatters that strategy's speedup, below 0 it counts against it; a sixth of the pairs are in it."
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """A loaded run with what lies outside it. `sources` by sample id, empty when the suite is not at hand."""

    run: LoadedRun
    name: str
    options: AnalysisOptions = field(default_factory=AnalysisOptions)
    sources: Mapping[str, SampleSource] = field(default_factory=dict)
    pieces: Mapping[int, str] = field(default_factory=dict)
    gate: GatePart | None = None


def build_document(
    inputs: Sequence[ReportInput],
    *,
    title: str | None = None,
    commands: Sequence[str] = (),
    arms: Sequence[tuple[str, str]] | None = None,
) -> ReportDocument:
    """One document of one run or more; every later run is held against the first, `arms` paired by hand."""
    first = inputs[0]
    alone = [compare_one(given.run, given.options) for given in inputs]
    pairs = tuple(_pair(first, other, arms) for other in inputs[1:])
    null = next((c for c in alone if c.null is not None), None)
    found = NullPart(audit=null.null, setting=str(null.null_setting)) if null and null.null else None
    if found is None and len(inputs) > 1:
        found = _null_of(first, inputs[1])
    return ReportDocument(
        title=title or _title(inputs),
        gravbench_version=__version__,
        commands=tuple(commands),
        resamples=first.options.resamples,
        seed=first.options.seed,
        intervals=METHOD,
        runs=tuple(_run(given, c.base) for given, c in zip(inputs, alone, strict=True)),
        comparisons=pairs,
        null=found,
        gallery=gallery_of(
            [given.run for given in inputs], {k: v for g in reversed(inputs) for k, v in g.sources.items()}
        ),
    )


def _title(inputs: Sequence[ReportInput]) -> str:
    suites = dict.fromkeys(given.run.manifest.identity.suite for given in inputs)
    arms = dict.fromkeys(arm for given in inputs for arm in given.run.arms if not is_ar(arm))
    named = ", ".join(list(arms)[:3]) + (f" and {len(arms) - 3} more" if len(arms) > 3 else "")
    return f"{named or AR} on {', '.join(suites)}"


def _run(given: ReportInput, analysis: RunAnalysis) -> RunPart:
    run, manifest = given.run, given.run.manifest
    analysis = analysis.model_copy(update={"run": given.name})
    arms = tuple(_arm(given, arm) for arm in run.arms)
    used = {i for unit in run.units for record in unit.records.values() for i in record.token_ids}
    return RunPart(
        name=given.name,
        run_id=manifest.run_id,
        created_utc=manifest.created_utc,
        argv=manifest.argv,
        identity=manifest.identity.document(),
        identity_sha=manifest.identity_sha,
        model=manifest.model,
        environment=manifest.environment,
        protocol=manifest.protocol,
        sessions=len({r.session_id for unit in run.units for r in unit.records.values()}),
        analysis=analysis,
        arms=arms,
        cautions=cautions_of(run, analysis, arms),
        signatures=dict(sorted({s.metric: s.signature for own in run.scores.values() for s in own}.items())),
        pieces={i: given.pieces[i] for i in sorted(used) if i in given.pieces},
        gate=given.gate,
    )


def _arm(given: ReportInput, arm: str) -> ArmPart:
    run, records = given.run, given.run.records(arm)
    trained = run.manifest.model.get("block_size")
    asked = parse_arm(arm).block
    base = speed_base(arm, run.arms)
    summary = summarise_counters(records)
    block = (
        asked
        if asked is not None
        else trained
        if isinstance(trained, int) and summary.draft_offered
        else None
    )
    return ArmPart(
        arm=arm,
        block=block,
        counters=summary,
        levels=quality_levels(
            run.unit_scores(arm),
            design=run.design(),
            seed=given.options.seed,
            resamples=min(given.options.resamples, GROUP_RESAMPLES),
        ),
        pairs=_pair_times(run, base, arm) if base else PairTimes(),
        base_stages=_page_stages(run, (base, arm), base) if base else {},
        own_stages=_page_stages(run, (base, arm), arm) if base else {},
        costs=_slot_costs(run, base, arm) if base else SlotCosts(),
        ok=sum(record.status == "ok" for record in records),
        hidden=sum(map(hides_rounds, records)),
    )


def _page_stages(run: LoadedRun, arms: tuple[str, str], side: str) -> dict[str, int]:
    """Stage sums of one side over the pages that both arms read; empty unless all units are pages."""
    both = [unit for unit in run.units if all(unit.records[arm].assembly is not None for arm in arms)]
    if not both or any(unit.task != "page" for unit in run.units):
        return {}
    return stage_sums([unit.records[side] for unit in both])


def _pair_times(run: LoadedRun, base: str, arm: str) -> PairTimes:
    kept, times = timed_rows(run.units, base, arm, whole_ns)
    units = [run.units[i] for i in kept]
    return PairTimes(
        sample_ids=tuple(unit.sample_id for unit in units),
        tasks=tuple(unit.task for unit in units),
        slots=tuple(unit.records[arm].slot for unit in units),
        tokens=tuple(len(unit.records[base].token_ids) for unit in units),
        base_ns=tuple(int(t) for t in times[:, 0]),
        own_ns=tuple(int(t) for t in times[:, 1]),
    )


def _slot_costs(run: LoadedRun, base: str, arm: str) -> SlotCosts:
    slots, costs = cost_per_forward(run.units, base, arm)
    return SlotCosts(
        slots=tuple(slots.tolist()),
        base=tuple(costs[:, 0].round(1).tolist()),
        own=tuple(costs[:, 1].round(1).tolist()),
    )


def _pair(base: ReportInput, own: ReportInput, arms: Sequence[tuple[str, str]] | None) -> PairPart:
    """Unlike runs are compared on what they share, and the page says so; nothing shared is a problem."""
    problems = tuple(comparability_problems(base.run, own.run))
    try:
        found = compare_runs(base.run, own.run, own.options, arms=arms, force=True)
    except GravbenchError as error:
        return PairPart(base=base.name, own=own.name, problem=error.message, not_comparable=problems)
    return PairPart(
        base=base.name,
        own=own.name,
        arms=found.arms,
        settings=found.settings,
        environment=found.environment,
        not_comparable=problems,
    )


def _null_of(base: ReportInput, own: ReportInput) -> NullPart | None:
    try:
        found = compare_runs(base.run, own.run, own.options, force=True)
    except GravbenchError:
        return None
    return NullPart(audit=found.null, setting=str(found.null_setting)) if found.null else None
