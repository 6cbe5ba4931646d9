"""Mode `candidate`: hold a finished run against reference outputs, rule by rule, strategy by strategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from pydantic import JsonValue

from gravbench.analysis.bootstrap import (
    Design,
    DetectableEffect,
    Floats,
    detectable_effect,
    independent_se,
    log_ratio_se,
    ratio,
)
from gravbench.analysis.comparison import identity_differences
from gravbench.analysis.counters import hidden_notes, summarise_counters
from gravbench.analysis.groups import groups
from gravbench.analysis.identity import TAU_FLOAT32, audit, has_tokens, is_identical
from gravbench.analysis.loaded import LoadedRun, note_lines, run_data, score_notes
from gravbench.analysis.pieces import (
    COUNTER_RATIOS,
    WIDTH,
    CounterTable,
    Pairs,
    counter_table,
    paired_ratio,
    whole_table,
)
from gravbench.analysis.speed import decode_ns, sub_design, time_design, timed_rows
from gravbench.arms import identity_base, is_ar, speed_base
from gravbench.errors import NotComparableError
from gravbench.gate.policy import CounterRule, CountRule, IdentityRule, Policy
from gravbench.gate.reference import Reference, ReferenceArm, as_generation, candidate_problems
from gravbench.gate.rules import (
    judge_acceptance,
    judge_accuracy,
    judge_count,
    judge_counter,
    judge_floor,
    judge_forwards,
    judge_identity,
    judge_speed,
    judge_warnings,
)
from gravbench.gate.verdict import GateReport, Verdict, at_level, outcome_of
from gravbench.protocols import Referee
from gravbench.store.schema import SampleAnswer

SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmUnderTest:
    """One strategy of the candidate beside its reference, rows in the order of the run's units."""

    arm: str
    run: LoadedRun
    reference: ReferenceArm
    null: ReferenceArm | None
    """The reference's `ar` arm for the AR-against-AR null, one of the same batch size if there is one."""
    design: Design
    table: CounterTable
    """On common tokens."""
    whole: CounterTable
    """On all tokens, whatever was written."""
    policy: Policy
    referee: Referee | None
    tau: float

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [(unit.sample_id, unit.rep) for unit in self.run.units]


def judge_candidate(
    run: LoadedRun,
    reference: Reference,
    policy_of: Callable[[ReferenceArm], Policy],
    *,
    referee: Referee | None = None,
    tau: float = TAU_FLOAT32,
    with_mde: bool = False,
) -> GateReport:
    """Every rule of every strategy; nothing is judged when run and reference are not comparable."""
    policies = {name: policy_of(arm) for name, arm in reference.arms.items()}
    problems = candidate_problems(run, reference, policies)
    verdicts: list[Verdict] = []
    mde: list[DetectableEffect] = []
    if not problems:
        design = run.design()
        for name, arm in reference.arms.items():
            under_test = _under_test(run, reference, arm, design, policies[name], referee, tau)
            try:
                verdicts += judge_arm(under_test)
            except NotComparableError as error:
                problems.append(f"{name}: {error.message}")
            mde += _detectable(under_test) if with_mde and not is_ar(name) else []
    outcome, exit_code = outcome_of(verdicts, problems)
    return GateReport(
        mode="candidate",
        suite=reference.suite,
        candidate=run.name,
        reference=str(reference.folder),
        outcome=outcome,
        exit_code=exit_code,
        verdicts=() if problems else tuple(verdicts),
        problems=tuple(problems[:SHOWN_PROBLEMS]),
        notices=(
            *run.notes,
            *_notices(run, reference),
            *hidden_notes(run.records(name) for name in reference.arms if name in run.arms),
            *note_lines(score_notes(s for own in run.scores.values() for s in own)),
        ),
        mde=tuple(mde),
        data=run_data(run.manifest.protocol),
        reference_data=reference.data,
    )


def judge_arm(test: ArmUnderTest) -> list[Verdict]:
    """Every rule on one strategy, at its level; rules that are off, or do not apply, are listed as off."""
    verdicts: list[Verdict] = []
    for name, judge in RULES.items():
        level = test.policy.rules.level_of(name)
        found = [] if level == "off" else judge(test)
        verdicts += [at_level(verdict, level) for verdict in found] or [_off(name, test.arm)]
    return verdicts


def _token_identity(test: ArmUnderTest) -> list[Verdict]:
    pairs = [
        (test.reference.predictions[key], record)
        for key, record in zip(test.keys, test.run.records(test.arm), strict=True)
    ]
    return [_identity(test, "token_identity", pairs, test.policy.rules.token_identity)]


