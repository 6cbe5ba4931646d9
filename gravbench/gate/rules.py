"""Each rule as a pure function from numbers to a verdict. A rule's level is applied by whoever calls it.

A bound at confidence c is a limit of the two-sided interval at 2c - 1, and a printed interval says its level.
On fewer than five clusters there is no interval: counts hold the estimate itself against the limit, while
accuracy and speed cannot be judged and say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb

import numpy as np

from gravbench.analysis.bootstrap import Design, Floats, Interval, Statistic, bootstrap, ratio
from gravbench.analysis.counters import CounterSummary, at_acceptance_floor
from gravbench.analysis.identity import Audit
from gravbench.analysis.pieces import (
    ACCEPTED,
    COUNTER_RATIOS,
    FORWARDS,
    ROUNDS,
    WIDTH,
    CounterTable,
    paired_ratio,
)
from gravbench.analysis.quality import QualityDifference, UnitScores, quality_differences
from gravbench.gate.policy import (
    AcceptanceRule,
    AccuracyRule,
    CounterRule,
    CountRule,
    IdentityRule,
    Policy,
    SpeedRule,
)
from gravbench.gate.verdict import Status, Verdict

SHOWN_SAMPLES = 5
TOO_FEW = "cannot be judged: too few for a bound (fewer than five)"


def judge_identity(
    audit: Audit,
    rule: IdentityRule,
    policy: Policy,
    *,
    name: str,
    arm: str,
    flips: Floats | None,
    design: Design,
) -> Verdict:
    """Identity of token ids and stop reasons; another text at equal tokens (assembly) is a fault too.

    `flips` [n, 2] marks samples that differ here and in the null (AR against AR); `None` without a null.
    """
    numbers: dict[str, float] = {
        "compared": audit.compared,
        "identical": audit.identical,
        **{kind.replace("-", "_"): count for kind, count in audit.classes.items()},
    }
    near_ties = rule.mode == "near-ties"
    faults = audit.faults if near_ties else audit.faults + audit.excused
    kinds = ", ".join(f"{count} {kind}" for kind, count in audit.classes.items())
    found = f"same tokens in {audit.identical} of {audit.compared}" + (f" ({kinds})" if kinds else "")

    def verdict(status: str, text: str) -> Verdict:
        return Verdict.model_validate(
            {
                "rule": name,
                "arm": arm,
                "status": status,
                "observed": faults,
                "limit": rule.max_faults,
                "explanation": text,
                "numbers": numbers,
            }
        )

    if not audit.compared:
        return verdict("missing", "no pair in which an arm succeeded")
    if near_ties and audit.classes.get("unjudged", 0):
        return verdict("missing", f"{found}; near-ties are allowed, but no referee judged them")
    if faults > rule.max_faults:
        return verdict("fail", f"{found}; first: {_first_samples(audit, near_ties=near_ties)}")
    if near_ties and audit.excused:
        if flips is None:
            return verdict("inconclusive", f"{found}; no AR-against-AR null to hold the flips against")
        excess = _excess_flips(flips, design, policy)
        numbers |= {"excess_flips": excess.value, "excess_low": _low(excess), "excess_high": _high(excess)}
        text = f"{found}; excess flips {excess.value:.2%}, at most {rule.max_excess_flips:.2%} allowed"
        surely_more = mcnemar_p(flips) <= 1 - policy.confidence
        if surely_more and _low(excess) > rule.max_excess_flips:
            return verdict("fail", text)
        return verdict("inconclusive" if _high(excess) > rule.max_excess_flips else "pass", text)
    return verdict("pass", found)


def judge_accuracy(
    base: UnitScores, own: UnitScores, rule: AccuracyRule, policy: Policy, *, arm: str, design: Design
) -> list[Verdict]:
    """Non-inferiority in points, one verdict a metric and one for the composite.

    A lower bound above -margin passes. One that is not fails with evidence of a decline: the estimate is
    beyond the margin, or the one-sided sign-flip test rejects; without evidence it is inconclusive. So it is
    without a bound, on fewer than five clusters, unless every sample scores what it did; and where it would
    pass, but some pages are scored on one side only.
    """
    differences = quality_differences(
        base, own, design=design, seed=policy.seed, resamples=policy.resamples, confidence=policy.two_sided
    )
    if not differences:
        text = "no metric is scored on both sides"
        return [Verdict(rule="accuracy", arm=arm, status="missing", explanation=text)]
    return [_accuracy(metric, d, rule, policy, arm=arm) for metric, d in differences.items()]


def _accuracy(metric: str, d: QualityDifference, rule: AccuracyRule, policy: Policy, *, arm: str) -> Verdict:
    margin = rule.margin_of(metric)
    unbounded = d.low is None and d.changed > 0
    low = d.difference if d.low is None else d.low
    declines = d.difference < 0 and d.sign_flip_p is not None and d.sign_flip_p / 2 <= 1 - policy.confidence
    beyond = d.difference <= -(margin if rule.point_margin is None else min(margin, rule.point_margin))
    status: Status = "pass" if low > -margin and not (beyond and rule.point_margin is not None) else "fail"
    if (status == "fail" and not declines and not beyond) or (
        status == "pass" and (unbounded or d.one_sided)
    ):
        status = "inconclusive"
    unjudged = TOO_FEW if status == "inconclusive" else "too few for a bound"
    bound = unjudged if d.low is None else f"lower bound {low:+.2f}"
    p = "" if d.sign_flip_p is None else f", sign-flip p {d.sign_flip_p:.3f}"
    return Verdict(
        rule=f"accuracy.{metric}",
        arm=arm,
        status=status,
        observed=low,
        limit=-margin,
        explanation=(
            f"{d.own:.2f} points, reference {d.base:.2f}: {d.difference:+.2f}, {bound}, "
            f"margin -{margin:g}; {d.changed} of {d.n} samples changed{p}{_made_of(d)}"
        ),
        numbers={"base": d.base, "own": d.own, "difference": d.difference, "changed": d.changed},
    )


def _made_of(d: QualityDifference) -> str:
    """Units of each component, and units that only one side scores, as far as there are any."""
    parts = ", ".join(f"{count} with {metric}" for metric, count in (d.parts or {}).items())
    one_sided = f"; {d.one_sided} scored on one side only" if d.one_sided else ""
    return (f"; {parts}" if parts else "") + one_sided


def judge_counter(
    name: str, table: CounterTable, rule: CounterRule, policy: Policy, *, arm: str, design: Design
) -> Verdict:
    """`tau_round`, `tpf_all`, `accepted_draft`: fails when surely below 1 - margin of the reference."""
    if table.comparable_share < rule.min_comparable:
        return _too_few(name, table.comparable_share, rule, arm=arm)
    interval = _interval(table.columns, paired_ratio(*COUNTER_RATIOS[name]), design, policy)
    if interval is None:
        return _no_ratio(name, table.columns.sum(axis=0), arm=arm)
    limit = 1 - rule.margin
    base, own = (_plain(table.columns, side * WIDTH, COUNTER_RATIOS[name]) for side in (0, 1))
    return Verdict(
        rule=name,
        arm=arm,
        status="fail" if _high(interval) < limit else "pass",
        observed=interval.value,
        limit=limit,
        explanation=(
            f"{own:.3f}, reference {base:.3f}: ratio {interval.value:.4f}, "
            f"upper bound {_high(interval):.4f}, limit {limit:g}; {sum(table.comparable)} samples, "
            + ("their common tokens" if rule.basis == "common" else "all tokens")
        ),
        numbers={"base": base, "own": own, "low": _low(interval), "high": _high(interval)},
    )


def judge_forwards(
    table: CounterTable, rule: CounterRule, policy: Policy, *, arm: str, design: Design
) -> Verdict:
    """`forwards_per_sample` on identical outputs: fails when surely above 1 + margin of the reference."""
    name = "forwards_per_sample"
    same = np.array(table.identical, dtype=bool)
    share = float(same.mean()) if len(same) else 0.0
    if share < rule.min_comparable:
        return _too_few(name, share, rule, arm=arm)
    columns = np.where(same[:, None], table.columns, 0.0)
    counts = columns[:, [WIDTH + FORWARDS, FORWARDS]]
    interval = _interval(counts, ratio, design, policy)
    if interval is None:
        return _nothing(name, arm=arm)
    limit, n = 1 + rule.margin, int(same.sum())
    own, base = (counts.sum(axis=0) / n).tolist()
    return Verdict(
        rule=name,
        arm=arm,
        status="fail" if _low(interval) > limit else "pass",
        observed=interval.value,
        limit=limit,
        explanation=(
            f"{own:.2f}, reference {base:.2f}: ratio {interval.value:.4f}, lower bound {_low(interval):.4f}, "
            f"limit {limit:g}; {n} samples of equal tokens"
        ),
        numbers={"base": base, "own": own, "low": _low(interval), "high": _high(interval)},
    )


def judge_acceptance(
    table: CounterTable,
    groups: Mapping[str, Sequence[int]],
    rule: AcceptanceRule,
    policy: Policy,
    *,
    arm: str,
    design: Design,
) -> Verdict:
    """Accepted drafts per round in every large enough group; the confidence is shared by all groups.

    Bonferroni: each group is held at 1 - (1 - confidence) / groups.
    """
    name = "draft_acceptance"
    large = {label: rows for label, rows in groups.items() if len(rows) >= rule.min_samples}
    level = 1 - (1 - policy.confidence) / max(len(large), 1)
    worst: tuple[float, str] | None = None
    fallen = []
    for label, rows in large.items():
        columns = np.zeros_like(table.columns)
        columns[list(rows)] = table.columns[list(rows)]
        interval = bootstrap(
            columns,
            paired_ratio(ACCEPTED, ROUNDS),
            design,
            seed=policy.seed,
            resamples=policy.resamples,
            confidence=2 * level - 1,
        )
        if interval is not None and interval.high is not None:
            worst = min(worst or (np.inf, ""), (interval.value, label))
            if _high(interval) < 1 - rule.margin:
                fallen.append(f"{label} {interval.value:.3f}")
    if worst is None:
        return Verdict(
            rule=name, arm=arm, status="pass", explanation="no group large enough that accepts drafts"
        )
    text = f"lowest of {len(large)} groups: {worst[1]} at {worst[0]:.3f} of the reference"
    return Verdict(
        rule=name,
        arm=arm,
        status="fail" if fallen else "pass",
        observed=worst[0],
        limit=1 - rule.margin,
        explanation=f"below {1 - rule.margin:g} of the reference: {', '.join(fallen)}" if fallen else text,
        numbers={"groups": len(large), "fallen": len(fallen)},
    )


def judge_floor(base: CounterSummary, own: CounterSummary, *, arm: str) -> Verdict:
    """Fails where drafts are accepted as often as chance accepts them, unless the reference's are too."""
    low, was_low = at_acceptance_floor(own), at_acceptance_floor(base)
    found = f"{own.draft_accepted} of {own.draft_offered} draft tokens accepted"
    if low and not was_low:
        found += ", as chance would: a wrong mask_id in block_diffusion.json, or not trained to draft"
    return Verdict(
        rule="acceptance_floor",
        arm=arm,
        status="fail" if low and not was_low else "pass",
        observed=own.acceptance_rate,
        explanation=found + (", in the reference as few" if low and was_low else ""),
        numbers={"offered": own.draft_offered, "accepted": own.draft_accepted},
    )


