"""Tables that stand on their own: speed, counters, quality, groups, outliers, differences between runs.

Terminal and page show the same values under the same names; a row's label is the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.comparison import ArmComparison, FieldDifference
from gravbench.analysis.counters import CounterSummary
from gravbench.analysis.groups import WordOrder
from gravbench.analysis.identity import Audit
from gravbench.analysis.quality import QualityDifference, QualityLevel, label_of
from gravbench.analysis.run_analysis import ArmAnalysis
from gravbench.analysis.stages import CostModel, shortfall
from gravbench.arms import AR, is_ar
from gravbench.reporting.charts import end_to_end, end_to_end_column, main_metric, metric_order
from gravbench.reporting.tables import (
    NONE,
    Cell,
    Table,
    arm,
    interval,
    milliseconds,
    number,
    signed,
    table,
    times,
    tint_of_points,
    tint_of_ratio,
)

Row = tuple[str | Cell, ...]
Labelled = tuple[str, ArmAnalysis]
"""A strategy under the name its row goes by."""

SHOWN_TIES = 3
SHIFT = (
    "shift = shuffled - as written. Where low is best, above 0 is worse on shuffled words: the model guesses "
    "from their order. Near 0 it reads."
)
POINTS = "quality, points (0 to 100, 100 is best)"


def speed_table(arms: Iterable[Labelled]) -> Table | None:
    """Headline speedups with all that belongs beside them; identical outputs apart where some differ.

    `ar` is the arm of the same batch size.
    """
    rows: list[Row] = []
    for label, a in arms:
        differs = a.identity is not None and a.identity.identical < a.identity.compared
        for time, s in (
            ("decode", a.decode),
            ("whole requests", a.request),
            ("whole pages", a.page),
            ("decode, same tokens", a.decode_identical if differs else None),
        ):
            if s is not None:
                spread = (number(v) for v in (s.geometric_mean, s.median, s.p10, s.p90))
                sums = (milliseconds(s.base_ns), milliseconds(s.own_ns))
                rows.append((arm(label), time, interval(s, "×"), *spread, str(s.n_pairs), *sums))
    columns = (
        "strategy",
        "time",
        "speedup over ar [95 %]",
        "geo mean",
        "median",
        "P10",
        "P90",
        "pairs",
        "ar",
        "strategy's",
    )
    return _some("Speedups", columns, rows, left=frozenset({0, 1}), wide=frozenset({8, 9}))


def word_order_table(found: Iterable[tuple[str, str, WordOrder]]) -> Table:
    """Strategy, metric, and what its words in order and shuffled gave."""
    rows: list[Row] = [
        (arm(label), name, f"{w.plain:.4f}", f"{w.shuffled:.4f}", f"{w.shift:+.4f}", str(w.n_pairs))
        for label, name, w in found
    ]
    columns = ("strategy", "metric", "as written", "shuffled", "shift", "pairs")
    return table("word order", columns, rows, left=frozenset({0, 1}))


def cost_table(arms: Iterable[Labelled]) -> Table | None:
    """Speedup predicted from tokens and cost of a round, against the measured one; below 2×, the reason."""
    found = [(label, m) for label, a in arms if (m := a.cost_model) is not None]
    told = any(m.parts for _, m in found)
    rows: list[Row] = []
    for label, m in found:
        origin = "run's traces" if m.source == "traces" else "table of c(Q)"
        sums = (number(m.tau_round), number(m.round_cost), times(m.predicted), times(m.measured))
        own = (number(m.accepted_draft), _made_of(m), number(m.outside), shortfall(m) or NONE) if told else ()
        rows.append((arm(label), *sums, f"{m.residual:+.1%}", origin, *own))
    columns = ("strategy", "tau_round", "cost of a round, c(1)", "predicted", "measured", "residual", "costs")
    more = ("accepted_draft", "forwards of a round", "outside, c(1)", "below 2×: why") if told else ()
    left = frozenset({0, 6, 8, 10} if told else {0, 6})
    return _some("Cost model of decoding", (*columns, *more), rows, left=left)


def _made_of(model: CostModel) -> str:
    """`1.00 draft of 9.0 rows at 1.77; 0.98 verify of 9.0 rows at 1.80`."""
    parts = (model.parts or {}).items()
    return "; ".join(f"{p.forwards:.2f} {kind} of {p.rows:.1f} rows at {p.cost:.2f}" for kind, p in parts)


def counter_table(arms: Iterable[tuple[str, ArmAnalysis, CounterSummary | None]]) -> Table:
    """Counters of every strategy under their full names."""
    rows: list[Row] = []
    for label, a, c in arms:
        accepted = a.counters.get("accepted_draft")
        drafts = a.acceptance is not None or (accepted is not None and accepted.value > 0)
        forwards = a.counters.get("forwards_per_sample")
        rows.append(
            (
                arm(label),
                interval(a.counters.get("tpf_all")),
                interval(a.counters.get("tau_round")),
                interval(a.counters.get("accepted_draft")) if drafts else NONE,
                number(forwards.value if forwards else None),
                f"{a.failed}/{NONE if a.truncated is None else a.truncated}/{a.loops}",
                *_totals(c if c is None or c.samples or a.failed == a.n else None, drafts=drafts),
            )
        )
    columns = (
        "strategy",
        "tpf_all",
        "tau_round",
        "accepted_draft",
        "forwards / sample",
        "failed / cut / loops",
        "acceptance_rate",
        "chars_per_forward",
        "rounds",
        "decode tokens",
        "decode forwards",
    )
    return table("Counters", columns, rows, wide=frozenset(range(6, 11)))


def _totals(c: CounterSummary | None, *, drafts: bool) -> Row:
    if c is None:
        return (NONE,) * 5
    counts = (f"{n:,}" for n in (c.rounds, c.decode_tokens, c.decode_forwards))
    return number(c.acceptance_rate, 3) if drafts else NONE, number(c.chars_per_forward), *counts


def quality_table(
    arms: Iterable[tuple[str, ArmAnalysis, Mapping[str, QualityLevel]]],
) -> Table | None:
    """Every metric of every strategy, with the difference to the `ar` arm it is held against."""
    rows: list[Row] = []
    listed = list(arms)
    for label, a, levels in listed:
        for metric in metric_order(levels):
            level, d = levels[metric], a.quality.get(metric)
            cell = Cell(text=signed(d), tint=tint_of_points(d))
            changed = NONE if d is None else f"{d.changed}"
            row = (interval(level.points), cell, changed, _p(d), str(level.n))
            rows.append((arm(label), label_of(metric), *row))
    columns = (
        "strategy",
        "metric",
        "points [95 %]",
        f"difference to {base_of([a for _, a, _ in listed])}",
        "changed",
        "sign-flip p",
        "n",
    )
    return _some(POINTS.capitalize(), columns, rows, left=frozenset({0, 1}))


def changes(a: ArmAnalysis) -> bool:
    """Whether a score of any sample is another than that of the `ar` arm it is held against."""
    return any(d.changed for d in a.quality.values())


def equal_quality(arms: Sequence[tuple[str, ArmAnalysis, Mapping[str, QualityLevel]]]) -> str | None:
    """A sentence for all strategies whose every score is that of `ar`; `None` where there are none."""
    equal = [(label, a, levels) for label, a, levels in arms if a.quality and not changes(a)]
    if not equal:
        return None
    levels = equal[0][2]
    who = "All strategies" if not any(changes(a) for _, a, _ in arms) else ", ".join(n for n, _, _ in equal)
    said = [f"{label_of(name)} {interval(levels[name].points)}" for name in reversed(metric_order(levels))]
    base = base_of([a for _, a, _ in equal])
    return f"{who}: every score of every sample is that of {base}. In points: {'; '.join(said)}."


def base_of(arms: Iterable[ArmAnalysis]) -> str:
    """The arm that all are held against, where that is one and no `ar`; else `ar`."""
    held = {a.base for a in arms if a.base is not None}
    own = next(iter(held)) if len(held) == 1 else AR
    return AR if is_ar(own) else own


def difference_table(
    arms: Iterable[tuple[str, Mapping[str, QualityDifference]]], *, base: str, own: str
) -> Table | None:
    """A row for each metric in which a sample changed; one says that the others did not."""
    rows: list[Row] = []
    for label, quality in arms:
        for metric in metric_order(quality):
            if (d := quality[metric]).changed:
                cell = Cell(text=signed(d), tint=tint_of_points(d))
                levels = (f"{d.base:.2f}", f"{d.own:.2f}")
                rows.append((arm(label), label_of(metric), *levels, cell, f"{d.changed} of {d.n}", _p(d)))
        same = {metric: d for metric, d in quality.items() if not d.changed}
        if same:
            others = "all" if len(same) == len(quality) else "the other"
            metric, d = next(iter(same.items()))
            names, levels = f"{others} {len(same)} metrics", ("", "")
            if len(same) == 1:
                names, levels = label_of(metric), (f"{d.base:.2f}", f"{d.own:.2f}")
            n = max(d.n for d in same.values())
            rows.append((arm(label), names, *levels, "unchanged", f"0 of {n}", ""))
    columns = ("strategy", "metric", base, own, "difference [95 %]", "changed", "sign-flip p")
    return _some(POINTS.capitalize(), columns, rows, left=frozenset({0, 1}))


def group_table(label: str, a: ArmAnalysis, *, at_least: int = 1) -> Table | None:
    """Tasks and output lengths all, categories from `at_least` samples on, tinted from bad to good.

    Where nothing tells what decoding took, every metric has a row instead.
    """
    if not a.counters:
        return attribute_table(label, a, at_least=at_least)
    rows: list[Row] = []
    same = "same text" if a.identity is not None and a.identity.by_text else "same tokens"
    for g in a.groups:
        if g.kind not in {"task", "length"} and g.n < at_least:
            continue
        metric = main_metric(g.quality)
        d = g.quality[metric] if metric else None
        whole = end_to_end(g)
        rows.append(
            (
                f"{g.kind}: {g.label}",
                str(g.n),
                "lossy" if a.lossy else f"{g.identical}",
                number(d.own if d else None),
                Cell(text=signed(d), tint=tint_of_points(d)),
                Cell(text=interval(g.decode, "×"), tint=tint_of_ratio(g.decode)),
                Cell(text=interval(whole, "×"), tint=tint_of_ratio(whole)),
                interval(g.counters.get("accepted_draft")),
                interval(g.counters.get("tpf_all")),
            )
        )
    columns = (
        "group",
        "n",
        same,
        "points",
        f"difference to {a.base or AR}",
        "decode",
        end_to_end_column(a.groups),
        "accepted_draft",
        "tpf_all",
    )
    caption = f"By task, output length and category: {label}"
    return _some(caption, columns, rows, wide=frozenset({3, 4, 6}))


def attribute_table(
    label: str, a: ArmAnalysis, attribute: str | None = None, *, at_least: int = 1
) -> Table | None:
    """Every metric for each value of an attribute, of samples or of their elements; by default of all."""
    rows: list[Row] = []
    for g in a.groups:
        if g.n >= at_least and attribute in (None, g.kind, g.kind.partition(" of ")[0]):
            for metric in metric_order(g.quality):
                d = g.quality[metric]
                cell = Cell(text=signed(d), tint=tint_of_points(d))
                levels = (f"{d.base:.2f}", f"{d.own:.2f}")
                rows.append(
                    (f"{g.kind}: {g.label}", label_of(metric), *levels, cell, f"{d.changed} of {d.n}")
                )
    columns = ("group", "metric", a.base or AR, label, "difference [95 %]", "changed")
    return _some(f"{label} by {attribute or 'attribute'}, points", columns, rows, left=frozenset({0, 1}))


def outlier_table(label: str, a: ArmAnalysis) -> Table | None:
    """The pairs farthest from the pooled request speedup."""
    rows: list[Row] = [
        (o.sample_id, str(o.slot), milliseconds(o.base_ns), milliseconds(o.own_ns), times(o.ratio))
        for o in a.outliers
    ]
    columns = ("sample", "slot", "ar", "strategy's", "speedup")
    return _some(f"Pairs farthest from the pooled speedup: {label}", columns, rows)


def audit_table(label: str, audit: Audit) -> Table | None:
    """Where outputs part, one row a sample; `None` when none does."""
    rows: list[Row] = [
        (
            d.sample_id,
            d.kind,
            str(d.index),
            _token(d.base_id),
            _token(d.own_id),
            NONE if d.opinion is None else f"{d.opinion.gap:.2g}",
            d.base_text,
            d.own_text,
        )
        for d in audit.differences
    ]
    columns = ("sample", "class", "at token", "first", "second", "gap", "text, first", "text, second")
    return _some(f"Outputs that differ: {label}", columns, rows, left=frozenset({0, 1, 6, 7}))


def pair_name(a: ArmComparison) -> str:
    """`selfspec`, or `selfspec against ar` where two strategies were paired by hand."""
    return a.own_arm if a.own_arm == a.base_arm else f"{a.own_arm} against {a.base_arm}"


def ratio_table(arms: Sequence[ArmComparison], *, base: str, own: str) -> Table | None:
    """Counts on common tokens and speedups of two runs as ratios, with what failed on either side."""
    rows: list[Row] = []
    for a in arms:
        counts = [f"{b} → {o}" for b, o in (a.failed, a.truncated, a.loops)]
        found = [
            (name, interval(ratio, digits=4), f"{a.comparable} of {a.n}")
            for name, ratio in a.counters.items()
        ]
        if a.speedup_ratio is not None:
            found.append(("decode speedup over ar", interval(a.speedup_ratio, "×"), f"{a.n}"))
        rows += [(arm(pair_name(a)), *row, *counts) for row in found or [(NONE, NONE, f"{a.n}")]]
    columns = ("strategy", "of", f"{own} / {base}", "samples", "failed", "cut", "loops")
    return _some(
        f"Ratios of {own} to {base}; counters on common tokens", columns, rows, left=frozenset({0, 1})
    )


def pair_sentence(
    a: ArmComparison, *, base: str, own: str, speeds: tuple[Interval | None, Interval | None]
) -> str:
    """What two runs differ in, in a sentence: quality with its interval, text, speedup over ar."""
    metric = main_metric(a.quality)
    parts = [f"{label_of(metric)} {signed(a.quality[metric])} points"] if metric else []
    if a.identity is None:
        parts.append("lossy" if metric else "lossy, and its quality was not measured")
    else:
        parts.append(f"same text in {a.identity.same_text} of {a.identity.compared} samples")
    if a.speedup_ratio is not None:
        before, after = (number(s.value if s else None) for s in speeds)
        note = a.speedup_ratio_note or "its interval is of samples alone: two sessions may differ by more"
        parts.append(
            f"decode speedup over ar {after}× against {before}×, "
            f"{interval(a.speedup_ratio, '×')} of it ({note})"
        )
    return f"{own} against {base}, {pair_name(a)}: {'; '.join(parts)}."


def ties_of(fastest_first: Sequence[tuple[str, Interval | None]]) -> list[str]:
    """Strategies after the first whose interval reaches the first one's."""
    _, best = fastest_first[0]
    if best is None or best.low is None:
        return []
    low = best.low
    return [label for label, s in fastest_first[1:] if s is not None and s.high is not None and s.high >= low]


