"""What `gravbench run` adds for pages: whose pages, where the time goes, what decoding's gain is worth."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.analysis.speed import Speedup
from gravbench.analysis.stages import STAGES, PagesSummary
from gravbench.analysis.summary import Summary
from gravbench.arms import AR
from gravbench.cli.output import ArmName
from gravbench.omnidocbench.metric_table import OVERALL


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
    table = _table("official page scores", "strategy", *(metric.heading for metric in metrics))
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
    table = _table(title, "strategy", *names)
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
    table = _table("regions of pages", *columns)
    for arm, page in pages.items():
        for task, region in page.regions.items():
            table.add_row(
                ArmName(arm),
                task,
                str(region.regions),
                str(region.tokens_out),
                _number(region.tpf_all),
                _number(region.accepted_draft),
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


def _table(title: str, *columns: str) -> Table:
    """Names fold rather than being cut, for arms differ at their ends."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), title=title, title_justify="left")
    for column in columns:
        left = column in ("strategy", "task")
        table.add_column(column, justify="left" if left else "right", overflow="fold")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