def judge_warnings(base: Sequence[str], own: Sequence[str], *, arm: str) -> Verdict:
    """Fails on warnings of the candidate's model that the reference's had not."""
    new = [text for text in own if text not in base]
    said = "; ".join(new) if new else "none that the reference's model had not"
    return Verdict(
        rule="warnings",
        arm=arm,
        status="fail" if new else "pass",
        observed=len(new),
        limit=0,
        explanation=said,
    )


def judge_count(name: str, base: int, own: int, rule: CountRule, *, n: int, arm: str) -> Verdict:
    """`failed`, `stopped_by_length`, `loops`: at most so many more samples than the reference."""
    limit = rule.limit(base, n)
    return Verdict(
        rule=name,
        arm=arm,
        status="fail" if own > limit else "pass",
        observed=own,
        limit=limit,
        explanation=f"{own} of {n} samples, reference {base}, at most {limit}",
        numbers={"base": base, "own": own, "n": n},
    )


def judge_speed(
    times: Floats, rule: SpeedRule, policy: Policy, *, arm: str, base: str, design: Design
) -> Verdict:
    """Decode speedup over the `ar` arm `base` inside the candidate; `times` [n, 2] is base and own, in ns.

    Only surely below the floor fails; an interval around the floor is inconclusive.
    """
    interval = _interval(times, ratio, design, policy) if len(times) else None
    if interval is None:
        text = "no pair with decode times in both arms"
        return Verdict(rule="speed", arm=arm, status="missing", limit=rule.floor, explanation=text)
    low, high = _low(interval), _high(interval)
    surely = "fail" if high < rule.floor else "inconclusive" if low < rule.floor else "pass"
    bounds = f"[{low:.2f}, {high:.2f}], {policy.two_sided:.0%} interval"
    if interval.low is None:
        surely, bounds = "inconclusive", f"({TOO_FEW})"
    return Verdict.model_validate(
        {
            "rule": "speed",
            "arm": arm,
            "status": surely,
            "observed": interval.value,
            "limit": rule.floor,
            "explanation": (
                f"decode speedup over {base} {interval.value:.2f}x {bounds}, floor {rule.floor:g}x"
            ),
            "numbers": {"low": low, "high": high, "pairs": len(times)},
        }
    )