def _ar_identity(test: ArmUnderTest) -> list[Verdict]:
    base = identity_base(test.arm, test.run.arms)
    if base is None:
        return []
    pairs = list(zip(test.run.records(base), test.run.records(test.arm), strict=True))
    return [_identity(test, "ar_identity", pairs, test.policy.rules.ar_identity)]


def _identity(test: ArmUnderTest, name: str, pairs: Pairs, rule: IdentityRule) -> Verdict:
    referee = test.referee if rule.mode == "near-ties" else None
    found = audit(pairs, referee=referee, tau=test.tau)
    flips = None if test.null is None else _flips(test, pairs, test.null)
    return judge_identity(found, rule, test.policy, name=name, arm=test.arm, flips=flips, design=test.design)


def _flips(test: ArmUnderTest, pairs: Pairs, null_arm: ReferenceArm) -> Floats:
    """1.0 where a pair differs [:, 0], and where the run's AR differs from the reference's AR [:, 1]."""
    own = test.run.records(null_arm.run.strategy)
    null = zip(own, (null_arm.predictions[key] for key in test.keys), strict=True)
    return np.array(
        [[_flipped(*pair), _flipped(*ar_pair)] for pair, ar_pair in zip(pairs, null, strict=True)],
        dtype=np.float64,
    ).reshape(-1, 2)


def _accuracy(test: ArmUnderTest) -> list[Verdict]:
    return judge_accuracy(
        [test.reference.scores[key] for key in test.keys],
        test.run.unit_scores(test.arm),
        test.policy.rules.accuracy,
        test.policy,
        arm=test.arm,
        design=test.design,
    )


def _tau_round(test: ArmUnderTest) -> list[Verdict]:
    return _counter(test, "tau_round", test.policy.rules.tau_round)


def _tpf_all(test: ArmUnderTest) -> list[Verdict]:
    return _counter(test, "tpf_all", test.policy.rules.tpf_all)


def _accepted_draft(test: ArmUnderTest) -> list[Verdict]:
    return [] if is_ar(test.arm) else _counter(test, "accepted_draft", test.policy.rules.accepted_draft)


def _counter(test: ArmUnderTest, name: str, rule: CounterRule) -> list[Verdict]:
    table = test.table if rule.basis == "common" else test.whole
    return [judge_counter(name, table, rule, test.policy, arm=test.arm, design=test.design)]


def _forwards_per_sample(test: ArmUnderTest) -> list[Verdict]:
    rule = test.policy.rules.forwards_per_sample
    return [judge_forwards(test.table, rule, test.policy, arm=test.arm, design=test.design)]


def _draft_acceptance(test: ArmUnderTest) -> list[Verdict]:
    if is_ar(test.arm):
        return []
    found = groups(test.run.units, test.run.facts, base=test.arm)
    labelled = {f"{kind} {label}": rows for kind, label, rows in found if kind != "length"}
    return [
        judge_acceptance(
            test.table,
            labelled,
            test.policy.rules.draft_acceptance,
            test.policy,
            arm=test.arm,
            design=test.design,
        )
    ]


def _acceptance_floor(test: ArmUnderTest) -> list[Verdict]:
    if is_ar(test.arm):
        return []
    base = summarise_counters(as_generation(test.reference, key) for key in test.keys)
    return [judge_floor(base, summarise_counters(test.run.records(test.arm)), arm=test.arm)]


def _warnings(test: ArmUnderTest) -> list[Verdict]:
    """Of the model, so of one arm for all: the first."""
    if test.arm != test.run.arms[0]:
        return []
    sides = (_said_of(test.reference.run.model), _said_of(test.run.manifest.model))
    return [judge_warnings(*sides, arm=test.arm)]


def _said_of(model: Mapping[str, JsonValue]) -> list[str]:
    found = model.get("warnings")
    return [str(text) for text in found] if isinstance(found, list) else []


def _certificate(test: ArmUnderTest) -> list[Verdict]:
    """One verdict a precision; none where the run was not audited."""
    return [
        Verdict(
            rule="certificate" if own.precision == "float32" else f"certificate.{own.precision}",
            arm=test.arm,
            status="fail" if own.violations else "pass" if own.tokens else "missing",
            observed=own.violations,
            limit=0,
            explanation=own.words,
            numbers={"tokens": own.tokens, "near_ties": own.near_ties, "worst_gap": own.worst_gap},
        )
        for own in test.run.certificates.get(test.arm, ())
    ]


def _failed(test: ArmUnderTest) -> list[Verdict]:
    return [_count(test, "failed", test.policy.rules.failed, lambda a: a.status != "ok")]


