"""The summary as tables: quality and identity, acceptance and speed, by task, by group, by page stage.

What the machine did stands in lines of its own, which a comparison prints too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue
from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.load import Load
from gravbench.analysis.loaded import note_lines
from gravbench.analysis.quality import QualityDifference
from gravbench.analysis.speed import MIN_PAIRS, Speedup
from gravbench.analysis.stages import STAGES, PagesSummary, shortfall
from gravbench.analysis.summary import Summary, TaskSummary
from gravbench.arms import AR, batch_of, is_ar
from gravbench.cli.output import rich_table
from gravbench.omnidocbench.page_metrics import OVERALL
from gravbench.reporting.breakdown import SHIFT, word_order_table
from gravbench.reporting.definitions import counter_words
from gravbench.reporting.tables import NONE, Cell, Table, arm, by_chance, interval, number, signed, table
from gravbench.scorers.contract import Metric

if TYPE_CHECKING:
    from gravbench.analysis.run_analysis import ArmAnalysis

Rows = list[tuple[str | Cell, ...]]


def summary_parts(summary: Summary) -> list[RenderableType]:
    """Everything `gravbench run` prints at the end, top to bottom."""
    title = f"{summary.suite}: {summary.n_samples} samples, model {summary.model.get('model', '?')}"
    parts: list[RenderableType] = [Text(title, style="bold"), *data_parts(summary.data)]
    identity = 1 + len(_scored(summary, pages=False))
    parts += [rich_table(_quality(summary), caption=False, whole=(identity,)), _plain(_speed(summary))]
    parts += [
        lossy_line(name, s.base, s.quality_difference, summary.metrics)
        for name, s in summary.strategies.items()
        if s.lossy
    ]
    if any(len(s.by_task) > 1 for s in summary.strategies.values()):
        parts.append(_plain(_by_task(summary)))
    if summary.groups is not None:
        parts.append(_plain(_groups(summary)))
    parts += page_parts(summary)
    if summary.word_order is not None:
        found = word_order_table(
            (arm, _heading(summary.metrics, metric), one)
            for arm, metrics in summary.word_order.items()
            for metric, one in metrics.items()
        )
        parts += [_plain(found), Text(SHIFT, style="dim")]
    parts.append(Text(_legend(summary), style="dim"))
    parts += [Text(load_words(name, s.load)) for name, s in summary.strategies.items() if s.load is not None]
    if summary.peak_memory is not None:
        parts.append(Text(f"peak memory: {summary.peak_memory}"))
    parts += map(Text, summary.remarks or ())
    parts += [Text(line, style="yellow") for line in note_lines(summary.score_notes)]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in summary.warnings]
    parts.append(Text(f"run folder: {summary.run_dir}"))
    return parts


def data_parts(data: Mapping[str, JsonValue] | None) -> list[Text]:
    """Which copy of the page data was run, in a line; empty for suites without pages."""
    label = (data or {}).get("label")
    return [Text(f"data: {label}", style="bold")] if label else []


def page_parts(summary: Summary) -> list[RenderableType]:
    """Tables for suites with pages: official values, stages, regions, decoding's gain; empty without."""
    pages = {name: s.pages for name, s in summary.strategies.items() if s.pages is not None}
    if not _scored(summary, pages=True):
        return []
    parts: list[RenderableType] = [rich_table(_page_scores(summary))]
    if any(page.stages_ns["total"] for page in pages.values()):
        parts.append(rich_table(_stages(pages)))
    if pages:  # imports have no stages and no regions
        parts.append(rich_table(_regions(pages)))
    for name, page in pages.items():
        strategy = summary.strategies[name]
        speedups = strategy.by_task["page"].speedup
        if page.amdahl is not None and speedups is not None:
            parts.append(Text(_amdahl_line(name, page, speedups.page, over=strategy.speed_base or AR)))
    if OVERALL in summary.metrics and OVERALL not in next(iter(summary.strategies.values())).quality:
        parts.append(Text(f"no Overall: {_missing(summary)}", style="dim"))
    return parts