def mcnemar_p(flips: Floats) -> float:
    """Exact one-sided p of as many flips here but not in the null, were both equally likely (McNemar).

    Bounds from few events are too narrow; this keeps their false alarms at the level.
    """
    here_only, null_only = (int(((flips[:, k] > 0) & (flips[:, 1 - k] == 0)).sum()) for k in (0, 1))
    discordant = here_only + null_only
    as_many = sum(comb(discordant, k) for k in range(here_only, discordant + 1))
    return float(Fraction(as_many, 2**discordant))


def _excess_flips(flips: Floats, design: Design, policy: Policy) -> Interval:
    """Share of samples that flip here minus the share that flip in the null."""
    columns = np.column_stack((flips[:, 0] - flips[:, 1], np.ones(len(flips))))
    found = _interval(columns, ratio, design, policy)
    assert found is not None
    return found


def _interval(columns: Floats, statistic: Statistic, design: Design, policy: Policy) -> Interval | None:
    seed, resamples, confidence = policy.seed, policy.resamples, policy.two_sided
    return bootstrap(columns, statistic, design, seed=seed, resamples=resamples, confidence=confidence)


def _first_samples(audit: Audit, *, near_ties: bool) -> str:
    shown = [d for d in audit.differences if not (near_ties and d.kind == "near-tie")][:SHOWN_SAMPLES]
    return ", ".join(f"{d.sample_id} at token {d.index} ({d.kind})" for d in shown)


