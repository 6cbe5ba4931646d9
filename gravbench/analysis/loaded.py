"""A finished run in memory: its records and scores, what its suite says of its samples, which data it read.

`page` groups crops of one page into a cluster, `subset` names the stratum; every other attribute with few
values is a category to break results down by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from gravbench.analysis.bootstrap import Design, design_of
from gravbench.analysis.certificate import Certificate, stored_certificates
from gravbench.errors import NotComparableError
from gravbench.records import PeakMemory, Record
from gravbench.scorers.contract import Note
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord

CLUSTER_ATTRIBUTE = "page"
STRATUM_ATTRIBUTE = "subset"
PAIR_ATTRIBUTE = "pair"
MAX_CATEGORY_VALUES = 24


class Described(Protocol):
    """A sample of a suite, as far as facts need it."""

    @property
    def sample_id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, bool | int | str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFacts:
    """Labels of one sample."""

    cluster: str
    stratum: str | None = None
    categories: Mapping[str, str] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()
    """Categories that are lists: their members, joined by `+`, are labels of their own."""
    pair: str | None = None
    """What is shown twice, as written and with its words shuffled (category `words`), has one name."""

    def labels(self, category: str) -> tuple[str, ...]:
        """What the sample counts under; as officially, members of lists that name a table kind do not."""
        value = self.categories.get(category)
        if value is None or category not in self.listed:
            return () if value is None else (value,)
        return _members(value)


def _members(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(member for member in value.split("+") if "table" not in member))


def facts_of(samples: Iterable[Described]) -> dict[str, SampleFacts]:
    """Facts by sample id. Categories are the text and yes/no attributes with 2 to 24 different values."""
    listed = list(samples)
    values: dict[str, set[str]] = {}
    for sample in listed:
        for key, value in sample.attributes.items():
            if not isinstance(value, int) or isinstance(value, bool):
                label = _label(value)
                own = _members(label) if key in _listed(sample) else (label,)
                values.setdefault(key, set()).update(own)
    reserved = {CLUSTER_ATTRIBUTE, STRATUM_ATTRIBUTE, PAIR_ATTRIBUTE}
    kept = {k for k, found in values.items() if 2 <= len(found) <= MAX_CATEGORY_VALUES} - reserved
    return {
        sample.sample_id: SampleFacts(
            cluster=str(sample.attributes.get(CLUSTER_ATTRIBUTE, sample.sample_id)),
            stratum=_text(sample, STRATUM_ATTRIBUTE),
            categories={key: _label(sample.attributes[key]) for key in sorted(kept & set(sample.attributes))},
            listed=_listed(sample) & kept,
            pair=_text(sample, PAIR_ATTRIBUTE),
        )
        for sample in listed
    }


def _listed(sample: Described) -> frozenset[str]:
    """Attributes of a page that are lists; samples of other kinds have none."""
    found: frozenset[str] = getattr(sample, "listed", frozenset())
    return found


def plain_facts(sample_ids: Iterable[str]) -> dict[str, SampleFacts]:
    """Facts when the suite is not at hand: every sample its own cluster, no category."""
    return {sample_id: SampleFacts(cluster=sample_id) for sample_id in sample_ids}


def suite_design(
    sample_ids: Iterable[str], tasks: Mapping[str, str], facts: Mapping[str, SampleFacts]
) -> Design:
    """Design of rows in the order given: clusters are pages; strata are subsets, within them tasks.

    A stratum must hold whole clusters, so tasks divide only where every page has crops of one task.
    """
    ids = list(sample_ids)
    clusters = [facts[i].cluster for i in ids]
    subsets = [facts[i].stratum or "" for i in ids]
    by_task = [f"{subset}/{tasks[i]}" for i, subset in zip(ids, subsets, strict=True)]
    for strata in (by_task, subsets):
        if len(set(zip(clusters, strata, strict=True))) == len(set(clusters)):
            return design_of(clusters, strata)
    return design_of(clusters, [""] * len(ids))


def _text(sample: Described, attribute: str) -> str | None:
    value = sample.attributes.get(attribute)
    return None if value is None else str(value)


def _label(value: bool | int | str) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


class RunData(Record):
    """A run's page data. `label` has the page count in it; `whole` copies alone are the benchmark."""

    label: str
    partial: bool
    """Some of the benchmark's pages, or of the suite's samples, are not in the run."""
    drifted: bool
    """The copy is not the release's."""
    pages_in_run: int | None = None
    annotation_sha256: str | None = None

    @property
    def whole(self) -> bool:
        """Whether every page of the suite was run, and none was changed."""
        return not (self.partial or self.drifted)


def run_data(protocol: Mapping[str, JsonValue]) -> RunData | None:
    """What a manifest's protocol says of the page data; `None` for suites without pages."""
    found = protocol.get("data")
    if not isinstance(found, dict) or not isinstance(found.get("label"), str):
        return None
    return RunData.model_validate({name: found[name] for name in RunData.model_fields if name in found})


def is_lossy(protocol: Mapping[str, JsonValue], arm: str) -> bool:
    """Whether the run knew that the tokens of `arm` may differ from those of `ar` by design."""
    named = protocol.get("lossy")
    return isinstance(named, list) and arm in named


