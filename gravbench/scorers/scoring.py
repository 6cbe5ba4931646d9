"""Records of a run x scorers of its suite -> scores and averages. Needs no model stack.

Equal answers to equal samples are scored once: AR and a lossless strategy share their scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gravbench.errors import DataError, NotComparableError
from gravbench.records import SampleTask
from gravbench.scorers.contract import Answer, Metric, Sample, Score, Scored, Scorer, open_scorer
from gravbench.store.schema import GenRecord, ScoreRecord

Key = tuple[str, tuple[tuple[str, bool], ...]]
"""(reference sha, (text sha, failed) of every repeat)."""
Group = tuple[str, str]
"""(sample id, arm): what is scored together, all its repeats."""


@dataclass(frozen=True, slots=True)
class ScorerSet:
    """The scorers of one suite. No two have a task or a metric in common."""

    scorers: tuple[Scorer, ...]

    @property
    def name(self) -> str:
        """The scorers' names, joined by `+`."""
        return "+".join(scorer.name for scorer in self.scorers)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The whole table by metric name, the first of a task being its headline."""
        return {metric.name: metric for scorer in self.scorers for metric in scorer.metrics}

    def of(self, task: SampleTask) -> Scorer:
        """Who scores samples of `task`; `DataError` where nobody does."""
        for scorer in self.scorers:
            if any(task in metric.tasks for metric in scorer.metrics):
                return scorer
        raise DataError(
            f"scorer {self.name} has no metric for a sample of task {task!r}",
            hint="Name another scorer in the suite's manifest.",
        )

    def score(
        self,
        records: Sequence[GenRecord],
        samples: Iterable[Sample],
        *,
        known: Sequence[ScoreRecord] = (),
    ) -> list[ScoreRecord]:
        """Scores of all records, sorted by sample, rep, arm and metric; failed ones score worst.

        `known` are stored scores; those of equal content and signature are taken over. A record of a sample
        that is not there is a `NotComparableError`: the suite is not the one the run was made on.
        """
        by_id = {sample.sample_id: sample for sample in samples}
        groups = _grouped(records, by_id)
        rows: list[ScoreRecord] = []
        for scorer in self.scorers:
            own = {
                group: found
                for group, found in groups.items()
                if self.of(by_id[group[0]].task) is scorer
            }  # fmt: skip
            if own:
                rows += _scored(scorer, own, by_id, known)
        return sorted(rows, key=lambda s: (s.sample_id, s.rep, s.arm, s.metric))

    def aggregate(self, scores: Iterable[Scored]) -> dict[str, float]:
        """What each scorer makes of its scores, by metric name."""
        listed = list(scores)
        return {name: value for s in self.scorers for name, value in s.aggregate(listed).items()}

    def remarks(
        self, scores: Iterable[ScoreRecord], samples: Iterable[Sample], *, seed: int
    ) -> tuple[str, ...]:
        """What scorers say of each strategy beside its averages, of its first repeat."""
        by_id = {sample.sample_id: sample for sample in samples}
        arms: dict[str, dict[str, list[ScoreRecord]]] = {}
        for score in scores:
            if score.rep == 0:
                arms.setdefault(score.arm, {}).setdefault(score.sample_id, []).append(score)
        return tuple(
            f"{arm}: {line}"
            for arm, found in arms.items()
            for scorer in self.scorers
            for line in scorer.remarks(
                [(by_id[name], own) for name, own in found.items() if self.of(by_id[name].task) is scorer],
                seed=seed,
            )
        )


def open_scorers(names: Sequence[str]) -> ScorerSet:
    """The scorers of these names; `DataError` where two have a metric or a task in common."""
    scorers = tuple(open_scorer(name) for name in names)
    for index, scorer in enumerate(scorers):
        for other in scorers[:index]:
            tasks = {t for m in scorer.metrics for t in m.tasks} & {t for m in other.metrics for t in m.tasks}
            shared = {m.name for m in scorer.metrics} & {m.name for m in other.metrics}
            if tasks or shared:
                raise DataError(
                    f"scorers {other.name} and {scorer.name} both score {', '.join(sorted(tasks or shared))}",
                    hint="Name one of them in the suite's manifest.",
                )
    return ScorerSet(scorers)


def _grouped(records: Sequence[GenRecord], samples: Mapping[str, Sample]) -> dict[Group, list[GenRecord]]:
    groups: dict[Group, list[GenRecord]] = {}
    for record in sorted(records, key=lambda r: r.rep):
        if record.sample_id not in samples:
            raise NotComparableError(
                f"sample {record.sample_id!r} of the run is not in the suite",
                hint="Score with the suite and the data the run was made on.",
            )
        groups.setdefault((record.sample_id, record.arm), []).append(record)
    return groups


def _scored(
    scorer: Scorer,
    groups: Mapping[Group, Sequence[GenRecord]],
    samples: Mapping[str, Sample],
    known: Sequence[ScoreRecord],
) -> list[ScoreRecord]:
    signatures = scorer.signatures()
    keys = {
        group: (samples[group[0]].reference_sha, tuple((r.text_sha, r.status != "ok") for r in found))
        for group, found in groups.items()
    }
    tasks = {keys[group]: samples[group[0]].task for group in groups}
    values: dict[Key, Sequence[Sequence[Score]]] = {
        key: found
        for key, found in _known(known).items()
        if key in tasks and _fits(found, scorer, tasks[key], signatures)
    }
    wanted = {keys[group]: group for group in groups if keys[group] not in values}
    batch = [
        (samples[group[0]], [Answer(r.text, failed=r.status != "ok") for r in groups[group]])
        for group in wanted.values()
    ]
    values |= dict(zip(wanted, scorer.score_all(batch), strict=True))
    return [
        _record(record, score, signatures[score.metric], keys[group][0])
        for group, found in groups.items()
        for record, scores in zip(found, values[keys[group]], strict=True)
        for score in scores
    ]


def _known(known: Sequence[ScoreRecord]) -> dict[Key, list[list[_Known]]]:
    """Stored scores by what they are of: every repeat of one strategy on one sample."""
    groups: dict[Group, dict[int, list[ScoreRecord]]] = {}
    for score in known:
        groups.setdefault((score.sample_id, score.arm), {}).setdefault(score.rep, []).append(score)
    found: dict[Key, list[list[_Known]]] = {}
    for reps in groups.values():
        ordered = [reps[rep] for rep in sorted(reps)]
        answers = tuple((scores[0].prediction_sha, scores[0].failed) for scores in ordered)
        found[ordered[0][0].reference_sha, answers] = [[_Known.of(s) for s in scores] for scores in ordered]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known(Score):
    """A stored score with the signature it was made under."""

    signature: str

    @staticmethod
    def of(score: ScoreRecord) -> _Known:
        return _Known(
            metric=score.metric,
            value=score.value,
            counts=score.counts,
            reason=score.reason if score.value is None else None,
            notes=score.notes,
            signature=score.signature,
        )


def _fits(
    found: Sequence[Sequence[_Known]], scorer: Scorer, task: SampleTask, signatures: Mapping[str, str]
) -> bool:
    """Whether these are all metrics of the task, each as this machine would compute it."""
    wanted = {m.name: signatures[m.name] for m in scorer.metrics if task in m.tasks and not m.parts}
    if any(note.machine for scores in found for score in scores for note in score.notes):
        return False
    return all({s.metric: s.signature for s in scores} == wanted for scores in found)


def _record(record: GenRecord, score: Score, signature: str, reference_sha: str) -> ScoreRecord:
    why = f"{record.error.kind}: {record.error.message}" if record.error is not None else None
    return ScoreRecord(
        sample_id=record.sample_id,
        arm=record.arm,
        rep=record.rep,
        task=record.task,
        metric=score.metric,
        signature=signature,
        value=score.value,
        counts=dict(score.counts),
        failed=record.status != "ok",
        reason=score.reason if score.value is None else why,
        notes=score.notes,
        prediction_sha=record.text_sha,
        reference_sha=reference_sha,
    )
