"""The first thing a reader sees: the claim, and for each strategy three answers in a sentence each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.comparison import ArmComparison
from gravbench.analysis.identity import Audit
from gravbench.analysis.loaded import run_data
from gravbench.analysis.quality import QualityDifference, label_of
from gravbench.arms import AR, batch_of, speed_base
from gravbench.reporting.breakdown import pair_name, pair_sentence, tie_sentence, ties_of
from gravbench.reporting.charts import (
    Named,
    best_first,
    concurrency,
    end_to_end,
    main_metric,
    named_arms,
)
from gravbench.reporting.document import PairPart, ReportDocument, RunPart
from gravbench.reporting.tables import interval, number, signed

Mood = Literal["yes", "no", "unclear", "plain"]
"""How good an answer is; `plain` of one that is neither good nor bad by itself."""
UNLIKE = ("suite", "model", "engine", "device")
"""Conditions of which any difference makes two runs unlike."""
SHOWN_CLAIMS = 3
LOSSY = "no: lossy by design"
NO_SPEED = "No speedup was measured in these runs."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question, its short answer, and the sentence behind it."""

    question: str
    answer: str
    mood: Mood
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmVerdict:
    """Answers for one strategy, most read first."""

    label: str
    answers: tuple[Answered, ...]


def arm_verdicts(document: ReportDocument) -> list[ArmVerdict]:
    """One a pair of runs, then one a strategy that is not ar, fastest first."""
    each = [
        ArmVerdict(label=a.label, answers=(same_answer(a), _faster(a), quality_answer(a)))
        for a in best_first(document)
    ]
    return [*(_pair_verdict(pair, a, document) for pair, a in _told_pairs(document)), *each]


def tiles(document: ReportDocument) -> ArmVerdict | None:
    """What stands beside the first curve: answers on the pair of runs, else on the fastest strategy, and what
    its drafts were worth; `None` where only ar was run."""
    verdicts = arm_verdicts(document)
    if not verdicts:
        return None
    best = next(iter(best_first(document)), None)
    if best is None or verdicts[0].label != best.label:
        return verdicts[0]
    same, faster, quality = verdicts[0].answers
    return ArmVerdict(label=best.label, answers=(faster, same, quality, _accepted(best)))


def _accepted(a: Named) -> Answered:
    question, found = "How many drafts are accepted?", a.arm.counters.get("accepted_draft")
    if found is None or not a.part.counters.draft_offered:
        detail = "No drafts were counted: the strategy makes none, or its engine hides its rounds."
        return Answered(question=question, answer="not measured", mood="unclear", detail=detail)
    detail = (
        f"{number(_value(a, 'tpf_all'))} tokens per forward; {number(_value(a, 'tau_round'))} tokens a round"
    )
    if a.arm.cost_model is not None:
        model = a.arm.cost_model
        detail += f", which costs {model.round_cost:.2f} steps of ar: {model.predicted:.2f}× predicted"
    return Answered(question=question, answer=f"{found.value:.2f} a round", mood="plain", detail=detail + ".")


def headline(document: ReportDocument) -> str:
    """The claim of the report: what differs between its runs, then the fastest strategy against its own ar.

    Runs of unlike models or settings make a claim each. Data that is not whole is named.
    """
    timed = [a for a in best_first(document) if a.arm.decode is not None]
    tied = _tied(timed)
    if unlike_runs(document):
        timed = list({a.run.name: a for a in reversed(timed)}.values())[::-1]
    claims = [_claim(a) for a in (timed if unlike_runs(document) else timed[:1])] or _untimed(document)
    pairs = [_pair_claim(pair, a, document) for pair, a in _told_pairs(document)]
    return " ".join([*pairs, *claims]) + tied + _less_than_whole(document)


def _untimed(document: ReportDocument) -> list[str]:
    """Where nothing was timed: the difference of quality of those that another arm is held against."""
    judged = [a for a in best_first(document) if a.arm.base is not None and a.arm.quality]
    claims = []
    for a in judged[:SHOWN_CLAIMS] if not any(n.arm.counters for n in named_arms(document)) else ():
        metric, audit = main_metric(a.arm.quality), a.arm.identity
        same = f"; same text in {audit.same_text} of {audit.compared}" if audit is not None else ""
        if metric is not None:
            d = a.arm.quality[metric]
            claims.append(f"{a.label} against {a.arm.base}: {label_of(metric)} {signed(d)} points{same}.")
    return claims or [NO_SPEED]


def _tied(timed: Sequence[Named]) -> str:
    """What is said where the fastest strategy of one run has an equal: their intervals overlap."""
    if not timed:
        return ""
    ties = ties_of([(a.label, a.arm.decode) for a in timed if a.run is timed[0].run])
    return f" {tie_sentence(timed[0].label, ties)}" if ties else ""


def _told_pairs(document: ReportDocument) -> list[tuple[PairPart, ArmComparison]]:
    """Pairs of runs, each with the strategy that speaks for it: the later run's fastest, else the first."""
    found = []
    for pair in document.comparisons:
        order = [a.part.arm for a in best_first(document) if a.run.name == pair.own]
        ranked = sorted(pair.arms, key=lambda a: order.index(a.own_arm) if a.own_arm in order else len(order))
        found += [(pair, ranked[0])] if ranked else []
    return found


