"""The summary document, `gravbench.summary/1`: what `--json` prints and `summary.json` holds.

Other tools may rely on it. A key that is absent was not measured. Fields are only ever added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, JsonValue

from gravbench.analysis.bootstrap import CONFIDENCE, METHOD, RESAMPLES, Design
from gravbench.analysis.counters import (
    CounterSummary,
    at_acceptance_floor,
    hidden_notes,
    summarise_counters,
    tells_nothing,
)
from gravbench.analysis.groups import Attributes, GroupQuality, WordOrder, quality_groups, word_order
from gravbench.analysis.identity import Identity, count_differing_repeats, count_identical
from gravbench.analysis.load import Load, load_of
from gravbench.analysis.loaded import (
    SampleFacts,
    ScoreNote,
    Unit,
    data_losses,
    design_for,
    import_notes,
    is_lossy,
    memory_words,
    named,
    peak_memory,
    plain_facts,
    score_notes,
)
from gravbench.analysis.quality import QualityDifference, quality_differences
from gravbench.analysis.speed import Speedup, TimeOf, decode_ns, request_ns, speed_notes, speedup, sub_design
from gravbench.analysis.stages import PagesSummary, page_ns, summarise_pages
from gravbench.arms import AR, batch_of, is_ar, speed_base, text_base
from gravbench.records import SAMPLE_TASKS, PeakMemory, Record, SampleTask
from gravbench.scorers.contract import Metric
from gravbench.store.schema import GenRecord, Manifest, ScoreRecord, StoredRecord, canonical_json, sha256_of

SHOWN_FAILURES = 3


class Speedups(Record):
    """Ratios of sums against `ar` at the same batch size, of `ar:batch=N` against plain `ar`: `decode` over
    decode rounds alone, `request` over whole requests, `page` over whole pages."""

    decode: Speedup | None = None
    request: Speedup | None = None
    page: Speedup | None = None


class TaskSummary(Record):
    """One strategy on the samples of one task."""

    n_samples: int
    quality: dict[str, float]
    scored: dict[str, int] = Field(default_factory=dict)
    """Metric -> scored samples, failed ones among them: what `quality` is the mean of."""
    counters: CounterSummary | None = None
    """Absent where the answers are imports that tell none."""
    identical_to_ar: Identity | None = None
    speedup: Speedups | None = None
    failed: int
    """Answers that failed, of every repeat."""
    lossy: Literal[True] | None = None
    """Its tokens may differ from those of `ar` by design: identity is no question. Absent for exact ones."""
    differing_repeats: int | None = None
    """Samples whose tokens or stop reason differ between repeats; absent where nothing is repeated."""


class StrategySummary(TaskSummary):
    """One strategy on the whole suite, and by task."""

    by_task: dict[SampleTask, TaskSummary]
    base: str | None = None
    """The arm that identity is measured against. Left out where a strategy without a batch has plain `ar`."""
    speed_base: str | None = None
    """The arm that speedups are measured against. Left out likewise, and where there are no speedups."""
    quality_difference: dict[str, QualityDifference] | None = None
    """own - ar in points with paired intervals; absent for strategies that verify exactly."""
    pages: PagesSummary | None = None
    """Regions, stages and the Amdahl split of a strategy on pages; absent without pages."""
    peak_memory: PeakMemory | None = None
    """While its answers were made; absent where it was not measured."""
    load: Load | None = None
    """Throughput and latency of servers; absent for what ran here."""


class BootstrapInfo(Record):
    """How the intervals were made: the design is the one that comparisons and reports use."""

    method: str = f"paired bootstrap, clustered by page and stratified by subset and task, {METHOD}"
    resamples: int = RESAMPLES
    confidence: float = CONFIDENCE
    seed: int


class Summary(StoredRecord):
    """The whole document; `strategies` is keyed by the strategy string as given."""

    schema_id: Literal["gravbench.summary/1"] = Field(default="gravbench.summary/1", alias="schema")
    suite: str
    n_samples: int
    strategies: dict[str, StrategySummary]
    suite_version: JsonValue = None
    suite_sha: str
    model: dict[str, JsonValue]
    signatures: dict[str, str]
    metrics: dict[str, Metric] = Field(default_factory=dict)
    """What each number of `quality` is: label, unit, direction, range, definition, signature, parts."""
    groups: dict[str, list[GroupQuality]] | None = None
    """Quality by kind of crop, unseen fonts and random letters; absent for suites that mark none."""
    word_order: dict[str, dict[str, WordOrder]] | None = None
    """Text as written against its words shuffled; absent for suites without such pairs."""
    data: dict[str, JsonValue] | None = None
    """Which copy of the page data was run; absent for suites without pages."""
    bootstrap: BootstrapInfo
    sessions: int
    score_notes: tuple[ScoreNote, ...] = ()
    """What the scorers say of single elements: sample, element, value, reason, next step."""
    remarks: tuple[str, ...] | None = None
    """What a scorer says of a strategy beside its averages; absent where it says nothing."""
    failed_samples: int
    """Samples that failed in at least one strategy."""
    failures: dict[str, str] | None = None
    """Why the first three failed samples failed, by sample id; absent when none did."""
    warnings: tuple[str, ...]
    peak_memory: str | None = None
    """Peaks of all strategies in words, or why there are none; absent for imports, which nothing ran."""
    run_id: str
    run_dir: str
    gravbench_version: str
    inputs_sha: str
    """Hash over manifest identity, predictions and scores: what this document was derived from."""


Pairs = Sequence[Mapping[str, GenRecord]]
QualityOf = Callable[[Iterable[ScoreRecord]], dict[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bases:
    """The arms that one arm is held against, if there are any."""

    identity: str | None
    speed: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What every part of a summary reads."""

    units: tuple[Unit, ...]
    facts: Mapping[str, SampleFacts] | None
    quality_of: QualityOf
    seed: int
    lossy: frozenset[str]
    served: bool

    @property
    def design(self) -> Design:
        """Clusters and strata of the rows `units`."""
        known = self.facts or {}
        missing = {unit.sample_id for unit in self.units} - set(known)
        return design_for(self.units, {**plain_facts(missing), **known})