def _too_few(name: str, share: float, rule: CounterRule, *, arm: str) -> Verdict:
    return Verdict(
        rule=name,
        arm=arm,
        status="missing",
        observed=share,
        limit=rule.min_comparable,
        explanation=f"{share:.0%} of the samples can be compared, {rule.min_comparable:.0%} are needed: "
        "others failed, differ from their first round on, or their engine does not tell its rounds",
    )


def _no_ratio(name: str, sums: Floats, *, arm: str) -> Verdict:
    """Nothing to lose against passes; a run without the counts that its reference has cannot be judged."""
    over, under = COUNTER_RATIOS[name]
    if sums[over] > 0 and not sums[WIDTH + under]:
        text = "the reference has these counts, the run has none: its engine does not tell its rounds"
        return Verdict(rule=name, arm=arm, status="missing", explanation=text)
    return _nothing(name, arm=arm)


def _nothing(name: str, *, arm: str) -> Verdict:
    return Verdict(rule=name, arm=arm, status="pass", explanation="nothing to hold it against")


def _plain(columns: Floats, start: int, pair: tuple[int, int]) -> float:
    sums = columns.sum(axis=0)
    return float(sums[start + pair[0]] / sums[start + pair[1]])


def _low(interval: Interval) -> float:
    return interval.value if interval.low is None else interval.low


def _high(interval: Interval) -> float:
    return interval.value if interval.high is None else interval.high