def load_words(name: str, load: Load) -> str:
    """Throughput and latency of one strategy's servers."""
    tokens = "" if load.tokens_per_s is None else f", {load.tokens_per_s:,.0f} tokens"
    p50, p90, p99 = (1000 * s for s in (load.latency_p50_s, load.latency_p90_s, load.latency_p99_s))
    return (
        f"{name}: {load.requests_per_s:,.1f} requests{tokens} a second with {load.concurrency} under way; "
        f"latency P50 {p50:,.0f} ms, P90 {p90:,.0f} ms, P99 {p99:,.0f} ms "
        f"({load.cut} requests of ramp-up and drain cut)"
    )


def timed_name(name: str, base: str | None) -> str:
    """An arm in a table of speedups: `ar:batch=4 over ar` where the base is not of the same batch size."""
    return f"{name} over {base}" if base is not None and is_ar(name) else name


def _plain(given: Table) -> RenderableType:
    return rich_table(given, caption=False)


def _scored(summary: Summary, *, pages: bool) -> list[Metric]:
    """Metrics of crops, or of pages, that any strategy has a value of."""
    found = {name for s in summary.strategies.values() for name in s.quality}
    return [m for m in summary.metrics.values() if m.name in found and ("page" in m.tasks) == pages]


def _quality(summary: Summary) -> Table:
    metrics = _scored(summary, pages=False)  # pages have a table of their own
    columns = ("strategy", *(m.heading for m in metrics), _same_heading(summary), "failed")
    rows: Rows = [
        (arm(name), *(_value(m, s.quality) for m in metrics), _identical(s), f"{s.failed}/{s.n_samples}")
        for name, s in summary.strategies.items()
    ]
    return table("quality", columns, [*rows, *_scored_of(summary, metrics, more=2)])


def _scored_of(summary: Summary, metrics: Sequence[Metric], *, before: int = 0, more: int = 0) -> Rows:
    """A row that says how many samples each value is the mean of; none where nothing was scored."""
    counts = [s.scored for s in summary.strategies.values()]
    if not metrics or not any(counts):
        return []
    cells = [
        "" if m.parts else " ".join(dict.fromkeys(str(c.get(m.name, 0)) for c in counts)) for m in metrics
    ]
    return [("scored", *[""] * before, *cells, *[""] * more)]


def _value(metric: Metric, quality: Mapping[str, float]) -> str:
    return metric.shown(quality[metric.name]) if metric.name in quality else NONE


def _groups(summary: Summary) -> Table:
    """Groups of crops; strategies that all have the same quality share one row."""
    rows: Rows = []
    for group, metrics in (summary.groups or {}).items():
        for found in metrics:
            own = list(found.quality.items())
            if len({value for _, value in own}) == 1:
                own = [("all", own[0][1])]
            heading = _heading(summary.metrics, found.metric)
            rows += [(group, heading, arm(name), str(found.n), f"{value:.4f}") for name, value in own]
    columns = ("group", "metric", "strategy", "n", "quality")
    return table("groups", columns, rows, left=frozenset({0, 1, 2}))


def _speed(summary: Summary) -> Table:
    columns = ("strategy", "tpf_all", "accepted_draft", "tau_round", "decode speedup", "request speedup")
    rows: Rows = [
        (arm(timed_name(name, s.speed_base)), *_speed_cells(s)) for name, s in summary.strategies.items()
    ]
    return table("speed", columns, rows)


def _by_task(summary: Summary) -> Table:
    """Quality is the headline of a crop's task; pages have a table of their own."""
    crops = _scored(summary, pages=False)
    rows: Rows = []
    for name, strategy in summary.strategies.items():
        for task, part in strategy.by_task.items():
            tpf, accepted, _, decode, _ = _speed_cells(part)
            headline = next((m for m in crops if m.name in part.quality), None)
            quality = NONE if headline is None else f"{headline.heading} {_value(headline, part.quality)}"
            label = arm(timed_name(name, strategy.speed_base))
            rows.append((label, task, str(part.n_samples), quality, tpf, accepted, decode))
    columns = ("strategy", "task", "n", "quality", "tpf_all", "accepted_draft", "decode speedup")
    return table("by task", columns, rows, left=frozenset({0, 1}))