def tie_sentence(best: str, ties: Sequence[str]) -> str:
    """`selfspec:block=8 is not told apart from selfspec:block=16: their intervals overlap.`"""
    shown = ", ".join(ties[:SHOWN_TIES])
    more = f" and {len(ties) - SHOWN_TIES} more" if len(ties) > SHOWN_TIES else ""
    return f"{best} is not told apart from {shown}{more}: their intervals overlap."


def field_table(what: str, differences: Sequence[FieldDifference], *, base: str, own: str) -> Table | None:
    """Settings or environment that differ, a row a field."""
    rows: list[Row] = [(d.field, d.base, d.own) for d in differences]
    return _some(f"{what} that differ", ("field", base, own), rows, left=frozenset({0, 1, 2}))


def _some(
    caption: str,
    columns: tuple[str, ...],
    rows: Sequence[Row],
    *,
    left: frozenset[int] = frozenset({0}),
    wide: frozenset[int] = frozenset(),
) -> Table | None:
    return table(caption, columns, rows, left=left, wide=wide) if rows else None


def _p(d: QualityDifference | None) -> str:
    return NONE if d is None or d.sign_flip_p is None else f"{d.sign_flip_p:.3f}"


def _token(token: int | None) -> str:
    return "end" if token is None else str(token)