def _pair_claim(pair: PairPart, a: ArmComparison, document: ReportDocument) -> str:
    return pair_sentence(a, base=pair.base, own=pair.own, speeds=_speeds_of(pair, a, document))


def _speeds_of(
    pair: PairPart, a: ArmComparison, document: ReportDocument
) -> tuple[Interval | None, Interval | None]:
    found = {(n.run.name, n.part.arm): n.arm.decode for n in named_arms(document)}
    return found.get((pair.base, a.base_arm)), found.get((pair.own, a.own_arm))


def _pair_verdict(pair: PairPart, a: ArmComparison, document: ReportDocument) -> ArmVerdict:
    metric = main_metric(a.quality)
    answers = [_same_in_both(a.identity)]
    if a.speedup_ratio is not None:
        before, after = (number(s.value if s else None) for s in _speeds_of(pair, a, document))
        answer, mood = _sides(a.speedup_ratio)
        detail = f"Decode speedup over ar {after}× against {before}×: {interval(a.speedup_ratio, '×')} of it."
        answers.append(Answered(question="Does drafting gain more?", answer=answer, mood=mood, detail=detail))
    if metric is not None:
        d = a.quality[metric]
        answers.append(
            Answered(
                question="At what quality?",
                answer="unchanged" if not d.changed else f"{d.difference:+.2f} points",
                mood=_quality_mood(d),
                detail=f"{label_of(metric)}: {d.own:.2f} points, {pair.base} {d.base:.2f}, "
                f"difference {signed(d)}; {d.changed} of {d.n} changed.",
            )
        )
    return ArmVerdict(label=f"{pair.own} against {pair.base}: {pair_name(a)}", answers=tuple(answers))


def _same_in_both(audit: Audit | None) -> Answered:
    question = "Is it the same text?"
    if audit is None:
        detail = "A lossy strategy is judged by its quality; equal text would be chance."
        return Answered(question=question, answer=LOSSY, mood="no", detail=detail)
    return Answered(
        question=question,
        answer=f"{audit.same_text} of {audit.compared}",
        mood="yes" if audit.same_text == audit.compared else "no",
        detail=f"{audit.same_text} of {audit.compared} outputs have the same text in both runs.",
    )


def _less_than_whole(document: ReportDocument) -> str:
    """Names of partial and changed data; empty where all runs are whole, or have no pages."""
    found = [data for run in document.runs if (data := run_data(run.protocol)) is not None]
    labels = dict.fromkeys(data.label for data in found if not data.whole)
    return f" Data: {'; '.join(labels)}." if labels else ""


def _claim(a: Named) -> str:
    request = f", {interval(end_to_end(a.arm), '×')} end to end" if end_to_end(a.arm) else ""
    same = ""
    if a.arm.lossy:
        same = f"; lossy: {_lost(a)}"
    elif (audit := a.arm.identity) is not None:
        what = "of equal text with" if audit.by_text else "token-identical to"
        same = f"; {audit.identical} of {audit.compared} outputs are {what} {_against(a)}"
    return f"{a.label} decodes {interval(a.arm.decode, '×')} as fast as {_own(a, a.over)}{request}{same}."


def unlike_runs(document: ReportDocument) -> list[tuple[str, list[str]]]:
    """Later runs of another model, suite, engine or device than the first, and what differs; else empty."""
    first, *others = document.runs
    base = dict(conditions(first))
    found = []
    for run in others:
        own = dict(conditions(run))
        differing = [f"{n}: {base.get(n)} → {own.get(n)}" for n in UNLIKE if base.get(n) != own.get(n)]
        if differing:
            found.append((f"{run.name} and {first.name} are not of one kind", differing))
    return found


def conditions(run: RunPart) -> list[tuple[str, str]]:
    """Under which conditions the numbers of a run hold."""
    i = run.identity
    n, clusters = run.analysis.n_samples, run.analysis.n_clusters
    samples = f"{n}" if n == clusters else f"{n} in {clusters} pages"
    data = run_data(run.protocol)
    pairs = (
        ("suite", f"{i.get('suite')} v{i.get('suite_version')}"),
        ("data", "" if data is None else data.label),
        ("samples", samples),
        ("model", f"{run.model.get('model')} ({str(i.get('model_digest'))[:12]})"),
        ("engine", str(i.get("engine"))),
        ("device", f"{i.get('device')}, {i.get('dtype')}, {i.get('threads')} thread(s)"),
        ("requests together", ", ".join(map(str, sorted({concurrency(run, part.arm) for part in run.arms})))),
        ("processor", _processor(run)),
        ("peak memory", run.analysis.peak_memory or ""),
        ("order", str(run.protocol.get("interleave", "not stated"))),
        ("warm-up", str(run.protocol.get("warm_up", "not stated"))),
        ("sessions", str(run.sessions)),
    )
    return [(name, value) for name, value in pairs if value and value != "None"]