def build_summary(
    manifest: Manifest,
    pairs: Pairs,
    scores: Sequence[ScoreRecord],
    *,
    metrics: Mapping[str, Metric],
    quality_of: QualityOf,
    run_dir: str,
    version: str,
    attributes: Attributes | None = None,
    facts: Mapping[str, SampleFacts] | None = None,
    remarks: Sequence[str] = (),
) -> Summary:
    """Derive the summary of one finished run.

    `pairs` holds, per sample and sorted by sample and rep, the record of every arm. `facts` say which samples
    lie on one page and in which subset; without them every sample is drawn on its own.
    """
    seed = manifest.identity.seed
    arms = manifest.arms
    lossy = frozenset(arm for arm in arms if is_lossy(manifest.protocol, arm))
    run = _Run(
        units=_units(pairs),
        facts=facts,
        quality_of=quality_of,
        seed=seed,
        lossy=lossy,
        served=manifest.protocol.get("served") is True,
    )
    strategies = {arm: _strategy(arm, run, scores, bases=_bases(arm, arms)) for arm in arms}
    n_samples = len({unit.sample_id for unit in run.units})
    failed = len({u.sample_id for u in run.units if any(r.status != "ok" for r in u.records.values())})
    failures = _failures(pairs)
    return Summary(
        suite=manifest.identity.suite,
        n_samples=n_samples,
        strategies=strategies,
        suite_version=manifest.identity.suite_version,
        suite_sha=manifest.identity.suite_sha,
        model=manifest.model,
        signatures={name: metric.signature for name, metric in metrics.items()},
        metrics=dict(metrics),
        data=_data(manifest),
        groups=quality_groups(scores, attributes or {}),
        word_order=word_order(scores, attributes or {}),
        bootstrap=BootstrapInfo(seed=seed),
        sessions=len({record.session_id for pair in pairs for record in pair.values()}),
        score_notes=score_notes(scores),
        remarks=tuple(remarks) or None,
        failed_samples=failed,
        failures=failures or None,
        warnings=(
            *data_losses(manifest.protocol),
            *import_notes(manifest.protocol),
            *_model_warnings(manifest),
            *_warnings(strategies, failed=failed, failures=failures, n_samples=n_samples),
            *_looping(run.units, arms),
            *hidden_notes([unit.records[arm] for unit in run.units] for arm in arms),
        ),
        peak_memory=memory_words(manifest.protocol, {arm: s.peak_memory for arm, s in strategies.items()}),
        run_id=manifest.run_id,
        run_dir=run_dir,
        gravbench_version=version,
        inputs_sha=_inputs_sha(manifest, pairs, scores),
    )


