"""Tables that stand on their own: counters, quality, categories, outliers, differences between runs."""

from __future__ import annotations

from gravbench.analysis.identity import Audit
from gravbench.reporting.charts import (
    Named,
    best_first,
    end_to_end,
    end_to_end_column,
    main_metric,
    metric_order,
    named_arms,
)
from gravbench.reporting.document import PairPart, ReportDocument
from gravbench.reporting.tables import (
    Cell,
    Table,
    interval,
    milliseconds,
    number,
    signed,
    table,
    times,
    tint_of_points,
    tint_of_ratio,
)


def speed_table(document: ReportDocument) -> Table | None:
    """Headline speedups with all that belongs beside them; identical outputs apart where some differ.

    `ar` is the arm of the same batch size.
    """
    rows: list[tuple[str | Cell, ...]] = []
    for a in best_first(document):
        differs = a.arm.identity is not None and a.arm.identity.identical < a.arm.identity.compared
        for label, s in (
            ("decode", a.arm.decode),
            ("whole requests", a.arm.request),
            ("whole pages", a.arm.page),
            ("decode, same tokens", a.arm.decode_identical if differs else None),
        ):
            if s is not None:
                rows.append(
                    (
                        a.label,
                        label,
                        interval(s, "×"),
                        number(s.geometric_mean),
                        number(s.median),
                        number(s.p10),
                        number(s.p90),
                        str(s.n_pairs),
                        milliseconds(s.base_ns),
                        milliseconds(s.own_ns),
                    )
                )
    columns = ("strategy", "time", "speedup [95 %]", "geo mean", "median", "P10", "P90", "pairs", "ar", "own")
    return table("Speedups", columns, rows, left=frozenset({0, 1})) if rows else None


def cost_table(document: ReportDocument) -> Table | None:
    """Speedup predicted from tokens per round and the cost of a round, against the measured one."""
    rows: list[tuple[str | Cell, ...]] = [
        (
            a.label,
            number(m.tau_round),
            number(m.round_cost),
            times(m.predicted),
            times(m.measured),
            f"{m.residual:+.1%}",
            "run's traces" if m.source == "traces" else "table of c(Q)",
        )
        for a in best_first(document)
        if (m := a.arm.cost_model) is not None
    ]
    columns = (
        "strategy",
        "tau_round",
        "cost of a round, c(1)",
        "predicted",
        "measured",
        "residual",
        "source",
    )
    return table("Cost model", columns, rows, left=frozenset({0, 6})) if rows else None


def counter_table(document: ReportDocument) -> Table:
    """Counters of every strategy under their full names."""
    rows: list[tuple[str | Cell, ...]] = []
    for a in named_arms(document):
        c, own = a.part.counters, a.arm.counters
        rows.append(
            (
                a.label,
                interval(own.get("tpf_all")),
                interval(own.get("tau_round")),
                interval(own.get("accepted_draft")) if c.draft_offered else "–",
                number(c.acceptance_rate, 3) if c.draft_offered else "–",
                number(c.chars_per_forward),
                f"{c.rounds:,}",
                f"{c.decode_tokens:,}",
                f"{c.decode_forwards:,}",
                f"{a.arm.failed}/{a.arm.truncated}/{a.arm.loops}",
            )
        )
    columns = (
        "strategy",
        "tpf_all",
        "tau_round",
        "accepted_draft",
        "acceptance_rate",
        "chars/forward",
        "rounds",
        "decode tokens",
        "decode forwards",
        "failed/cut/loops",
    )
    return table("Counters", columns, rows)


def quality_table(document: ReportDocument) -> Table | None:
    """Every metric of every strategy, with the difference to the `ar` arm it is held against."""
    rows: list[tuple[str | Cell, ...]] = []
    for a in named_arms(document):
        for metric in metric_order(a.part.levels):
            level = a.part.levels[metric]
            d = a.arm.quality.get(metric)
            p = "–" if d is None or d.sign_flip_p is None else f"{d.sign_flip_p:.3f}"
            changed = "–" if d is None else f"{d.changed}"
            cell = Cell(text=signed(d), tint=tint_of_points(d))
            rows.append((a.label, metric, interval(level.points), cell, changed, p, str(level.n)))
    columns = ("strategy", "metric", "points [95 %]", "difference to ar", "changed", "sign-flip p", "n")
    return table("Quality, points", columns, rows, left=frozenset({0, 1})) if rows else None


def heat_table(a: Named) -> Table | None:
    """Categories of one strategy: quality difference, speed and acceptance, tinted from bad to good."""
    rows: list[tuple[str | Cell, ...]] = []
    for g in a.arm.groups:
        metric = main_metric(g.quality)
        d = g.quality[metric] if metric else None
        whole = end_to_end(g)
        rows.append(
            (
                f"{g.kind}: {g.label}",
                str(g.n),
                f"{g.identical}",
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
        "same tokens",
        "points",
        "difference to ar",
        "decode",
        end_to_end_column(a.arm.groups),
        "accepted_draft",
        "tpf_all",
    )
    return table(f"By task, output length and category: {a.label}", columns, rows) if rows else None


def outlier_table(a: Named) -> Table | None:
    """The pairs farthest from the pooled request speedup."""
    rows: list[tuple[str | Cell, ...]] = [
        (o.sample_id, str(o.slot), milliseconds(o.base_ns), milliseconds(o.own_ns), times(o.ratio))
        for o in a.arm.outliers
    ]
    columns = ("sample", "slot", "ar", "own", "speedup")
    return table(f"Pairs farthest from the pooled speedup: {a.label}", columns, rows) if rows else None


def audit_table(label: str, audit: Audit) -> Table | None:
    """Where outputs part, one row a sample; `None` when none does."""
    rows: list[tuple[str | Cell, ...]] = [
        (
            d.sample_id,
            d.kind,
            str(d.index),
            _token(d.base_id),
            _token(d.own_id),
            "–" if d.opinion is None else f"{d.opinion.gap:.2g}",
            d.base_text,
            d.own_text,
        )
        for d in audit.differences
    ]
    columns = ("sample", "class", "at token", "first", "second", "gap", "text, first", "text, second")
    return (
        table(f"Outputs that differ: {label}", columns, rows, left=frozenset({0, 1, 6, 7})) if rows else None
    )


def comparison_table(pair: PairPart) -> Table | None:
    """A later run against the first, a row a strategy."""
    rows: list[tuple[str | Cell, ...]] = []
    for arm in pair.arms:
        metric = main_metric(arm.quality)
        d = arm.quality[metric] if metric else None
        name = arm.own_arm if arm.own_arm == arm.base_arm else f"{arm.own_arm} against {arm.base_arm}"
        rows.append(
            (
                name,
                str(arm.n),
                f"{arm.identity.identical} of {arm.identity.compared}",
                Cell(text=signed(d), tint=tint_of_points(d)),
                interval(arm.counters.get("tau_round"), digits=4),
                interval(arm.counters.get("tpf_all"), digits=4),
                interval(arm.speedup_ratio, "×"),
                f"{arm.failed[0]} → {arm.failed[1]}",
            )
        )
    columns = (
        "strategy",
        "n",
        "same tokens",
        "points, own − base",
        "tau_round, own/base",
        "tpf_all, own/base",
        "speedup over ar, own/base",
        "failed",
    )
    return table(f"{pair.own} against {pair.base}", columns, rows) if rows else None


def _token(token: int | None) -> str:
    return "end" if token is None else str(token)