def _processor(run: RunPart) -> str:
    cpu = run.environment.get("cpu")
    if isinstance(cpu, dict):
        cores = next((f"{v} cores" for k, v in sorted(cpu.items()) if "core" in k and v), None)
        return ", ".join(str(v) for v in (cpu.get("model"), cores) if v)
    return str(cpu or "")


def _own(a: Named, base: str) -> str:
    """An ar arm in words; of which run it is where there are several."""
    return f"{base} of its own run" if a.among_runs else base


def _against(a: Named) -> str:
    return _own(a, a.against)


def _lost(a: Named) -> str:
    """`text NED -1.20 [-2.1, -0.4] points against ar`."""
    metric = main_metric(a.arm.quality)
    if metric is None:
        return "its quality was not measured"
    return f"{label_of(metric)} {signed(a.arm.quality[metric])} points against {_against(a)}"


def same_answer(a: Named) -> Answered:
    """Whether a strategy writes what its `ar` arm writes."""
    question, audit = "Is it the same text?", a.arm.identity
    if a.arm.lossy:
        return Answered(question=question, answer=LOSSY, mood="no", detail=f"{_lost(a)}.")
    if audit is None:
        return Answered(
            question=question, answer="not measured", mood="unclear", detail="There is no ar arm."
        )
    if not audit.compared:
        return Answered(
            question=question,
            answer="nothing to compare",
            mood="unclear",
            detail=f"All {audit.both_failed} pairs failed in both arms.",
        )
    what = "text" if audit.by_text else "token ids and stop reason"
    counted = f"{audit.identical} of {audit.compared} outputs have {_against(a)}'s {what}"
    certified = "".join(f" {own.words}." for own in a.arm.certificates or ())
    if audit.spotless:
        return Answered(question=question, answer="yes", mood="yes", detail=f"{counted}.{certified}")
    return Answered(
        question=question,
        answer="yes, but for near-ties" if not audit.faults else "no",
        mood="no" if audit.faults else "yes",
        detail=f"{counted}; {difference_kinds(audit)}.{certified}",
    )


def difference_kinds(audit: Audit) -> str:
    """`2 near-tie, 1 violation; referee's tau 0.0001`."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(audit.classes.items()))
    judged = f"referee's tau {audit.tau:g}" if audit.refereed else "no referee was asked"
    return f"{kinds}; {judged}"


def _faster(a: Named) -> Answered:
    question = "Is it faster?"
    if a.arm.decode is None:
        return Answered(question=question, answer="not measured", mood="unclear", detail=_no_speed(a))
    detail = f"Decoding {interval(a.arm.decode, '×')}" + (
        "" if _own(a, a.over) == AR else f" over {_own(a, a.over)}"
    )
    if end_to_end(a.arm) is not None:
        detail += f", end to end {interval(end_to_end(a.arm), '×')}"
    detail += (
        f", over {a.arm.decode.n_pairs} interleaved pairs; {number(_value(a, 'tpf_all'))} tokens per forward."
    )
    answer, mood = _sides(a.arm.decode)
    return Answered(question=question, answer=answer, mood=mood, detail=detail)


def _no_speed(a: Named) -> str:
    if speed_base(a.part.arm, [part.arm for part in a.run.arms]) is None:
        return f"There is no ar arm at batch size {batch_of(a.part.arm)}."
    return "No pair has decode times in both arms."


def _value(a: Named, name: str) -> float | None:
    found = a.arm.counters.get(name)
    return None if found is None else found.value


def _sides(given: Interval) -> tuple[str, Mood]:
    if given.low is None or given.high is None:
        return f"{given.value:.2f}×, no interval", "unclear"
    if given.low > 1:
        return f"yes, {given.value:.2f}×", "yes"
    if given.high < 1:
        return f"no, {given.value:.2f}×", "no"
    return f"not told apart, {given.value:.2f}×", "unclear"


def quality_answer(a: Named) -> Answered:
    """Its main metric, as a difference to its `ar` arm where there is one."""
    question = "At what quality?"
    metric = main_metric(a.arm.quality)
    if metric is None:
        level_of = main_metric(a.part.levels)
        if level_of is None:
            return Answered(
                question=question, answer="not scored", mood="unclear", detail="No score applies."
            )
        return Answered(
            question=question,
            answer=f"{a.part.levels[level_of].points.value:.2f} points",
            mood="unclear",
            detail="Without an ar arm there is no difference to show.",
        )
    d = a.arm.quality[metric]
    mood = _quality_mood(d)
    answer = "unchanged" if not d.changed else f"{d.difference:+.2f} points"
    if a.among_runs:
        answer += " against its own ar"
    detail = f"{label_of(metric)}: {d.own:.2f} points, {_against(a)} {d.base:.2f}, difference {signed(d)}; "
    detail += f"{d.changed} of {d.n} changed."
    return Answered(question=question, answer=answer, mood=mood, detail=detail)


def _quality_mood(d: QualityDifference) -> Mood:
    low = d.low if d.low is not None else d.difference
    high = d.high if d.high is not None else d.difference
    bounded = d.low is not None or not d.changed
    return "unclear" if not bounded else "no" if high < 0 else "yes" if low > -0.5 else "unclear"
