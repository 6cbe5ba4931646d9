"""A finished run in memory: one unit per (sample, rep) with the record of every arm, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.analysis.bootstrap import Design
from gravbench.analysis.facts import SampleFacts, plain_facts, suite_design
from gravbench.errors import NotComparableError
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord

ScoreKey = tuple[str, int, str]
"""(sample_id, rep, arm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One sample of one repetition, all arms."""

    sample_id: str
    rep: int
    task: str
    records: Mapping[str, GenRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """Units sorted by sample and rep. `facts` covers every sample id."""

    name: str
    manifest: Manifest
    units: tuple[Unit, ...]
    scores: Mapping[ScoreKey, tuple[ScoreRecord, ...]]
    facts: Mapping[str, SampleFacts]
    notes: tuple[str, ...] = ()

    @property
    def arms(self) -> tuple[str, ...]:
        return self.manifest.arms

    @property
    def sample_ids(self) -> frozenset[str]:
        return frozenset(unit.sample_id for unit in self.units)

    def records(self, arm: str) -> list[GenRecord]:
        """The arm's records in the order of `units`."""
        return [unit.records[arm] for unit in self.units]

    def unit_scores(self, arm: str) -> list[tuple[ScoreRecord, ...]]:
        """The arm's scores in the order of `units`."""
        return [self.scores.get((unit.sample_id, unit.rep, arm), ()) for unit in self.units]

    def design(self) -> Design:
        """Clusters and strata of the rows `units`."""
        return design_for(self.units, self.facts)


def load_run(
    path: Path, *, facts: Mapping[str, SampleFacts] | None = None, notes: Sequence[str] = ()
) -> LoadedRun:
    """Read a finished, scored run; `NotComparableError` (exit 3) while pairs or scores are missing."""
    run = RunDirectory(path)
    manifest = run.manifest()
    pairs = finished_pairs(run, manifest)
    scores: dict[ScoreKey, tuple[ScoreRecord, ...]] = {}
    for score in run.scores(str(manifest.identity["scorer"])):
        key = (score.sample_id, score.rep, score.arm)
        scores[key] = (*scores.get(key, ()), score)
    units = tuple(
        Unit(sample_id=sample_id, rep=rep, task=next(iter(arms.values())).task, records=arms)
        for (sample_id, rep), arms in sorted(pairs.items())
    )
    _check_scored(path, units, scores)
    known = facts or {}
    missing = {unit.sample_id for unit in units} - set(known)
    return LoadedRun(
        name=str(path),
        manifest=manifest,
        units=units,
        scores=scores,
        facts={**plain_facts(missing), **known},
        notes=tuple(notes),
    )


def design_for(units: Sequence[Unit], facts: Mapping[str, SampleFacts]) -> Design:
    """Clusters and strata of rows that stand for `units`."""
    tasks = {unit.sample_id: unit.task for unit in units}
    return suite_design([unit.sample_id for unit in units], tasks, facts)


def _check_scored(
    path: Path, units: Sequence[Unit], scores: Mapping[ScoreKey, tuple[ScoreRecord, ...]]
) -> None:
    """Every record has each metric that any record of its task has, of its own text and status."""
    metrics: dict[str, set[str]] = {}
    for own in scores.values():
        for score in own:
            metrics.setdefault(score.task, set()).add(score.metric)
    for unit in units:
        for arm, record in unit.records.items():
            found = scores.get((unit.sample_id, unit.rep, arm), ())
            what = _score_fault(record, found, metrics.get(record.task, set()))
            if what is not None:
                raise NotComparableError(
                    f"{path}: sample {unit.sample_id!r}, arm {arm!r}: {what}",
                    hint=f"Run `gravbench score {path}` first.",
                )


def _score_fault(record: GenRecord, found: Sequence[ScoreRecord], metrics: set[str]) -> str | None:
    """What is wrong with the scores of one record; `None` when they are whole."""
    if not found:
        return "it has no score"
    if any(score.prediction_sha != record.text_sha for score in found):
        return "its score belongs to another text"
    named = [score.metric for score in found]
    if set(named) != metrics or len(named) != len(metrics):
        odd = sorted(metrics - set(named)) or sorted(name for name in named if named.count(name) > 1)
        return f"its scores are not one of each metric: see {', '.join(odd)}"
    failed = record.status != "ok"
    if any(score.failed != failed for score in found):
        return f"its score says failed is {not failed}, its status is {record.status}"
    return None