def summary_json(summary: Summary) -> bytes:
    """The document as one line of JSON; values that were not measured are left out."""
    return canonical_json(summary.model_dump(mode="json", by_alias=True, exclude_none=True))


def _units(pairs: Pairs) -> tuple[Unit, ...]:
    firsts = [next(iter(pair.values())) for pair in pairs]
    return tuple(
        Unit(sample_id=first.sample_id, rep=first.rep, task=first.task, records=pair)
        for first, pair in zip(firsts, pairs, strict=True)
    )


def _strategy(arm: str, run: _Run, scores: Sequence[ScoreRecord], *, bases: Bases) -> StrategySummary:
    own_scores = [score for score in scores if score.arm == arm]
    rows_of = {task: [i for i, unit in enumerate(run.units) if unit.task == task] for task in SAMPLE_TASKS}
    by_task = {
        task: _task(arm, run, rows, [score for score in own_scores if score.task == task], bases=bases)
        for task, rows in rows_of.items()
        if rows
    }
    on_pages = [run.units[i].records for i in rows_of["page"]]
    return StrategySummary(
        **dict(_task(arm, run, range(len(run.units)), own_scores, bases=bases)),
        by_task=by_task,
        base=_unless_plain(bases.identity, arm),
        speed_base=_unless_plain(bases.speed, arm),
        quality_difference=_quality_difference(arm, bases.identity, run, scores),
        pages=summarise_pages(on_pages, arm, base=bases.speed)
        if any(not pair[arm].imported for pair in on_pages)
        else None,
        peak_memory=peak_memory(unit.records[arm] for unit in run.units),
        load=load_of([unit.records[arm] for unit in run.units]) if run.served else None,
    )


def _quality_difference(
    arm: str, base: str | None, run: _Run, scores: Sequence[ScoreRecord]
) -> dict[str, QualityDifference] | None:
    """Of a lossy arm against its `ar`; `None` for the others."""
    if base is None or arm not in run.lossy:
        return None
    found: dict[tuple[str, int, str], list[ScoreRecord]] = {}
    for score in scores:
        found.setdefault((score.sample_id, score.rep, score.arm), []).append(score)
    own, against = (
        [tuple(found.get((unit.sample_id, unit.rep, one), ())) for unit in run.units] for one in (arm, base)
    )
    return quality_differences(against, own, design=run.design, seed=run.seed, resamples=RESAMPLES)


def _bases(arm: str, arms: Sequence[str]) -> Bases:
    return Bases(identity=text_base(arm, arms), speed=speed_base(arm, arms))


def _unless_plain(base: str | None, arm: str) -> str | None:
    """`base`, but for the one that goes without saying: plain `ar` for an arm without a batch."""
    return None if base == AR and batch_of(arm) == 1 else base


def _task(
    arm: str, run: _Run, rows: Sequence[int], scores: Sequence[ScoreRecord], *, bases: Bases
) -> TaskSummary:
    units = [run.units[i] for i in rows]
    records = [unit.records[arm] for unit in units]
    against = [(unit.records[bases.identity], unit.records[arm]) for unit in units if bases.identity]
    return TaskSummary(
        n_samples=len({unit.sample_id for unit in units}),
        quality=run.quality_of(scores),
        scored=_scored(scores),
        counters=None if tells_nothing(records) else summarise_counters(records),
        identical_to_ar=count_identical(against) if against and arm not in run.lossy else None,
        speedup=_speedups(arm, run, rows, base=bases.speed) if bases.speed and units else None,
        failed=sum(record.status != "ok" for record in records),
        lossy=True if arm in run.lossy else None,
        differing_repeats=count_differing_repeats(records),
    )