def _stopped_by_length(test: ArmUnderTest) -> list[Verdict]:
    return [
        _count(
            test,
            "stopped_by_length",
            test.policy.rules.stopped_by_length,
            lambda a: a.stop_reason == "length",
        )
    ]


def _loops(test: ArmUnderTest) -> list[Verdict]:
    return [_count(test, "loops", test.policy.rules.loops, lambda a: a.loop_flag)]


def _count(test: ArmUnderTest, name: str, rule: CountRule, counts: Callable[[SampleAnswer], bool]) -> Verdict:
    base = sum(counts(test.reference.predictions[key]) for key in test.keys)
    own = sum(map(counts, test.run.records(test.arm)))
    return judge_count(name, base, own, rule, n=len(test.keys), arm=test.arm)


def _speed(test: ArmUnderTest) -> list[Verdict]:
    base = speed_base(test.arm, test.run.arms)
    if base is None or is_ar(test.arm):
        return []
    kept, times = timed_rows(test.run.units, base, test.arm, decode_ns)
    own = [test.run.units[index].records[test.arm] for index in kept]
    design = time_design(sub_design(test.design, kept), own)
    return [judge_speed(times, test.policy.rules.speed, test.policy, arm=test.arm, base=base, design=design)]


RULES: dict[str, Callable[[ArmUnderTest], list[Verdict]]] = {
    "token_identity": _token_identity,
    "ar_identity": _ar_identity,
    "accuracy": _accuracy,
    "tau_round": _tau_round,
    "tpf_all": _tpf_all,
    "accepted_draft": _accepted_draft,
    "forwards_per_sample": _forwards_per_sample,
    "draft_acceptance": _draft_acceptance,
    "acceptance_floor": _acceptance_floor,
    "failed": _failed,
    "stopped_by_length": _stopped_by_length,
    "loops": _loops,
    "warnings": _warnings,
    "certificate": _certificate,
    "speed": _speed,
}
"""Rule name, as in a policy, -> its verdicts on one strategy; none where it does not apply."""


def _under_test(
    run: LoadedRun,
    reference: Reference,
    arm: ReferenceArm,
    design: Design,
    policy: Policy,
    referee: Referee | None,
    tau: float,
) -> ArmUnderTest:
    name = arm.run.strategy
    pairs = [(arm.predictions[unit.sample_id, unit.rep], unit.records[name]) for unit in run.units]
    return ArmUnderTest(
        arm=name,
        run=run,
        reference=arm,
        null=_null_arm(reference, name),
        design=design,
        table=counter_table(pairs),
        whole=whole_table(pairs),
        policy=policy,
        referee=referee,
        tau=tau,
    )


def _null_arm(reference: Reference, name: str) -> ReferenceArm | None:
    """What `name` is held against inside a run; an `ar` arm without such a base is its own null."""
    base = identity_base(name, reference.arms)
    return reference.arms[name] if base is None and is_ar(name) else reference.arms.get(base or "")


def _detectable(test: ArmUnderTest) -> list[DetectableEffect]:
    """Power of the counter rules: from the pairs' own variance, and from this run's spread over samples."""
    effects: list[DetectableEffect] = []
    policy, columns = test.policy, test.table.columns
    for name, rule in (("tau_round", policy.rules.tau_round), ("tpf_all", policy.rules.tpf_all)):
        pair = COUNTER_RATIOS[name]
        settings = {"seed": policy.seed, "resamples": policy.resamples}
        paired = log_ratio_se(columns, paired_ratio(*pair), test.design, **settings)
        own = columns[:, [WIDTH + pair[0], WIDTH + pair[1]]]
        unpaired = independent_se(own, ratio, test.design, **settings)
        for label, se in (("paired", paired), ("unpaired", unpaired)):
            if se is not None:
                effects.append(
                    detectable_effect(
                        f"{test.arm}: {name}, {label}",
                        n=sum(test.table.comparable),
                        se=se,
                        margin=rule.margin,
                        confidence=policy.confidence,
                    )
                )
    return effects


def _notices(run: LoadedRun, reference: Reference) -> list[str]:
    """Differences that do not forbid a verdict but that a reader should know."""
    first = next(iter(reference.arms.values()))
    watched = ("gravbench", "engine", "device", "threads", "seed")
    differences = identity_differences(
        first.run.identity.document(), run.manifest.identity.document(), watched
    )
    return [f"{d.field} is {d.own}, the reference was made with {d.base}" for d in differences]


def _flipped(a: SampleAnswer, b: SampleAnswer) -> bool:
    return has_tokens(a, b) and not is_identical(a, b)


def _off(name: str, arm: str) -> Verdict:
    return Verdict(rule=name, arm=arm, status="off", explanation="not applied")
