"""The summary as tables: quality and identity, acceptance and speed, and both by task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.analysis.speed import Speedup
from gravbench.analysis.stages import STAGES, PagesSummary
from gravbench.analysis.summary import Summary, TaskSummary
from gravbench.arms import AR, batch_of, is_ar
from gravbench.cli.output import ArmName
from gravbench.omnidocbench.metric_table import OVERALL
from gravbench.scorers.contract import Metric

NOT_MEASURED = "-"


def summary_parts(summary: Summary) -> list[RenderableType]:
    """Everything `gravbench run` prints at the end, top to bottom."""
    title = f"{summary.suite}: {summary.n_samples} samples, model {summary.model.get('model', '?')}"
    parts: list[RenderableType] = [Text(title, style="bold"), *data_parts(summary.data)]
    parts += [_quality(summary), _speed(summary)]
    if any(len(s.by_task) > 1 for s in summary.strategies.values()):
        parts.append(_by_task(summary))
    if summary.groups is not None:
        parts.append(_groups(summary))
    parts += page_parts(summary)
    if summary.word_order is not None:
        parts += [_word_order(summary), Text(_SHIFT, style="dim")]
    parts.append(Text(_legend(summary), style="dim"))
    parts += [Text(f"warning: {warning}", style="yellow") for warning in summary.warnings]
    parts.append(Text(f"run folder: {summary.run_dir}"))
    return parts


def data_parts(data: Mapping[str, JsonValue] | None) -> list[Text]:
    """Which copy of the page data was run, in a line; empty for suites without pages."""
    label = (data or {}).get("label")
    return [Text(f"data: {label}", style="bold")] if label else []


def _quality(summary: Summary) -> Table:
    found = {metric for strategy in summary.strategies.values() for metric in strategy.quality}
    metrics = [m for m in _of_crops(summary) if m.name in found]  # pages have a table of their own
    table = _table("strategy", *(m.heading for m in metrics), "same tokens as ar", "failed")
    table.columns[-2].no_wrap = True  # a count and its share stay on one line
    for name, strategy in summary.strategies.items():
        table.add_row(
            ArmName(name),
            *(_number(strategy.quality.get(metric.name), ".4f") for metric in metrics),
            _identical(strategy),
            str(strategy.failed),
        )
    return table


def _of_crops(summary: Summary) -> list[Metric]:
    return [metric for metric in summary.metrics.values() if "page" not in metric.tasks]


def _groups(summary: Summary) -> Table:
    """Groups of crops; strategies that all have the same quality share one row."""
    table = _table("group", "metric", "strategy", "n", "quality")
    for group, metrics in (summary.groups or {}).items():
        for found in metrics:
            rows = list(found.quality.items())
            if len({value for _, value in rows}) == 1:
                rows = [("all", rows[0][1])]
            for arm, value in rows:
                table.add_row(
                    Text(group),
                    Text(_heading(summary, found.metric)),
                    ArmName(arm),
                    str(found.n),
                    f"{value:.4f}",
                )
    return table


def _word_order(summary: Summary) -> Table:
    table = _table("strategy", "metric", "as written", "shuffled", "shift", "pairs")
    for arm, metrics in (summary.word_order or {}).items():
        for metric, found in metrics.items():
            table.add_row(
                ArmName(arm),
                Text(_heading(summary, metric)),
                f"{found.plain:.4f}",
                f"{found.shuffled:.4f}",
                f"{found.shift:+.4f}",
                str(found.n_pairs),
            )
    return table


def _speed(summary: Summary) -> Table:
    table = _table(
        "strategy", "TPF", "accepted/round", "committed/round", "decode speedup", "request speedup"
    )
    for name, strategy in summary.strategies.items():
        table.add_row(ArmName(timed_name(name, strategy.speed_base)), *_speed_cells(strategy))
    return table


def timed_name(arm: str, base: str | None) -> str:
    """An arm in a table of speedups: `ar:batch=4 over ar` where the base is not of the same batch size."""
    return f"{arm} over {base}" if base is not None and is_ar(arm) else arm


def _has_batches(summary: Summary) -> bool:
    return any(batch_of(name) > 1 for name in summary.strategies)


def _by_task(summary: Summary) -> Table:
    """Quality is the headline of a crop's task; pages have a table of their own."""
    table = _table("strategy", "task", "n", "quality", "TPF", "accepted/round", "decode speedup")
    crops = _of_crops(summary)
    for name, strategy in summary.strategies.items():
        for task, part in strategy.by_task.items():
            tpf, accepted, _, decode, _ = _speed_cells(part)
            quality = next(
                (f"{part.quality[m.name]:.4f}" for m in crops if m.name in part.quality), NOT_MEASURED
            )
            named = ArmName(timed_name(name, strategy.speed_base))
            table.add_row(named, task, str(part.n_samples), quality, tpf, accepted, decode)
    return table


def _speed_cells(part: TaskSummary) -> tuple[str, str, str, str, str]:
    counters = part.counters
    drafted = counters.draft_offered > 0
    return (
        _number(counters.tpf_all, ".2f"),
        _number(counters.accepted_draft if drafted else None, ".2f"),
        _number(counters.tau_round, ".2f"),
        _interval(part.speedup.decode if part.speedup else None),
        _interval(part.speedup.request if part.speedup else None),
    )