def _speedups(arm: str, run: _Run, rows: Sequence[int], *, base: str) -> Speedups:
    units, design = [run.units[i] for i in rows], sub_design(run.design, rows)

    def over_base(time_of: TimeOf) -> Speedup | None:
        return speedup(units, base, arm, time_of, design=design, seed=run.seed)

    return Speedups(decode=over_base(decode_ns), request=over_base(request_ns), page=over_base(page_ns))


def _model_warnings(manifest: Manifest) -> list[str]:
    given = manifest.model.get("warnings")
    return [str(text) for text in given] if isinstance(given, list) else []


def _failures(pairs: Pairs) -> dict[str, str]:
    """Sample -> reason, of the first three that failed in any strategy."""
    found: dict[str, str] = {}
    for pair in pairs:
        reasons = [record.error.message for record in pair.values() if record.error is not None]
        if reasons and len(found) < SHOWN_FAILURES:
            found[next(iter(pair.values())).sample_id] = reasons[0]
    return found


def _warnings(
    strategies: Mapping[str, StrategySummary], *, failed: int, failures: Mapping[str, str], n_samples: int
) -> list[str]:
    found = []
    bases = {strategy.base for strategy in strategies.values() if strategy.identical_to_ar is not None}
    if not any(is_ar(arm) for arm in strategies):
        shown = f"; text is held against {', '.join(b for b in bases if b)}, the first" if bases else ""
        found.append(f"no `ar` arm: speedups were not measured{shown}")
    found += speed_notes(strategies)
    if failed:
        found.append(f"{failed} of {n_samples} samples failed; they score worst and stay in every mean")
        found += [f"{sample}: {reason}" for sample, reason in failures.items()]
        found += [f"and {failed - len(failures)} more failed samples"] if failed > len(failures) else []
    for arm, strategy in strategies.items():
        counters = strategy.counters
        if counters is not None and at_acceptance_floor(counters):
            found.append(
                f"{arm}: acceptance is at its floor ({counters.draft_accepted} of {counters.draft_offered} "
                f"draft tokens accepted, {counters.accepted_draft or 0:.2f} a round): mask_id in "
                "block_diffusion.json may be wrong, or the checkpoint was not trained to draft"
            )
        identity = strategy.identical_to_ar
        if identity is not None and identity.n < identity.of:
            base = strategy.base or AR
            what = "text" if identity.by_text else "tokens"
            found.append(
                f"{arm}: {identity.of - identity.n} of {identity.of} outputs have other {what} than {base}"
            )
        if strategy.differing_repeats:
            found.append(
                f"{arm}: {strategy.differing_repeats} of {n_samples} "
                "samples have other tokens in another repeat"
            )
    return found


def _scored(scores: Iterable[ScoreRecord]) -> dict[str, int]:
    samples = {(score.metric, score.sample_id) for score in scores if score.value is not None}
    return dict(sorted(Counter(metric for metric, _ in samples).items()))


def _looping(units: Sequence[Unit], arms: Sequence[str]) -> list[str]:
    """Samples whose output repeats itself, by strategy: the first three by name and how many more."""
    found = []
    for arm in arms:
        looping = [unit.sample_id for unit in units if unit.records[arm].loop_flag]
        if looping:
            ids = named(list(dict.fromkeys(looping)))
            found.append(f"{arm}: {len(looping)} outputs contain a repetition loop: {ids}")
    return found


def _inputs_sha(manifest: Manifest, pairs: Pairs, scores: Sequence[ScoreRecord]) -> str:
    generations = sorted(
        (r.sample_id, r.arm, r.rep, r.attempt, r.session_id, r.text_sha)
        for pair in pairs
        for r in pair.values()
    )
    values = sorted((s.sample_id, s.arm, s.rep, s.metric, s.signature, s.value) for s in scores)
    return sha256_of([manifest.identity_sha, generations, values])


def _data(manifest: Manifest) -> dict[str, JsonValue] | None:
    value = manifest.protocol.get("data")
    return value if isinstance(value, dict) else None
