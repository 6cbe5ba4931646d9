"""Two runs, sample by sample: what differs in setting, text, quality, counts and speedups.

Seconds of different runs are never compared; a speedup is a ratio inside one run, and only such ratios meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from pydantic import ConfigDict, Field, JsonValue

from gravbench.analysis.bootstrap import Design, Floats, Interval, bootstrap, bootstraps, divided
from gravbench.analysis.identity import Audit, audit
from gravbench.analysis.loaded import LoadedRun, Unit, design_for, is_lossy
from gravbench.analysis.pieces import (
    COUNTER_RATIOS,
    CounterTable,
    counter_table,
    paired_ratio,
)
from gravbench.analysis.quality import QualityDifference, quality_differences
from gravbench.analysis.run_analysis import AnalysisOptions, ArmAnalysis, RunAnalysis, analyse_run
from gravbench.analysis.speed import decode_ns
from gravbench.arms import ar_arms, batch_of, is_ar, speed_base
from gravbench.errors import NotComparableError
from gravbench.records import Record
from gravbench.store.schema import GenRecord, canonical_json

SAME_QUESTION = (
    "suite",
    "suite_version",
    "suite_sha",
    "samples_sha",
    "references_sha",
    "n_samples",
    "prompts",
    "max_new_tokens",
    "scorer",
    "assembler",
    "layout",
    "crop_grid",
)
"""Fields of a run's identity that must agree for two runs to answer the same question."""

ENVIRONMENT_FIELDS = ("gravbench", "git", "python", "os", "cpu", "host_sha", "variables")
SHOWN_CHARACTERS = 90


class FieldDifference(Record):
    """One field with another value on each side, as short JSON."""

    field: str
    base: str
    own: str


def identity_differences(
    base: Mapping[str, JsonValue], own: Mapping[str, JsonValue], fields: tuple[str, ...] | None = None
) -> tuple[FieldDifference, ...]:
    """Differing fields, sorted; all of both sides when `fields` is `None`."""
    names = sorted({*base, *own}) if fields is None else fields
    return tuple(
        FieldDifference(field=name, base=_short(base.get(name)), own=_short(own.get(name)))
        for name in names
        if base.get(name) != own.get(name)
    )


def environment_differences(base: LoadedRun, own: LoadedRun) -> tuple[FieldDifference, ...]:
    """Differences of code version, machine and packages."""
    a, b = base.manifest.environment, own.manifest.environment
    machine = identity_differences(a, b, ENVIRONMENT_FIELDS)
    packages_a, packages_b = (e.get("packages") for e in (a, b))
    if not isinstance(packages_a, dict) or not isinstance(packages_b, dict):
        return machine
    packages = identity_differences(packages_a, packages_b)
    return (*machine, *(d.model_copy(update={"field": f"package {d.field}"}) for d in packages))


def sample_problem(base: frozenset[str], own: frozenset[str]) -> str | None:
    """Missing and extra sample ids in words; `None` when both sides have the same."""
    parts = [
        f"{len(ids)} sample{'s' if len(ids) > 1 else ''} {what}: {_listed(ids)}"
        for what, ids in (("missing", base - own), ("extra", own - base))
        if ids
    ]
    return "; ".join(parts) or None


def _listed(ids: frozenset[str]) -> str:
    shown = sorted(ids)[:5]
    more = f" and {len(ids) - len(shown)} more" if len(ids) > len(shown) else ""
    return ", ".join(shown) + more


def _short(value: JsonValue) -> str:
    text = canonical_json(value).decode("utf-8")
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


class ArmComparison(Record):
    """One strategy in both runs; differences are own - base, ratios own / base.

    `counters` are on common tokens alone, over `comparable` samples. `speedup_ratio` is the own run's decode
    speedup over its `ar` at the same batch size divided by the base run's, on the samples timed in all four.
    Its interval covers the choice of samples alone: two runs are two sessions on machines that drift, so the
    same code run twice can lie outside it. There are no limits where one of the runs drifted or was not
    steady; `speedup_ratio_note` then says so.
    """

    base_arm: str
    own_arm: str
    n: int
    identity: Audit | None = None
    """Absent where one of the two is lossy: equal text is then no claim that anybody makes."""
    lossy: bool = False
    """Whether the tokens of one of the two may differ from those of `ar` by design."""
    quality: dict[str, QualityDifference]
    counters: dict[str, Interval]
    comparable: int
    speedup_ratio: Interval | None
    speedup_ratio_note: str | None = None
    """Why `speedup_ratio` has no limits; absent where it has some, and in documents older than the field."""
    failed: tuple[int, int]
    truncated: tuple[int, int]
    loops: tuple[int, int]