def _interval(speedup: Speedup | None) -> str:
    if speedup is None:
        return NOT_MEASURED
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x"
    return f"{speedup.value:.2f}x [{speedup.low:.2f}, {speedup.high:.2f}]"


def _identical(part: TaskSummary) -> str:
    identity = part.identical_to_ar
    if identity is None or identity.share is None:
        return NOT_MEASURED
    return f"{identity.n}/{identity.of} ({identity.share:.1%})"


def _number(value: float | None, form: str) -> str:
    return NOT_MEASURED if value is None else format(value, form)


def _heading(summary: Summary, metric: str) -> str:
    return summary.metrics[metric].heading if metric in summary.metrics else metric


_SHIFT = (
    "shift = shuffled - as written. Where low is best, above 0 is worse on shuffled words: the model guesses "
    "from their order. Near 0 it reads."
)
_BATCHES = (
    " A strategy is timed over ar at the same batch size; ar:batch=N over ar is the gain of batching. "
    "Times of crops that decode together are shares of shared forwards, also by task."
)


def _legend(summary: Summary) -> str:
    confidence = f"{summary.bootstrap.confidence:.0%}"
    return (
        "TPF = decode tokens / full-model decode forwards. Speedups are sums of ar times / sums of own times "
        f"over pairs, with the {confidence} interval of a {summary.bootstrap.method}; none on fewer than "
        "five. Same tokens = equal token ids and stop reason." + (_BATCHES if _has_batches(summary) else "")
    )


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    left: Sequence[str] = ("strategy", "task", "metric", "group")
    for column in columns:
        table.add_column(
            column,
            justify="left" if column in left else "right",
            overflow="fold",
            min_width=max(map(len, column.split())),
        )
    return table


def page_parts(summary: Summary) -> list[RenderableType]:
    """Tables for suites with pages; empty without."""
    pages = {arm: s.pages for arm, s in summary.strategies.items() if s.pages is not None}
    if not pages:
        return []
    parts: list[RenderableType] = [_official(summary), _stages(pages), _regions(pages)]
    for arm, page in pages.items():
        strategy = summary.strategies[arm]
        speedups = strategy.by_task["page"].speedup
        if page.amdahl is not None and speedups is not None:
            over = strategy.speed_base or AR
            parts.append(Text(_amdahl_line(arm, page, speedups.page, over=over)))
    if OVERALL not in next(iter(summary.strategies.values())).quality:
        parts.append(Text(f"no Overall: {_missing(summary)}", style="dim"))
    return parts


def _official(summary: Summary) -> Table:
    """Official values; all metrics in 0..1, Overall in 0..100."""
    metrics = [
        metric
        for name, metric in summary.metrics.items()
        if "page" in metric.tasks and any(name in s.quality for s in summary.strategies.values())
    ]
    table = _page_table("official page scores", "strategy", *(metric.heading for metric in metrics))
    for arm, strategy in summary.strategies.items():
        values = (strategy.quality.get(metric.name) for metric in metrics)
        table.add_row(
            ArmName(arm),
            *("-" if v is None else m.shown(v) for m, v in zip(metrics, values, strict=True)),
        )
    return table


def _stages(pages: dict[str, PagesSummary]) -> Table:
    names = (*STAGES, "other", "total")
    failed = any(page.n_read < page.n_pages for page in pages.values())
    title = "ms per page that was read, by stage" if failed else "ms per page, by stage"
    table = _page_table(title, "strategy", *names)
    for arm, page in pages.items():
        count = max(page.n_read, 1)
        table.add_row(ArmName(arm), *(f"{page.stages_ns[name] / count / 1e6:.0f}" for name in names))
    return table


def _regions(pages: dict[str, PagesSummary]) -> Table:
    columns = (
        "strategy",
        "task",
        "regions",
        "tokens",
        "TPF",
        "accepted/round",
        "loops",
        "at budget",
        "failed",
    )
    table = _page_table("regions of pages", *columns)
    for arm, page in pages.items():
        for task, region in page.regions.items():
            table.add_row(
                ArmName(arm),
                task,
                str(region.regions),
                str(region.tokens_out),
                _number(region.tpf_all, ".2f"),
                _number(region.accepted_draft, ".2f"),
                str(region.loops),
                str(region.stopped_by_length),
                str(region.failed),
            )
    return table


def _amdahl_line(arm: str, page: PagesSummary, measured: Speedup | None, *, over: str) -> str:
    split = page.amdahl
    assert split is not None
    interval = ""
    if measured is not None and measured.low is not None and measured.high is not None:
        interval = f" [{measured.low:.2f}, {measured.high:.2f}]"
    return (
        f"{arm}: page speedup {split.measured:.2f}x{interval}; decode {split.decode_speedup:.2f}x on "
        f"{split.decode_share:.0%} of {over}'s page time predicts {split.predicted:.2f}x "
        f"(residual {split.residual:+.2f})"
    )


def _missing(summary: Summary) -> str:
    quality = next(iter(summary.strategies.values())).quality
    parts = summary.metrics[OVERALL].parts if OVERALL in summary.metrics else ()
    missing = [summary.metrics[name].heading for name in parts if name not in quality]
    return f"{', '.join(missing)} not scored"


def _page_table(title: str, *columns: str) -> Table:
    """Names fold rather than being cut, for arms differ at their ends."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), title=title, title_justify="left")
    for column in columns:
        left = column in ("strategy", "task")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    return table
