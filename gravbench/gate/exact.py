"""Modes `rescore` and `regenerate`: what must come out the same to the last digit, without any statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gravbench.analysis.loaded import LoadedRun, RunData, run_data
from gravbench.gate.policy import Policy
from gravbench.gate.reference import Key, Reference, ReferenceArm, as_generation, candidate_problems
from gravbench.gate.verdict import GateReport, Mode, Verdict, outcome_of
from gravbench.store.schema import GenRecord, ScoreRecord

Scorer = Callable[[Sequence[GenRecord]], Sequence[ScoreRecord]]
SHOWN = 3


def rescore(
    reference: Reference,
    scorer: Scorer,
    *,
    scorer_id: str,
    suite_sha: str,
    inputs: Mapping[str, str] | None = None,
    references_sha: str | None = None,
    data: RunData | None = None,
) -> GateReport:
    """Score the stored predictions again. Every value and count must be equal; no model is touched.

    Another suite digest, other `inputs` (digest by sample id) or other ground truth is not comparable.
    Another scorer is judged: that is what this mode is for.
    """
    problems = [] if inputs is None else _data_problems(reference, inputs, references_sha)
    if problems:
        return _report("rescore", reference, None, [], problems, data=data)
    verdicts: list[Verdict] = []
    for name, arm in reference.arms.items():
        expected_suite = arm.run.identity.suite_sha
        if expected_suite != suite_sha:
            problems.append(f"{name}: suite_sha is {suite_sha[:12]}, blessed with {str(expected_suite)[:12]}")
            continue
        records = [as_generation(arm, key) for key in sorted(arm.predictions)]
        verdicts.append(_scores_verdict(arm, scorer(records), scorer_id=scorer_id))
    return _report("rescore", reference, None, verdicts, problems, data=data)


def _data_problems(reference: Reference, inputs: Mapping[str, str], references_sha: str | None) -> list[str]:
    """Why these are not the samples the reference was blessed on: the first one, or the digest."""
    first = next(iter(reference.arms.values()))
    for (sample_id, _), prediction in sorted(first.predictions.items()):
        if inputs.get(sample_id) != prediction.input_sha:
            what = "is not in this copy" if sample_id not in inputs else "differs in image or annotation"
            return [f"another copy of the data: {sample_id} {what}; name the one blessed on with --data"]
    blessed = first.run.identity.references_sha
    if blessed != references_sha:
        return [f"references_sha is {str(references_sha)[:12]}, blessed with {str(blessed)[:12]}"]
    return []


def judge_regenerated(run: LoadedRun, reference: Reference, policy: Policy) -> GateReport:
    """A fresh run of the same code path: token ids, stops, texts, counters and rounds must be equal."""
    problems = candidate_problems(run, reference, dict.fromkeys(reference.arms, policy))
    verdicts: list[Verdict] = []
    if not problems:
        for name, arm in reference.arms.items():
            verdicts += _regenerated(arm, run.records(name))
    return _report("regenerate", reference, None, verdicts, problems, data=run_data(run.manifest.protocol))


def _regenerated(arm: ReferenceArm, records: Sequence[GenRecord]) -> list[Verdict]:
    tokens, counters = [], []
    for record in records:
        expected = as_generation(arm, (record.sample_id, record.rep))
        if _output(record) != _output(expected):
            tokens.append(record.sample_id)
        elif _counts(record) != _counts(expected):
            counters.append(record.sample_id)
    name, n = arm.run.strategy, len(records)
    return [
        _exact("regenerate.outputs", name, tokens, n, what="token ids, stop reasons or texts"),
        _exact("regenerate.counters", name, counters, n, what="counters or rounds of equal outputs"),
    ]


def _output(record: GenRecord) -> tuple[object, ...]:
    return record.status, record.stop_reason, record.loop_flag, record.token_ids, record.text


def _counts(record: GenRecord) -> tuple[object, ...]:
    return tuple((piece.region_id, trace.counters, trace.rounds) for piece, trace in record.answers)


def _scores_verdict(arm: ReferenceArm, scores: Sequence[ScoreRecord], *, scorer_id: str) -> Verdict:
    fresh: dict[tuple[Key, str], ScoreRecord] = {((s.sample_id, s.rep), s.metric): s for s in scores}
    stored = {(key, s.metric): s for key, own in arm.scores.items() for s in own}
    unscored = sorted(
        {
            f"{metric} of {key[0]}"
            for key, metric in {*fresh, *stored}
            if _is_scored(fresh.get((key, metric))) != _is_scored(stored.get((key, metric)))
        }
    )
    different = sorted(
        {
            key[0]
            for key, metric in {*fresh, *stored}
            if _value(fresh.get((key, metric))) != _value(stored.get((key, metric)))
        }
    )
    if unscored:
        return Verdict(
            rule="rescore",
            arm=arm.run.strategy,
            status="missing",
            observed=len(unscored),
            limit=0,
            explanation=f"scored either here or when blessed, not both: {_some(unscored)}",
        )
    verdict = _exact(
        "rescore", arm.run.strategy, different, len(arm.predictions), what="scores, counts or signatures"
    )
    blessed = arm.run.identity.scorer
    if verdict.status == "fail" and blessed != scorer_id:
        note = f"; the scorer is {scorer_id}, blessed with {blessed}"
        return verdict.model_copy(update={"explanation": verdict.explanation + note})
    return verdict


def _value(score: ScoreRecord | None) -> tuple[object, ...] | None:
    if score is None:
        return None
    return score.value, score.counts, score.failed, score.signature, score.reference_sha


def _is_scored(score: ScoreRecord | None) -> bool:
    """Whether there is a value; a tool that is not installed leaves none."""
    return score is not None and score.value is not None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")


def _exact(rule: str, arm: str, different: Sequence[str], n: int, *, what: str) -> Verdict:
    shown = _some(different)
    text = f"{what}: all {n} samples equal"
    return Verdict(
        rule=rule,
        arm=arm,
        status="fail" if different else "pass",
        observed=len(different),
        limit=0,
        explanation=f"{what} differ in {len(different)} of {n} samples: {shown}" if different else text,
        numbers={"n": n, "different": len(different)},
    )


def _report(
    mode: Mode,
    reference: Reference,
    candidate: str | None,
    verdicts: Sequence[Verdict],
    problems: Sequence[str],
    *,
    data: RunData | None,
) -> GateReport:
    outcome, exit_code = outcome_of(verdicts, problems)
    return GateReport(
        mode=mode,
        suite=reference.suite,
        candidate=candidate,
        reference=str(reference.folder),
        outcome=outcome,
        exit_code=exit_code,
        verdicts=() if problems else tuple(verdicts),
        problems=tuple(problems),
        data=data,
        reference_data=reference.data,
    )
