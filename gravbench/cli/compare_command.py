"""`gravbench compare`: what differs in a sentence a strategy, then the tables behind it. No colour needed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.bootstrap import METHOD, Interval
from gravbench.analysis.comparison import (
    ArmComparison,
    Comparison,
    FieldDifference,
    compare_one,
    compare_runs,
)
from gravbench.analysis.identity import Audit
from gravbench.analysis.loaded import IMPORTED, LoadedRun, named, note_lines
from gravbench.analysis.quality import QualityDifference, is_composite, label_of
from gravbench.analysis.results import are_results, load_results
from gravbench.analysis.run_analysis import AnalysisOptions, ArmAnalysis, RunAnalysis
from gravbench.analysis.speed import SpeedEstimate
from gravbench.arms import AR, batch_of, is_ar
from gravbench.cli.output import print_json, print_tables, rich_table, say_error
from gravbench.cli.report_page import check_page, write_page
from gravbench.cli.run_loading import (
    load_with_facts,
    paired_arms,
    read_forward_costs,
    refuse_result_options,
    refuse_run_options,
    set_up_referee,
)
from gravbench.cli.summary_table import machine_lines, timed_name
from gravbench.cli.verdict_verbs import Compare
from gravbench.errors import NotComparableError, UsageError
from gravbench.options import ErrorLimit, parse_error_limit
from gravbench.reporting import breakdown
from gravbench.reporting.definitions import counter_words
from gravbench.reporting.tables import Table, interval, signed
from gravbench.store.schema import canonical_json

A, B = "A", "B"
SHOWN_FIELDS = 12
SHOWN_DIFFERENCES = 5
SHOWN_GROUP_SIZE = 5


def comparison_parts(comparison: Comparison, *, by: Sequence[str] = ()) -> list[RenderableType]:
    """Everything `gravbench compare` prints, top to bottom; tables of the attributes `by` in place of the
    overview of groups."""
    parts: list[RenderableType] = []
    if comparison.not_comparable:
        parts.append(Text("NOT COMPARABLE (forced): " + "; ".join(comparison.not_comparable), style="red"))
    parts += [Text(line, style="red") for line in failed_lines(comparison)]
    if comparison.own is None:
        return [*parts, *_run_parts(comparison.base, by), *_null(comparison), *_notes([comparison.base])]
    own = comparison.own
    if by:
        raise UsageError(
            f"--by {by[0]}: of strategies of one run, or of results of gravbench omnidoc; these are two runs",
            hint="Compare each run alone, or bring both into one run: gravbench import.",
        )
    parts += [_named(A, comparison.base), _named(B, own)]
    parts += [Text(_sentence(arm, comparison), style="bold") for arm in comparison.arms]
    parts += _data(comparison.base, f"data of {A}") + _data(own, f"data of {B}")
    parts += _fields("settings", comparison.settings) + _fields("environment", comparison.environment)
    quality = [(breakdown.pair_name(arm), arm.quality) for arm in comparison.arms]
    parts += _table(breakdown.difference_table(quality, base=A, own=B), whole=(1,))
    parts += _table(breakdown.ratio_table(comparison.arms, base=A, own=B), whole=(1,))
    for arm in comparison.arms:
        if arm.identity is not None:
            parts += _audit_lines(f"{breakdown.pair_name(arm)}, {B} against {A}", arm.identity)
    parts += _null(comparison)
    for label, analysis in ((A, comparison.base), (B, own)):
        parts.append(Text(f"inside {label}, against its own ar", style="bold"))
        parts += _speed(analysis)
    return [*parts, _legend([comparison.base, own]), *_notes([comparison.base, own])]


def failed_lines(comparison: Comparison) -> list[str]:
    """What a reader must know first: how many samples of a run failed, by strategy."""
    lines = []
    for analysis in (comparison.base, *([comparison.own] if comparison.own else [])):
        failed = [f"{arm.failed} of {arm.n} in {arm.arm}" for arm in analysis.arms if arm.failed]
        if failed:
            lines.append(f"FAILED samples: {', '.join(failed)}; they score worst ({analysis.run})")
    return lines


def _named(label: str, analysis: RunAnalysis) -> Text:
    model = f", model {analysis.model}" if analysis.model else ""
    return Text(f"{label}: {analysis.run}{model}", style="bold")


def _by(judged: Sequence[ArmAnalysis], attributes: Sequence[str]) -> list[RenderableType]:
    """Tables of the attributes; `UsageError` for one that no sample and no element has."""
    parts: list[RenderableType] = []
    for attribute in attributes:
        found = [t for arm in judged for t in _table(breakdown.attribute_table(arm.arm, arm, attribute))]
        if not found:
            raise UsageError(
                f"--by {attribute}: nothing here has this attribute, or it has one value alone",
                hint=f"Attributes of these samples: {', '.join(_attributes(judged)) or 'none'}.",
            )
        parts += found
    return parts


def _attributes(judged: Sequence[ArmAnalysis]) -> list[str]:
    return list(dict.fromkeys(g.kind.partition(" of ")[0] for arm in judged for g in arm.groups))


def _run_parts(analysis: RunAnalysis, by: Sequence[str]) -> list[RenderableType]:
    clusters = "" if analysis.n_clusters == analysis.n_samples else f" in {analysis.n_clusters} pages"
    title = f"{analysis.run}: {analysis.suite}, {analysis.n_samples} samples{clusters}"
    parts: list[RenderableType] = [Text(title, style="bold"), *_data(analysis, "data")]
    judged = [arm for arm in analysis.arms if arm.identity is not None or (arm.lossy and arm.base)]
    if not judged:
        parts.append(Text("no ar arm beside another: nothing to hold a strategy against"))
    for arm in judged:
        parts += [Text(line) for line in _verdict_lines(arm)]
    parts += _speed(analysis)
    quality = [(arm.arm, arm.quality) for arm in judged]
    own = judged[0].arm if len(judged) == 1 else "strategy's"
    parts += _table(breakdown.difference_table(quality, base=breakdown.base_of(judged), own=own), whole=(1,))
    if _decoded(analysis):
        counters = breakdown.counter_table((arm.arm, arm, None) for arm in analysis.arms)
        parts += _table(counters, whole=(1, 2, 3))
    for arm in judged:
        name = timed_name(arm.arm, arm.speed_base)
        if _decoded(analysis) and not by:
            parts += _table(breakdown.group_table(name, arm, at_least=SHOWN_GROUP_SIZE))
        parts += [Text(line) for line in machine_lines(arm)]
        if arm.identity is not None:
            parts += _audit_lines(f"{arm.arm} against {arm.base or AR}", arm.identity)
    parts += _by(judged, by)
    if judged and not (by or _decoded(analysis)):
        parts.append(Text(f"more with --by: {', '.join(_attributes(judged))}"))
    return [*parts, _legend([analysis])]


def _data(analysis: RunAnalysis, name: str) -> list[RenderableType]:
    return [] if analysis.data is None else [Text(f"{name}: {analysis.data.label}", style="bold")]


def _table(given: Table | None, *, whole: Sequence[int] = ()) -> list[RenderableType]:
    return [] if given is None else [rich_table(given, whole=whole)]


def _speed(analysis: RunAnalysis) -> list[RenderableType]:
    speeds = breakdown.speed_table((timed_name(a.arm, a.speed_base), a) for a in analysis.arms)
    memory = analysis.peak_memory
    return [*_table(speeds), *([] if memory is None else [Text(f"peak memory: {memory}")])]


def _verdict_lines(arm: ArmAnalysis) -> list[str]:
    audit, base, over = arm.identity, arm.base or AR, arm.speed_base or AR
    lines = []
    if audit is not None:
        lines.append(f"{arm.arm}: {same_tokens(audit, as_=base)}.")
    lines += [f"{arm.arm}: {own.words}." for own in arm.certificates or ()]
    if arm.lossy:
        unknown = "" if arm.quality else ", and its quality was not measured"
        lines.append(f"{arm.arm}: lossy by design, judged by quality{unknown}.")
    if arm.decode is not None:
        request = f", {_times(arm.request, over)} for whole requests" if arm.request else ""
        page = f", {_times(arm.page, over)} for whole pages" if arm.page else ""
        lines.append(
            f"{arm.arm}: {_times(arm.decode, over)} in decoding{request}{page}; {arm.decode.n_pairs} pairs."
        )
    for name, d in arm.quality.items():
        if is_composite(name):
            lines.append(f"{arm.arm}: {label_of(name)} {signed(d)} points over {base}{_made_of(d)}.")
    return lines


def _sentence(arm: ArmComparison, comparison: Comparison) -> str:
    assert comparison.own is not None
    speeds = _decode(comparison.base, arm.base_arm), _decode(comparison.own, arm.own_arm)
    return breakdown.pair_sentence(arm, base=A, own=B, speeds=speeds).replace("×", "x")


def _decode(analysis: RunAnalysis, name: str) -> Interval | None:
    return next((arm.decode for arm in analysis.arms if arm.arm == name), None)


def same_tokens(audit: Audit, *, as_: str = "") -> str:
    """`same tokens as ar on 13 of 14 samples; text differs on 1 with the same tokens (assembly)`."""
    whom = f" as {as_}" if as_ else ""
    if audit.by_text:
        counted = "" if audit.by_text == audit.compared else f" (text alone on {audit.by_text})"
        return f"same text{whom} on {audit.identical} of {audit.compared} samples{counted}"
    text = f"; text differs on {audit.assembly} with the same tokens (assembly)" if audit.assembly else ""
    return f"same tokens{whom} on {audit.identical} of {audit.compared} samples{text}"


def _audit_lines(title: str, audit: Audit) -> list[RenderableType]:
    if audit.spotless:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in audit.classes.items())
    judged = f"referee's tau {audit.tau:g}" if audit.refereed else "no referee asked: --referee MODEL"
    if audit.by_text == audit.compared:
        judged = "texts alone were compared"
    tokens = "" if audit.by_text == audit.compared else f"same tokens in {audit.identical}, "
    lines: list[RenderableType] = [
        Text(
            f"{title}: {len(audit.differences)} of {audit.compared} differ ({kinds}); "
            f"{tokens}same text in {audit.same_text}; {judged}"
        )
    ]
    for d in audit.differences[:SHOWN_DIFFERENCES]:
        gap = f", gap {d.opinion.gap:.2g}" if d.opinion else ""
        where = f"{d.sample_id}#{d.region_id}" if d.region_id else d.sample_id
        if d.kind == "text":
            lines.append(Text(f"  {where}: character {d.index}: {d.base_text!r} against {d.own_text!r}"))
            continue
        lines.append(
            Text(
                f"  {where}: token {d.index}, {d.base_id} against {d.own_id}, {d.kind}{gap}: "
                f"{d.base_text!r} against {d.own_text!r}"
            )
        )
    hidden = len(audit.differences) - SHOWN_DIFFERENCES
    return [*lines, Text(f"  and {hidden} more; --json lists all")] if hidden > 0 else lines


def _null(comparison: Comparison) -> list[RenderableType]:
    audit = comparison.null
    if audit is None and any(is_ar(arm.base_arm) and is_ar(arm.own_arm) for arm in comparison.arms):
        return []  # the sentence and the audit of that pair have said it
    if audit is None:
        if not any(map(is_ar, (arm.arm for arm in comparison.base.arms))):
            return []
        return [
            Text("AR against AR: not measured; compare with a second run of the same model for the null.")
        ]
    lines: list[RenderableType] = [Text(f"AR against AR ({comparison.null_setting}): {same_tokens(audit)}.")]
    return [*lines, *_audit_lines("ar against ar", audit)]


def _fields(what: str, differences: Sequence[FieldDifference]) -> list[RenderableType]:
    if not differences:
        return [Text(f"{what}: equal")]
    parts = _table(breakdown.field_table(what, differences[:SHOWN_FIELDS], base=A, own=B))
    hidden = len(differences) - SHOWN_FIELDS
    return [*parts, Text(f"and {hidden} more; --json lists all")] if hidden > 0 else parts


def _notes(analyses: Iterable[RunAnalysis]) -> list[RenderableType]:
    listed = list(analyses)
    noted = [f"note: {note}" for note in dict.fromkeys(n for a in listed for n in a.notes)]
    scored = [line for a in listed for line in note_lines(a.score_notes)]
    return [Text(line) for line in (*noted, *dict.fromkeys(scored))]


def _decoded(analysis: RunAnalysis) -> bool:
    """Whether any strategy told what decoding took; texts of other programs do not."""
    return any(arm.counters for arm in analysis.arms)


def _legend(analyses: Sequence[RunAnalysis]) -> Text:
    batches = any(batch_of(arm.arm) > 1 for analysis in analyses for arm in analysis.arms)
    over = "samples or pages, of crop times in batches over batches" if batches else "samples or pages"
    same = ", of ar at the same batch size (ar:batch=N: over ar, the gain of batching)" if batches else ""
    if not any(map(_decoded, analyses)):
        how = f"95% bootstrap over samples or pages, {METHOD}; none on fewer than five of them"
        return Text(f"Brackets: {how}. sign-flip p: two-sided, of random signs of what changed.", style="dim")
    return Text(
        f"Speedup = sum of ar times / sum of the strategy's times over pairs{same}. "
        f"{counter_words('tpf_all', 'tau_round', 'accepted_draft')} "
        f"Brackets: 95% bootstrap over {over}, {METHOD}; none on fewer than five of them. "
        "Same tokens = equal token ids and stop reason.",
        style="dim",
    )


def _times(speed: SpeedEstimate, base: str) -> str:
    """`2.1x [1.9, 2.3] as fast as ar`, and a word where no difference was seen."""
    if speed.low is None or speed.high is None:
        word = " (too few pairs to tell a difference)"
    else:
        word = " (the interval holds 1: no difference seen)" if speed.low <= 1 <= speed.high else ""
    return f"{interval(speed, 'x')} as fast as {base}{word}"


def _made_of(d: QualityDifference) -> str:
    """How many samples each component of a composite rests on."""
    if d.parts is None:
        return ""
    return f" ({', '.join(f'{label_of(metric)} on {n}' for metric, n in d.parts.items())})"


def compare(given: Compare) -> int:
    """Print the comparison; 0 whatever it shows. Unlike suites are exit 3, as are more failed samples than
    `max_errors` allows."""
    limit = parse_error_limit(given.max_errors)
    check_page(given.report)
    paths = (given.base,) if given.own is None else (given.base, given.own)
    costs = read_forward_costs(given.forward_cost)
    options = AnalysisOptions(seed=given.seed, resamples=given.resamples, forward_costs=costs)
    if are_results(paths):
        arms = given.base_arm or given.own_arm
        refuse_run_options(paths, referee=given.referee, arms=arms, forward_cost=given.forward_cost)
        if given.own is None:
            raise UsageError(
                f"{given.base}: one result of gravbench omnidoc; name the second",
                hint="gravbench compare A.json B.json; gravbench report A.json shows one alone.",
            )
        found = load_results(paths, force=given.force)
        comparison = compare_one(found.run, options).model_copy(update={"not_comparable": found.problems})
        runs = [found.run]
    else:
        refuse_result_options(data=given.data)
        runs = [load_with_facts(path) for path in paths]
        comparison = _compared(runs, options, given)
    parts = comparison_parts(comparison, by=given.by or ())
    if given.json:
        print_json(canonical_json(comparison.model_dump(mode="json", by_alias=True, exclude_none=True)))
    else:
        print_tables(*parts)
    if given.report is not None:
        write_page(
            paths,
            given.report,
            command=given.command,
            seed=given.seed,
            say=not given.json,
            resamples=given.resamples,
            referee=given.referee,
            forward_cost=given.forward_cost,
            data=given.data,
            arms=paired_arms(given.base_arm, given.own_arm, runs),
        )
    return _exit_code(runs, limit)


def _compared(runs: Sequence[LoadedRun], options: AnalysisOptions, given: Compare) -> Comparison:
    arms = paired_arms(given.base_arm, given.own_arm, runs)
    with tempfile.TemporaryDirectory(prefix="gravbench-crops-") as crops:
        setup = set_up_referee(given.referee, runs[0], crops=Path(crops))
        judged = replace(options, referee=setup.referee, tau=setup.tau)
        if len(runs) == 1:
            return compare_one(runs[0], judged)
        return compare_runs(runs[0], runs[1], judged, arms=arms, force=given.force)


def _exit_code(runs: Sequence[LoadedRun], limit: ErrorLimit) -> int:
    """0, or 3 with its error line for the first run in which more samples failed than allowed."""
    for run in runs:
        failed = sorted({u.sample_id for u in run.units for r in u.records.values() if r.status != "ok"})
        n = len({unit.sample_id for unit in run.units})
        if limit.exceeded(len(failed), n):
            say_error(
                f"{run.name}: {len(failed)} of {n} samples failed, more than --max-errors {limit} allows",
                f"{named(failed)}. They score worst in every table above. {_next_step(run)}",
            )
            return NotComparableError.exit_code
    return 0


def _next_step(run: LoadedRun) -> str:
    if run.manifest.identity.backend == IMPORTED:
        return "Complete the predictions and bring them in again, or allow more with --max-errors."
    return f"When the cause is mended: {run.manifest.command} --retry-failed"