def _speed_cells(part: TaskSummary) -> tuple[str, str, str, str, str]:
    c = part.counters
    return (
        number(None if c is None else c.tpf_all),
        number(c.accepted_draft if c is not None and c.draft_offered > 0 else None),
        number(None if c is None else c.tau_round),
        interval(part.speedup.decode if part.speedup else None, "×"),
        interval(part.speedup.request if part.speedup else None, "×"),
    )


def lossy_line(
    name: str, base: str | None, points: Mapping[str, QualityDifference] | None, metrics: Mapping[str, Metric]
) -> Text:
    """What a lossy strategy costs in quality, to stand where its speed does; or that nobody measured it."""
    if not points:
        return Text(f"{name} is lossy, and its quality against ar was not measured", style="yellow")
    told = "; ".join(f"{_heading(metrics, m)} {signed(d)}" for m, d in points.items())
    return Text(f"{name} is lossy; against {base or AR}, in points: {told}")


def _same_heading(summary: Summary) -> str:
    """What the strategies are held against: `same tokens as ar`, of imports `same text as mineru`."""
    held = [s for s in summary.strategies.values() if s.identical_to_ar is not None]
    what = "text" if any(s.identical_to_ar.by_text for s in held if s.identical_to_ar) else "tokens"
    bases = {s.base or AR for s in held}
    own = next(iter(bases)) if len(bases) == 1 and not any(map(is_ar, summary.strategies)) else AR
    return f"same {what} as {own}"


def _identical(part: TaskSummary) -> str:
    if part.lossy:
        return "lossy"
    identity = part.identical_to_ar
    if identity is None or identity.share is None:
        return NONE
    return f"{identity.n}/{identity.of} ({identity.share:.1%})"


def _heading(metrics: Mapping[str, Metric], metric: str) -> str:
    return metrics[metric].heading if metric in metrics else metric


WIDEST = 8
"""Columns of page scores; more of them are shown as rows."""


def _page_scores(summary: Summary) -> Table:
    """OmniDocBench's values, official as they are; or those of another scorer. Overall alone is in points."""
    metrics = _scored(summary, pages=True)
    rows: Rows = [
        (arm(name), str(s.by_task["page"].n_samples), *(_value(m, s.quality) for m in metrics))
        for name, s in summary.strategies.items()
    ]
    columns = ("strategy", "pages", *(m.heading for m in metrics))
    title = "official page scores" if OVERALL in summary.metrics else "page scores"
    rows += _scored_of(summary, metrics, before=1)
    if len(metrics) <= WIDEST:
        return table(title, columns, rows)
    names = [cell.text if isinstance(cell, Cell) else cell for cell, *_ in rows]
    turned: Rows = list(zip(columns[1:], *(row[1:] for row in rows), strict=True))
    return table(title, ("", *names), turned)


def _stages(pages: Mapping[str, PagesSummary]) -> Table:
    names = (*STAGES, "other", "total")
    failed = any(page.n_read < page.n_pages for page in pages.values())
    rows: Rows = [
        (arm(name), *(f"{page.stages_ns[n] / max(page.n_read, 1) / 1e6:.0f}" for n in names))
        for name, page in pages.items()
    ]
    title = "ms per page that was read, by stage" if failed else "ms per page, by stage"
    return table(title, ("strategy", *names), rows)


def _regions(pages: Mapping[str, PagesSummary]) -> Table:
    columns = (
        "strategy",
        "task",
        "regions",
        "tokens",
        "tpf_all",
        "accepted_draft",
        "loops",
        "at budget",
        "failed",
    )
    rows: Rows = [
        (
            arm(name),
            task,
            str(region.regions),
            str(region.tokens_out),
            number(region.tpf_all),
            number(region.accepted_draft),
            *map(str, (region.loops, region.stopped_by_length, region.failed)),
        )
        for name, page in pages.items()
        for task, region in page.regions.items()
    ]
    return table("regions of pages", columns, rows, left=frozenset({0, 1}))


