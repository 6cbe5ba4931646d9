"""A comparison as text: three plain sentences a strategy, then the tables behind them. 100 columns, no colour
needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.analysis.bootstrap import METHOD, Interval
from gravbench.analysis.comparison import ArmComparison, Comparison, FieldDifference
from gravbench.analysis.identity import Audit
from gravbench.analysis.quality import QualityDifference, is_composite
from gravbench.analysis.run_analysis import ArmAnalysis, RunAnalysis
from gravbench.analysis.speed import SpeedEstimate
from gravbench.arms import AR, batch_of, is_ar
from gravbench.cli.output import ArmName
from gravbench.cli.summary_table import timed_name

NOT_MEASURED = "-"
SHOWN_FIELDS = 12
SHOWN_DIFFERENCES = 5
SHOWN_GROUP_SIZE = 5
WHOLE = frozenset({"quality, points", "own / base on common tokens"})
"""Columns of words that are never broken; strategies break at their options, numbers and heads at blanks."""


def comparison_parts(comparison: Comparison) -> list[RenderableType]:
    """Everything `gravbench compare` prints, top to bottom."""
    parts: list[RenderableType] = []
    if comparison.not_comparable:
        parts.append(Text("NOT COMPARABLE (forced): " + "; ".join(comparison.not_comparable), style="red"))
    if comparison.own is None:
        return [*parts, *_run_parts(comparison.base), *_null(comparison), *_notes([comparison.base])]
    own = comparison.own
    parts.append(Text(f"base: {comparison.base.run}\nown:  {own.run}", style="bold"))
    for label, analysis in (("base", comparison.base), ("own", own)):
        parts += _data(analysis, f"data of {label}")
    parts += _differences("settings", comparison.settings)
    parts += _differences("environment", comparison.environment)
    parts += [_sentence(arm) for arm in comparison.arms]
    parts += [_pair_quality(comparison.arms), _pair_counts(comparison.arms)]
    for arm in comparison.arms:
        parts += _audit_lines(f"{arm.own_arm}, own against base", arm.identity)
    parts += _null(comparison)
    for label, analysis in (("base", comparison.base), ("own", own)):
        parts.append(Text(f"inside {label}, against its own ar", style="bold"))
        parts.append(_speed_table(analysis))
    return [*parts, _legend([comparison.base, own]), *_notes([comparison.base, own])]


def _run_parts(analysis: RunAnalysis) -> list[RenderableType]:
    clusters = "" if analysis.n_clusters == analysis.n_samples else f" in {analysis.n_clusters} pages"
    title = f"{analysis.run}: {analysis.suite}, {analysis.n_samples} samples{clusters}"
    parts: list[RenderableType] = [Text(title, style="bold"), *_data(analysis, "data")]
    judged = [arm for arm in analysis.arms if arm.identity is not None]
    if not judged:
        parts.append(Text("no ar arm beside another: nothing to hold a strategy against"))
    for arm in judged:
        parts += [Text(line) for line in _verdict_lines(arm)]
    parts += [_speed_table(analysis), _quality_table(judged), _counter_table(analysis.arms)]
    for arm in judged:
        parts.append(_group_table(arm))
        parts += [Text(line) for line in _machine_lines(arm)]
        if arm.identity is not None:
            parts += _audit_lines(f"{arm.arm} against {arm.base or AR}", arm.identity)
    return [*parts, _legend([analysis])]


def _data(analysis: RunAnalysis, name: str) -> list[Text]:
    return [] if analysis.data is None else [Text(f"{name}: {analysis.data.label}", style="bold")]


def _verdict_lines(arm: ArmAnalysis) -> list[str]:
    audit, base, over = arm.identity, arm.base or AR, arm.speed_base or AR
    lines = []
    if audit is not None:
        lines.append(f"{arm.arm}: {same_tokens(audit, as_=base)}.")
    if arm.decode is not None:
        request = f", {_times(arm.request, over)} for whole requests" if arm.request else ""
        page = f", {_times(arm.page, over)} for whole pages" if arm.page else ""
        lines.append(
            f"{arm.arm}: {_times(arm.decode, over)} in decoding{request}{page}; {arm.decode.n_pairs} pairs."
        )
    for name, d in arm.quality.items():
        if is_composite(name):
            lines.append(f"{arm.arm}: {name} {_signed(d)} points over {base}{_made_of(d)}.")
    return lines


def _speed_table(analysis: RunAnalysis) -> Table:
    table = _table("strategy", "time", "speedup over ar", "geo mean", "median", "p10", "p90", "pairs")
    for arm in analysis.arms:
        for label, speed in (
            ("decode", arm.decode),
            ("request", arm.request),
            ("page", arm.page),
            ("decode, same tokens", arm.decode_identical),
        ):
            if speed is not None:
                table.add_row(
                    ArmName(timed_name(arm.arm, arm.speed_base)),
                    label,
                    _interval(speed, "x"),
                    *(_number(v) for v in (speed.geometric_mean, speed.median, speed.p10, speed.p90)),
                    str(speed.n_pairs),
                )
    if not table.rows:
        table.add_row(*[NOT_MEASURED] * 8)
    return table


def _quality_table(arms: Sequence[ArmAnalysis]) -> Table:
    table = _table("strategy", "quality, points", "ar", "own", "difference", "changed", "sign-flip p")
    for arm in arms:
        _add_quality(table, arm.arm, arm.quality)
    return table


def _add_quality(table: Table, arm: str, quality: Mapping[str, QualityDifference]) -> None:
    """A row for each metric in which a sample changed; one says that the others did not."""
    for metric, d in quality.items():
        if d.changed:
            table.add_row(ArmName(arm), *_quality_cells(metric, d))
    same = [d for d in quality.values() if not d.changed]
    if same:
        others = "all" if len(same) == len(quality) else "the other"
        metrics = f"{others} {len(same)} metrics" if len(quality) > 1 else next(iter(quality))
        levels = (f"{same[0].base:.2f}", f"{same[0].own:.2f}") if len(quality) == 1 else ("", "")
        table.add_row(ArmName(arm), metrics, *levels, "unchanged", f"0 of {max(d.n for d in same)}", "")


def _quality_cells(metric: str, d: QualityDifference) -> tuple[str, ...]:
    p = NOT_MEASURED if d.sign_flip_p is None else f"{d.sign_flip_p:.3f}"
    return metric, f"{d.base:.2f}", f"{d.own:.2f}", _signed(d), f"{d.changed} of {d.n}", p


def _counter_table(arms: Sequence[ArmAnalysis]) -> Table:
    table = _table(
        "strategy", "committed / round", "TPF", "accepted / round", "forwards / sample", "loop / cut / fail"
    )
    for arm in arms:
        c = arm.counters
        forwards = c.get("forwards_per_sample")
        table.add_row(
            ArmName(arm.arm),
            *(_interval(c.get(name)) for name in ("tau_round", "tpf_all", "accepted_draft")),
            _number(forwards.value if forwards else None),
            f"{arm.loops}/{arm.truncated}/{arm.failed}",
        )
    return table


def _group_table(arm: ArmAnalysis) -> Table:
    """Tasks and length buckets all, categories from five samples on; --json has every one."""
    table = _table("group", "n", "same tokens", "decode speedup", "committed / round", "TPF")
    table.title, table.title_justify = Text(timed_name(arm.arm, arm.speed_base)), "left"
    for row in arm.groups:
        if row.kind in {"task", "length"} or row.n >= SHOWN_GROUP_SIZE:
            table.add_row(
                Text(f"{row.kind} {row.label}"),
                str(row.n),
                str(row.identical),
                _interval(row.decode, "x"),
                _interval(row.counters.get("tau_round")),
                _interval(row.counters.get("tpf_all")),
            )
    return table


def _machine_lines(arm: ArmAnalysis) -> list[str]:
    lines = []
    if (m := arm.cost_model) is not None:
        where = "times in the traces" if m.source == "traces" else "the table of forward costs"
        lines.append(
            f"{arm.arm}: cost model: {m.tau_round:.2f} tokens a round / {m.round_cost:.2f} c(1) = "
            f"{m.predicted:.2f}x predicted, {m.measured:.2f}x measured, residual {m.residual:+.1%} ({where})"
        )
    if (a := arm.amdahl) is not None:
        shares = ", ".join(f"{stage} {share:.0%}" for stage, share in a.base_shares.items())
        lines.append(
            f"{arm.arm}: request time of {arm.speed_base or AR}: {shares}; {a.predicted:.2f}x predicted from "
            f"decoding alone, {a.measured:.2f}x measured, residual {a.residual:+.1%}"
        )
    if (d := arm.drift) is not None:
        word = "DRIFTING" if d.drifting else "no notable drift"
        lines.append(
            f"{arm.arm}: drift of the cost ratio, first to last slot: {d.change:+.1%} "
            f"[{d.low:+.1%}, {d.high:+.1%}], {word}"
        )
    if (s := arm.steadiness) is not None:
        word = "steady" if s.steady else "NOT STEADY"
        cold = ", a COLD START" if s.cold_start else ""
        lines.append(
            f"{arm.arm}: last three blocks within {s.last_three_spread:.1%}{by_chance(s.spread_by_chance)}: "
            f"{word}; first block {s.warm_up:+.1%} against the others{by_chance(s.warm_up_by_chance)}{cold}"
        )
    return lines


def _sentence(arm: ArmComparison) -> Text:
    name = arm.own_arm if arm.own_arm == arm.base_arm else f"{arm.own_arm} against {arm.base_arm}"
    audit = arm.identity
    composites = [f"; {n} {_signed(d)} points" for n, d in arm.quality.items() if is_composite(n)]
    quality = "".join(composites)
    ratio = f"; speedup over ar {_interval(arm.speedup_ratio, 'x')} of base's" if arm.speedup_ratio else ""
    if arm.speedup_ratio is not None:
        ratio += (
            f" ({arm.speedup_ratio_note or 'samples alone: two sessions of one code may differ by more'})"
        )
    return Text(f"{name}: {same_tokens(audit)}{quality}{ratio}.")


def same_tokens(audit: Audit, *, as_: str = "") -> str:
    """`same tokens as ar on 13 of 14 samples; text differs on 1 with the same tokens (assembly)`."""
    whom = f" as {as_}" if as_ else ""
    text = f"; text differs on {audit.assembly} with the same tokens (assembly)" if audit.assembly else ""
    return f"same tokens{whom} on {audit.identical} of {audit.compared} samples{text}"


def by_chance(limit: float | None) -> str:
    """What noise alone gives in 95 of 100 orders; nothing in documents without it."""
    return "" if limit is None else f" (by chance up to {limit:.1%})"


def _pair_quality(arms: Iterable[ArmComparison]) -> Table:
    table = _table("strategy", "quality, points", "base", "own", "difference", "changed", "sign-flip p")
    for arm in arms:
        _add_quality(table, arm.own_arm, arm.quality)
    return table


def _pair_counts(arms: Iterable[ArmComparison]) -> Table:
    table = _table("strategy", "own / base on common tokens", "ratio", "samples", "failed", "cut", "loops")
    for arm in arms:
        counts = [f"{a} -> {b}" for a, b in (arm.failed, arm.truncated, arm.loops)]
        if not arm.counters:
            table.add_row(ArmName(arm.own_arm), NOT_MEASURED, NOT_MEASURED, f"{arm.n}", *counts)
        for name, interval in arm.counters.items():
            table.add_row(
                ArmName(arm.own_arm),
                name,
                _interval(interval, digits=4),
                f"{arm.comparable} of {arm.n}",
                *counts,
            )
    return table


def _audit_lines(title: str, audit: Audit) -> list[RenderableType]:
    if audit.spotless:
        return []
    kinds = ", ".join(f"{count} {kind}" for kind, count in audit.classes.items())
    judged = f"referee's tau {audit.tau:g}" if audit.refereed else "no referee asked: --referee MODEL"
    lines: list[RenderableType] = [
        Text(
            f"{title}: {len(audit.differences)} of {audit.compared} differ ({kinds}); "
            f"same tokens in {audit.identical}, same text in {audit.same_text}; {judged}"
        )
    ]
    for d in audit.differences[:SHOWN_DIFFERENCES]:
        gap = f", gap {d.opinion.gap:.2g}" if d.opinion else ""
        where = f"{d.sample_id}#{d.region_id}" if d.region_id else d.sample_id
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
        return [
            Text("AR against AR: not measured; compare with a second run of the same model for the null.")
        ]
    lines: list[RenderableType] = [Text(f"AR against AR ({comparison.null_setting}): {same_tokens(audit)}.")]
    return [*lines, *_audit_lines("ar against ar", audit)]


def _differences(title: str, differences: Sequence[FieldDifference]) -> list[RenderableType]:
    if not differences:
        return [Text(f"{title}: equal")]
    table = _table(f"{title} that differ", "base", "own")
    for d in differences[:SHOWN_FIELDS]:
        table.add_row(Text(d.field), Text(d.base), Text(d.own))
    hidden = len(differences) - SHOWN_FIELDS
    return [table, Text(f"and {hidden} more; --json lists all")] if hidden > 0 else [table]


def _notes(analyses: Iterable[RunAnalysis]) -> list[RenderableType]:
    return [Text(f"note: {note}") for note in dict.fromkeys(n for a in analyses for n in a.notes)]


def _legend(analyses: Iterable[RunAnalysis]) -> Text:
    batches = any(batch_of(arm.arm) > 1 for analysis in analyses for arm in analysis.arms)
    over = "pages, of crop times in batches over batches" if batches else "pages"
    same = ", of ar at the same batch size (ar:batch=N: over ar, the gain of batching)" if batches else ""
    return Text(
        f"Speedup = sum of ar times / sum of own times over pairs{same}. "
        "committed / round = tokens a round appended. TPF = decode tokens / decode forwards of every kind. "
        f"Brackets: 95% bootstrap over {over}, {METHOD}; none on fewer than five. Points: 100 is best. "
        "Same tokens = equal token ids and stop reason.",
        style="dim",
    )


def _times(speed: SpeedEstimate, base: str) -> str:
    """`2.1x [1.9, 2.3] as fast as ar`, and a word on an interval that holds 1."""
    unsure = speed.low is None or speed.high is None or speed.low <= 1 <= speed.high
    return f"{_interval(speed, 'x')} as fast as {base}{' (not surely different)' if unsure else ''}"


def _interval(interval: Interval | None, unit: str = "", *, digits: int = 2) -> str:
    if interval is None:
        return NOT_MEASURED
    value = f"{interval.value:.{digits}f}{unit}"
    if interval.low is None or interval.high is None:
        return value
    return f"{value} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"


def _signed(d: QualityDifference) -> str:
    if d.low is None or d.high is None:
        return f"{d.difference:+.2f}"
    return f"{d.difference:+.2f} [{d.low:+.2f}, {d.high:+.2f}]"


def _made_of(d: QualityDifference) -> str:
    """How many samples each component of a composite rests on."""
    if d.parts is None:
        return ""
    return f" ({', '.join(f'{metric} on {n}' for metric, n in d.parts.items())})"


def _number(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.2f}"


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in columns:
        left = column in {"strategy", "group", "time", "base", "own"} or "differ" in column or "," in column
        justify: JustifyMethod = "left" if left else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in WHOLE)
    return table
