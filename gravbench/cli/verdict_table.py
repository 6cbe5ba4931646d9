"""A gate report as text: the outcome, then every verdict with failures first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.mde import DetectableEffect
from gravbench.cli.output import rich_table
from gravbench.gate.verdict import MARK, GateReport, Status, data_lines, verdict_rows
from gravbench.reporting.tables import NONE, Cell, Table, arm, table

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
    rows: list[tuple[str | Cell, ...]] = [
        (Cell(text=MARK[row.status], style=_STYLE[row.status]), arm(row.arm), row.rule, row.found)
        for row in verdict_rows(report)
    ]
    if rows:
        columns = ("result", "strategy", "rule", "found")
        given = table("verdicts", columns, rows, left=frozenset(range(4)))
        parts.append(rich_table(given, caption=False, whole=(0,)))
    off = [f"{verdict.arm} {verdict.rule}" for verdict in report.verdicts if verdict.status == "off"]
    if off:
        parts.append(Text("not applied: " + ", ".join(off)))
    if report.mde:
        varied = [effect for effect in report.mde if effect.power]
        parts += [rich_table(_power_table(varied))] if varied else []
        names = [effect.name for effect in report.mde if not effect.power]
        parts += [Text(f"no variance to judge from: {name}") for name in names]
    return [*parts, *(Text(f"note: {notice}") for notice in report.notices)]


def _power_table(effects: Sequence[DetectableEffect]) -> Table:
    rows: list[tuple[str | Cell, ...]] = [
        (
            effect.name,
            *(f"{p:.2f}" for p in effect.power),
            NONE if effect.mde is None else f"{effect.mde:.1%}",
            str(effect.n),
        )
        for effect in effects
    ]
    drops = (f"{drop:.0%}" for drop in effects[0].drops)
    title = "chance to fail at a true drop, and the drop found 95 times in 100"
    return table(title, ("rule, variance of", *drops, "found", "n"), rows)