class Comparison(Record):
    """`gravbench.comparison/1`: one run against itself (`own` absent), or two."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.comparison/1"] = Field(default="gravbench.comparison/1", alias="schema")
    base: RunAnalysis
    own: RunAnalysis | None = None
    arms: tuple[ArmComparison, ...] = ()
    null: Audit | None = None
    """AR of one run against AR of the other, same weights and batch size, or the two AR arms of one run: how
    often outputs differ without any drafting."""
    null_setting: str | None = None
    settings: tuple[FieldDifference, ...] = ()
    environment: tuple[FieldDifference, ...] = ()
    not_comparable: tuple[str, ...] = ()
    """Why the numbers do not answer one question; only when the comparison was forced."""


def compare_one(run: LoadedRun, options: AnalysisOptions) -> Comparison:
    """A run against its own AR arm. The null is AR against AR: at another batch size, or repeated."""
    null, setting = _null_inside(run)
    return Comparison(
        base=analyse_run(run, options),
        null=audit(null, referee=options.referee, tau=options.tau) if null else None,
        null_setting=setting,
    )


def compare_runs(
    base: LoadedRun,
    own: LoadedRun,
    options: AnalysisOptions,
    *,
    arms: Sequence[tuple[str, str]] | None = None,
    force: bool = False,
) -> Comparison:
    """`own` against `base`; `arms` pairs strategies, by default equal ones.

    Unlike questions raise `NotComparableError` (exit 3); `force` compares the common samples and says so.
    """
    problems = comparability_problems(base, own)
    if problems and not force:
        raise NotComparableError(
            f"{own.name} and {base.name} are not comparable: " + "; ".join(problems),
            hint="Run both on the same suite and scorer, or add --force to look at the common samples.",
        )
    matched = _matched_arms(base, own, arms)
    pairs = _common_units(base, own)
    if not pairs:
        raise NotComparableError("the runs have no sample in common", hint="Compare runs of one suite.")
    design = design_for([a for a, _ in pairs], base.facts)
    same_model = base.manifest.identity.model_digest == own.manifest.identity.model_digest
    null_arms = _common_ar(base, own) if same_model else None
    analysed = analyse_run(base, options), analyse_run(own, options)
    return Comparison(
        base=analysed[0],
        own=analysed[1],
        arms=tuple(
            _without_drift(_arm(base, own, a, b, pairs, design, options), *analysed) for a, b in matched
        ),
        null=_null_between(pairs, null_arms, options) if null_arms else None,
        null_setting=_null_setting(base, own, batch=batch_of(null_arms[0])) if null_arms else None,
        settings=identity_differences(base.manifest.identity.document(), own.manifest.identity.document()),
        environment=environment_differences(base, own),
        not_comparable=tuple(problems),
    )


def comparability_problems(base: LoadedRun, own: LoadedRun) -> list[str]:
    """Why two runs answer different questions; empty when they answer the same."""
    problems = [
        f"{d.field} is {d.own}, was {d.base}"
        for d in identity_differences(
            base.manifest.identity.document(), own.manifest.identity.document(), SAME_QUESTION
        )
    ]
    samples = sample_problem(base.sample_ids, own.sample_ids)
    return [*problems, *([samples] if samples else [])]


def counter_intervals(table: CounterTable, design: Design, options: AnalysisOptions) -> dict[str, Interval]:
    """Paired ratios own / base of `COUNTER_RATIOS`; absent where nothing was decoded, or accepted."""
    statistics = {name: paired_ratio(*pair) for name, pair in COUNTER_RATIOS.items()}
    return bootstraps(table.columns, statistics, design, seed=options.seed, resamples=options.resamples)


def _arm(
    base: LoadedRun,
    own: LoadedRun,
    base_arm: str,
    own_arm: str,
    pairs: Sequence[tuple[Unit, Unit]],
    design: Design,
    options: AnalysisOptions,
) -> ArmComparison:
    records = [(a.records[base_arm], b.records[own_arm]) for a, b in pairs]
    table = counter_table(records)
    lossy = is_lossy(base.manifest.protocol, base_arm) or is_lossy(own.manifest.protocol, own_arm)
    return ArmComparison(
        base_arm=base_arm,
        own_arm=own_arm,
        n=len(pairs),
        identity=None if lossy else audit(records, referee=options.referee, tau=options.tau),
        lossy=lossy,
        quality=quality_differences(
            [base.scores.get((a.sample_id, a.rep, base_arm), ()) for a, _ in pairs],
            [own.scores.get((b.sample_id, b.rep, own_arm), ()) for _, b in pairs],
            design=design,
            seed=options.seed,
            resamples=options.resamples,
        ),
        counters=counter_intervals(table, design, options) if base_arm == own_arm else {},
        comparable=sum(table.comparable),
        speedup_ratio=_speedup_ratio(pairs, base_arm, own_arm, design, options),
        failed=_count(records, lambda r: r.status != "ok"),
        truncated=_count(records, lambda r: r.stop_reason == "length"),
        loops=_count(records, lambda r: r.loop_flag),
    )


def _speedup_ratio(
    pairs: Sequence[tuple[Unit, Unit]], base_arm: str, own_arm: str, design: Design, options: AnalysisOptions
) -> Interval | None:
    theirs, mine = speed_base(base_arm, pairs[0][0].records), speed_base(own_arm, pairs[0][1].records)
    if is_ar(base_arm) or is_ar(own_arm) or theirs is None or mine is None:
        return None
    columns = np.zeros((len(pairs), 4))
    for row, (a, b) in enumerate(pairs):
        records = (a.records[theirs], a.records[base_arm], b.records[mine], b.records[own_arm])
        times = [decode_ns(record) for record in records if record.status == "ok"]
        if len(times) == 4 and all(times):
            columns[row] = times

    def statistic(sums: Floats) -> Floats:
        return divided(divided(sums[..., 2], sums[..., 3]), divided(sums[..., 0], sums[..., 1]))

    return bootstrap(columns, statistic, design, seed=options.seed, resamples=options.resamples)


def _without_drift(found: ArmComparison, base: RunAnalysis, own: RunAnalysis) -> ArmComparison:
    """The comparison without limits of a speedup ratio that a moving machine would belie."""
    if found.speedup_ratio is None:
        return found
    sides = ("base", base, found.base_arm), ("own", own, found.own_arm)
    moved = [name for name, run, arm in sides if any(a.arm == arm and _moved(a) for a in run.arms)]
    if not moved:
        return found
    note = f"no interval: {' and '.join(moved)} drifted or was not steady"
    bare = Interval(value=found.speedup_ratio.value)
    return found.model_copy(update={"speedup_ratio": bare, "speedup_ratio_note": note})


def _moved(arm: ArmAnalysis) -> bool:
    drifting = arm.drift is not None and arm.drift.drifting
    return drifting or (arm.steadiness is not None and not arm.steadiness.steady)


def _matched_arms(
    base: LoadedRun, own: LoadedRun, arms: Sequence[tuple[str, str]] | None
) -> tuple[tuple[str, str], ...]:
    if arms is None:
        arms = [(arm, arm) for arm in base.arms if arm in own.arms]
        if not arms:
            raise NotComparableError(
                f"no strategy in common: {', '.join(base.arms)} against {', '.join(own.arms)}",
                hint="Pair them by hand: --base-arm STRATEGY --own-arm STRATEGY.",
            )
    for run, arm in [(base, a) for a, _ in arms] + [(own, b) for _, b in arms]:
        if arm not in run.arms:
            raise NotComparableError(f"{run.name}: no strategy {arm!r}, it has {', '.join(run.arms)}")
    return tuple(arms)


def _common_units(base: LoadedRun, own: LoadedRun) -> list[tuple[Unit, Unit]]:
    theirs = {(unit.sample_id, unit.rep): unit for unit in own.units}
    return [(u, theirs[u.sample_id, u.rep]) for u in base.units if (u.sample_id, u.rep) in theirs]


def _common_ar(base: LoadedRun, own: LoadedRun) -> tuple[str, str] | None:
    """The `ar` arm of each run at the smallest batch size that both have one of."""
    pairs = ((a, b) for a in ar_arms(base.arms) for b in ar_arms(own.arms) if batch_of(a) == batch_of(b))
    return next(pairs, None)


def _null_between(
    pairs: Sequence[tuple[Unit, Unit]], arms: tuple[str, str], options: AnalysisOptions
) -> Audit:
    records = [(a.records[arms[0]], b.records[arms[1]]) for a, b in pairs]
    return audit(records, referee=options.referee, tau=options.tau)


def _null_setting(base: LoadedRun, own: LoadedRun, *, batch: int) -> str:
    """What changed between the two AR arms, as far as it can move a float."""
    moving = ("threads", "device", "dtype", "engine")
    a, b = base.manifest.identity.document(), own.manifest.identity.document()
    changed = [name for name in moving if a.get(name) != b.get(name)]
    setting = f"other {', '.join(changed)}" if changed else "same setting, repeated"
    return f"{setting}, batch size {batch}" if batch > 1 else setting


def _null_inside(run: LoadedRun) -> tuple[list[tuple[GenRecord, GenRecord]], str | None]:
    """AR against AR within one run, and what differs between them; nothing where the run has only one AR."""
    found = ar_arms(run.arms)
    if len(found) > 1:
        smallest, largest = found[0], found[-1]
        pairs = [(unit.records[smallest], unit.records[largest]) for unit in run.units]
        return pairs, f"same run, batch size {batch_of(smallest)} and {batch_of(largest)}"
    repeated = _repeated(run, found[0]) if found else []
    return repeated, "same run, repeated" if repeated else None


def _repeated(run: LoadedRun, arm: str) -> list[tuple[GenRecord, GenRecord]]:
    first = {unit.sample_id: unit.records[arm] for unit in run.units if unit.rep == 0}
    return [(first[u.sample_id], u.records[arm]) for u in run.units if u.rep > 0 and u.sample_id in first]


def _count(
    records: Sequence[tuple[GenRecord, GenRecord]], test: Callable[[GenRecord], bool]
) -> tuple[int, int]:
    return sum(test(a) for a, _ in records), sum(test(b) for _, b in records)