def _amdahl_line(name: str, page: PagesSummary, measured: Speedup | None, *, over: str) -> str:
    split = page.amdahl
    assert split is not None
    brackets = ""
    if measured is not None and measured.low is not None and measured.high is not None:
        brackets = f" [{measured.low:.2f}, {measured.high:.2f}]"
    return (
        f"{name}: page speedup {split.measured:.2f}x{brackets}; decode {split.decode_speedup:.2f}x on "
        f"{split.decode_share:.0%} of {over}'s page time predicts {split.predicted:.2f}x "
        f"(residual {split.residual:+.2f})"
    )


def _missing(summary: Summary) -> str:
    quality = next(iter(summary.strategies.values())).quality
    parts = summary.metrics[OVERALL].parts if OVERALL in summary.metrics else ()
    missing = [summary.metrics[name].heading for name in parts if name not in quality]
    return f"{', '.join(missing)} not scored"


def machine_lines(own: ArmAnalysis) -> list[str]:
    """Where an arm's time went, and whether the machine held still."""
    lines = []
    if (m := own.cost_model) is not None:
        where = "times in the traces" if m.source == "traces" else "the table of forward costs"
        lines.append(
            f"{own.arm}: cost model: {m.tau_round:.2f} tokens a round / {m.round_cost:.2f} c(1) = "
            f"{m.predicted:.2f}x predicted, {m.measured:.2f}x measured, residual {m.residual:+.1%} ({where})"
        )
        if (reason := shortfall(m)) is not None:
            lines.append(f"{own.arm}: below 2x by {reason}".replace("×", "x"))
    if (a := own.amdahl) is not None:
        shares = ", ".join(f"{stage} {share:.0%}" for stage, share in a.base_shares.items())
        lines.append(
            f"{own.arm}: request time of {own.speed_base or AR}: {shares}; {a.predicted:.2f}x predicted from "
            f"decoding alone, {a.measured:.2f}x measured, residual {a.residual:+.1%}"
        )
    if (d := own.drift) is not None:
        word = "DRIFTING" if d.drifting else "no drift seen beyond 2 % and noise"
        lines.append(
            f"{own.arm}: drift of the cost ratio, first to last slot: {d.change:+.1%} "
            f"[{d.low:+.1%}, {d.high:+.1%}], {word}"
        )
    if (s := own.steadiness) is not None:
        word = "no change seen beyond that" if s.steady else "NOT STEADY"
        cold = ", a COLD START" if s.cold_start else ""
        lines.append(
            f"{own.arm}: last three blocks within {s.last_three_spread:.1%}{by_chance(s.spread_by_chance)}: "
            f"{word}; first block {s.warm_up:+.1%} against the others{by_chance(s.warm_up_by_chance)}{cold}"
        )
    elif own.decode is not None:
        lines.append(
            f"{own.arm}: whether the machine held still was not measured: that takes {MIN_PAIRS} pairs with "
            f"decode times, or batches of them"
        )
    return lines


_SCALE = "Metrics are on their own scale of 0 to 1, and low or high is best as their head says. "
_BATCHES = (
    " A strategy is timed over ar at the same batch size; ar:batch=N over ar is the gain of batching. "
    "Times of crops that decode together are shares of shared forwards, also by task."
)


def _legend(summary: Summary) -> str:
    batches = any(batch_of(name) > 1 for name in summary.strategies)
    confidence = f"{summary.bootstrap.confidence:.0%}"
    return (
        f"{_SCALE}{counter_words('tpf_all', 'accepted_draft', 'tau_round')} Speedups are sums of ar times / "
        f"sums of the strategy's times over pairs, with the {confidence} interval of a "
        f"{summary.bootstrap.method}; none on fewer than five samples or pages. "
        "Same tokens = equal token ids and stop reason." + (_BATCHES if batches else "")
    )
