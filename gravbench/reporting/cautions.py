"""What a reader must know before believing the numbers of a run, most serious first."""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.analysis.bootstrap import MIN_FREEDOM
from gravbench.analysis.loaded import LoadedRun
from gravbench.analysis.run_analysis import ArmAnalysis, RunAnalysis
from gravbench.analysis.run_data import data_caution, run_data
from gravbench.analysis.summary import at_acceptance_floor
from gravbench.arms import AR, is_ar
from gravbench.reporting.document import ArmPart

FEW_PAIRS = 30


def cautions_of(run: LoadedRun, analysis: RunAnalysis, parts: Sequence[ArmPart]) -> tuple[str, ...]:
    """Warnings of one run; empty when there is nothing to say."""
    caution = data_caution(run_data(run.manifest.protocol))
    found: list[str] = [] if caution is None else [caution]
    n = analysis.n_samples
    if not any(map(is_ar, run.arms)):
        found.append("There is no ar arm: neither identity nor speedup was measured.")
    if all(map(is_ar, run.arms)):
        found.append("Only ar was run: there is nothing to hold against it.")
    if n < MIN_FREEDOM + 1:
        counted = f"{n} sample" + ("s" if n != 1 else "")
        found.append(f"{counted}: no interval can be given, and nothing generalises from so few.")
    elif n < FEW_PAIRS:
        found.append(f"{n} samples: intervals over so few are rough.")
    for arm, part in zip(analysis.arms, parts, strict=True):
        found += _of_arm(arm, part)
    sessions = len({record.session_id for unit in run.units for record in unit.records.values()})
    if sessions > 1:
        found.append(f"The run was resumed: {sessions} sessions; every pair lies inside one of them.")
    given = run.manifest.model.get("warnings")
    if isinstance(given, list):
        found += [str(text) for text in given]
    return tuple(dict.fromkeys([*found, *analysis.notes]))


def _of_arm(arm: ArmAnalysis, part: ArmPart) -> list[str]:
    name, c, found = arm.arm, part.counters, []
    if arm.failed == arm.n:
        found.append(f"{name}: all {arm.n} samples failed; there is no text, no count and no time of it.")
    elif arm.failed:
        found.append(f"{name}: {arm.failed} of {arm.n} samples failed; they score worst.")
    if part.hidden:
        found.append(
            f"{name}: the engine hid the rounds of {part.hidden} of {part.ok} samples; acceptance "
            "and tokens per round leave them out."
        )
    if arm.identity is not None and arm.identity.faults:
        judged = "" if arm.identity.refereed else " (no referee was asked which of them are near-ties)"
        found.append(
            f"{name}: {arm.identity.faults} outputs differ from {arm.base or AR} without an excuse{judged}."
        )
    if c.draft_offered and not c.draft_accepted:
        found.append(f"{name}: not one of {c.draft_offered} draft tokens was accepted.")
    elif at_acceptance_floor(c):
        found.append(
            f"{name}: acceptance is at its floor; the checkpoint may not have been trained to draft."
        )
    if arm.loops:
        found.append(f"{name}: {arm.loops} outputs contain a repetition loop.")
    if arm.truncated:
        found.append(f"{name}: {arm.truncated} outputs were cut at their budget.")
    if arm.drift is not None and arm.drift.drifting:
        found.append(f"{name}: the cost ratio drifted by {arm.drift.change:+.1%} over the run.")
    if arm.steadiness is not None and not arm.steadiness.steady:
        found.append(
            f"{name}: not steady, the last three blocks differ by {arm.steadiness.last_three_spread:.1%}."
        )
    if arm.steadiness is not None and arm.steadiness.cold_start:
        found.append(
            f"{name}: a cold start, the first block lies {arm.steadiness.warm_up:+.1%} off the others."
        )
    return found