def data_losses(protocol: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Regions of the copy that could not become samples, in a sentence; empty when there are none."""
    found = protocol.get("data")
    loss = found.get("loss") if isinstance(found, dict) else None
    return (loss,) if isinstance(loss, str) else ()


IMPORTED = "import"
"""Backend of a run whose answers other programs wrote."""


def import_notes(protocol: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """What each imported arm is, and what its program did not tell; why merged shards have no times."""
    imports = protocol.get("imports")
    found = [str(protocol["untimed"])] if "untimed" in protocol else []
    for arm, note in imports.items() if isinstance(imports, dict) else ():
        if isinstance(note, dict):
            absent = note.get("absent")
            named = ", ".join(absent) if isinstance(absent, dict) else ""
            missing = f"; {note.get('missing')} samples have no prediction" if note.get("missing") else ""
            found.append(f"{arm}: imported, {note.get('kind')}{missing}; not known: {named or 'nothing'}")
    return tuple(found)


def peak_memory(records: Iterable[GenRecord]) -> PeakMemory | None:
    """The highest peak of any answer; `None` where none was measured."""
    peaks = [record.peak_memory for record in records if record.peak_memory is not None]
    if not peaks:
        return None
    return PeakMemory(
        process_bytes=max((p.process_bytes for p in peaks if p.process_bytes is not None), default=None),
        device_bytes=max((p.device_bytes for p in peaks if p.device_bytes is not None), default=None),
    )


def memory_words(protocol: Mapping[str, JsonValue], peaks: Mapping[str, PeakMemory | None]) -> str | None:
    """Peaks of all arms and of what, or why there are none; `None` for imports, which nothing ran."""
    if "imports" in protocol:
        return None
    what = str(protocol.get("peak_memory", "not recorded: the run is older than this measurement"))
    told = ", ".join(f"{arm} {_megabytes(peak)}" for arm, peak in peaks.items() if peak is not None)
    return f"{told} ({what})" if told else what


def _megabytes(peak: PeakMemory) -> str:
    named = ((peak.process_bytes, ""), (peak.device_bytes, " on the device"))
    return " and ".join(f"{size / 1e6:,.0f} MB{where}" for size, where in named if size is not None)


def data_caution(data: RunData | None) -> str | None:
    """What a reader must know of a run on less or other than the benchmark; `None` for the whole of it."""
    if data is None or data.whole:
        return None
    return f"Not the whole benchmark: {data.label}. Do not read its figures as the benchmark's."


ElementSums = Mapping[str, Mapping[str, Mapping[str, tuple[float, int]]]]
"""Element -> "attribute: value" -> metric -> sum of the values of a page's elements, and how many."""

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
    elements: Mapping[ScoreKey, ElementSums] = field(default_factory=dict)
    """By attributes of tables, formulas and text blocks; where the run has them, of every unit and arm."""
    certificates: Mapping[str, tuple[Certificate, ...]] = field(default_factory=dict)
    """By arm, of a run that was audited."""

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

    def unit_elements(self, arm: str) -> list[ElementSums]:
        """The arm's sums by attributes of elements, in the order of `units`."""
        return [self.elements.get((unit.sample_id, unit.rep, arm), {}) for unit in self.units]

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
    for score in run.scores(manifest.identity.scorer):
        key = (score.sample_id, score.rep, score.arm)
        scores[key] = (*scores.get(key, ()), score)
    units = tuple(
        Unit(sample_id=sample_id, rep=rep, task=next(iter(arms.values())).task, records=arms)
        for (sample_id, rep), arms in sorted(pairs.items())
    )
    _check_scored(path, units, scores)
    certificates, stale = stored_certificates(path, (r for unit in units for r in unit.records.values()))
    known = facts or {}
    missing = {unit.sample_id for unit in units} - set(known)
    return LoadedRun(
        name=str(path),
        manifest=manifest,
        units=units,
        scores=scores,
        facts={**plain_facts(missing), **known},
        notes=(*notes, *([stale] if stale else [])),
        certificates=certificates.by_arm if certificates else {},
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


SHOWN_NAMES = 3


def named(names: Collection[str]) -> str:
    """The first three by name, and how many more."""
    shown = list(names)[:SHOWN_NAMES]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more


class ScoreNote(Record):
    """What a scorer says of one element of one sample: its value, why, and what can be done.

    `element` is empty where a metric of the whole sample was not scored; `metrics` and `arms` share the note.
    """

    sample_id: str
    element: str
    metrics: tuple[str, ...]
    arms: tuple[str, ...]
    value: float | None = None
    reason: str
    next_step: str = ""

    @property
    def line(self) -> str:
        """`page-3, table 1: 0.0000, LaTeXML is not installed. Install latexml.`"""
        place = f"{self.sample_id}, {self.element}" if self.element else self.sample_id
        value = "not scored" if self.value is None else f"{self.value:.4f}"
        end = "" if self.reason.endswith((".", "!", "?")) else "."
        next_step = f" {self.next_step}" if self.next_step else ""
        return f"{place} ({', '.join(self.metrics)}): {value}, {self.reason}{end}{next_step}"


def score_notes(scores: Iterable[ScoreRecord]) -> tuple[ScoreNote, ...]:
    """All notes, by sample and element; equal ones of several strategies and metrics once."""
    found: dict[tuple[str, str, str], list[tuple[ScoreRecord, Note]]] = {}
    for score in scores:
        for note in score.notes:
            found.setdefault((score.sample_id, note.element, note.reason), []).append((score, note))
    return tuple(
        ScoreNote(
            sample_id=sample_id,
            element=element,
            metrics=tuple(dict.fromkeys(score.metric for score, _ in own)),
            arms=tuple(dict.fromkeys(score.arm for score, _ in own)),
            value=own[0][1].value,
            reason=reason,
            next_step=own[0][1].next_step,
        )
        for (sample_id, element, reason), own in sorted(found.items(), key=lambda item: item[0])
    )


def note_lines(notes: Sequence[ScoreNote]) -> list[str]:
    """The first three notes as lines, and how many more."""
    lines = [f"scorer: {note.line}" for note in notes[:SHOWN_NAMES]]
    more = len(notes) - len(lines)
    return [*lines, f"scorer: and {more} more notes; --json lists all"] if more > 0 else lines
