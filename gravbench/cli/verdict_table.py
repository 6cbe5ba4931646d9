"""A gate report as text: the outcome, then every verdict with failures first."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.cli.summary_table import name_text
from gravbench.gate.github import MARK, by_severity
from gravbench.gate.verdict import GateReport, Status

_STYLE: dict[Status, str] = {
    "fail": "bold red",
    "missing": "bold red",
    "warn": "yellow",
    "inconclusive": "yellow",
    "pass": "green",
    "off": "dim",
}
_OUTCOME = {
    "pass": "PASS",
    "fail": "FAIL",
    "not-comparable": "NOT COMPARABLE, not a pass",
}


def verdict_parts(report: GateReport) -> list[RenderableType]:
    """Everything `gravbench gate` prints, top to bottom."""
    against = f" of {report.candidate}" if report.candidate else ""
    title = f"gate ({report.mode}){against} against {report.reference}: {_OUTCOME[report.outcome]}"
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [Text(f"- {problem}") for problem in report.problems]
    shown = [verdict for verdict in by_severity(report) if verdict.status != "off"]
    if shown:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for column in ("result", "strategy", "rule"):
            table.add_column(column, no_wrap=column != "rule", overflow="fold")
        table.add_column("found", overflow="fold")
        for v in shown:
            mark = Text(MARK[v.status], style=_STYLE[v.status])
            table.add_row(mark, name_text(v.arm), Text(v.rule), Text(v.explanation))
        parts.append(table)
    off = [f"{verdict.arm} {verdict.rule}" for verdict in report.verdicts if verdict.status == "off"]
    if off:
        parts.append(Text("not applied: " + ", ".join(off)))
    if report.mde:
        parts.append(_mde_table(report))
    return [*parts, *(Text(f"note: {notice}") for notice in report.notices)]


def _mde_table(report: GateReport) -> Table:
    drops = report.mde[0].drops
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
        title="chance to fail at a true drop, and the drop found 95 times in 100",
        title_justify="left",
    )
    table.add_column("rule, variance of", overflow="fold")
    for drop in drops:
        table.add_column(f"{drop:.0%}", justify="right")
    table.add_column("found", justify="right")
    table.add_column("n", justify="right")
    for effect in report.mde:
        found = "-" if effect.mde is None else f"{effect.mde:.1%}"
        table.add_row(Text(effect.name), *(f"{p:.2f}" for p in effect.power), found, str(effect.n))
    return table
