"""A gate report as text: the outcome, then every verdict with failures first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from gravbench.analysis.mde import DetectableEffect
from gravbench.cli.output import ArmName
from gravbench.gate.verdict import MARK, GateReport, Status, data_lines, verdict_rows

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
    parts += [Text(f"{name}: {label}", style="bold") for name, label in data_lines(report)]
    parts += [Text(f"- {problem}") for problem in report.problems]
    shown = verdict_rows(report)
    if shown:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
        for column in ("result", "strategy", "rule"):
            table.add_column(column, no_wrap=column == "result", overflow="fold")
        table.add_column("found", overflow="fold")
        for v in shown:
            mark = Text(MARK[v.status], style=_STYLE[v.status])
            table.add_row(mark, ArmName(v.arm), Text(v.rule), Text(v.found))
        parts.append(table)
    off = [f"{verdict.arm} {verdict.rule}" for verdict in report.verdicts if verdict.status == "off"]
    if off:
        parts.append(Text("not applied: " + ", ".join(off)))
    if report.mde:
        varied = [effect for effect in report.mde if effect.power]
        parts += [_mde_table(varied)] if varied else []
        names = [effect.name for effect in report.mde if not effect.power]
        parts += [Text(f"no variance to judge from: {name}") for name in names]
    return [*parts, *(Text(f"note: {notice}") for notice in report.notices)]


def _mde_table(effects: Sequence[DetectableEffect]) -> Table:
    drops = effects[0].drops
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
    for effect in effects:
        found = "-" if effect.mde is None else f"{effect.mde:.1%}"
        table.add_row(Text(effect.name), *(f"{p:.2f}" for p in effect.power), found, str(effect.n))
    return table
