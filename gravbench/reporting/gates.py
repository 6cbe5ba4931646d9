"""What the gate says of each run: its verdict, the rules a reader must look at, and the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gravbench.reporting.document import GatePart, GateRow, GateStatus, ReportDocument
from gravbench.reporting.tables import NONE, Cell, Table, table
from gravbench.reporting.verdicts import Mood

_SHOWN: dict[GateStatus, tuple[str, int]] = {
    "fail": ("FAIL", -3),
    "missing": ("MISSING", -3),
    "warn": ("warning", -1),
    "inconclusive": ("inconclusive", -1),
    "pass": ("pass", 1),
}
"""Status -> its word and its tint, most serious first; rules that are off stand below the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGate:
    """The gate of one run: `table` of rules a reader must look at, `passed` of the others.

    `remarks` are its problems, its notices and the rules it did not apply.
    """

    title: str
    answer: str
    mood: Mood
    detail: str
    table: Table | None
    passed: Table | None
    remarks: tuple[str, ...]


def shown_gates(document: ReportDocument) -> list[ShownGate]:
    """One a run that went through a gate; none of documents that have no word of it."""
    several = len(document.runs) > 1
    return [
        _shown(run.gate, name=run.name if several else "") for run in document.runs if run.gate is not None
    ]


def _shown(gate: GatePart, *, name: str) -> ShownGate:
    of = f" of {name}" if name else ""
    judged = [row for row in gate.rows if row.status in _SHOWN]
    order = list(_SHOWN)
    judged.sort(key=lambda row: order.index(row.status))
    answer, mood, detail = _outcome(gate, judged)
    return ShownGate(
        title=f"Gate{of}",
        answer=answer,
        mood=mood,
        detail=detail,
        table=_table(f"Gate{of}: verdicts", [row for row in judged if row.status != "pass"]),
        passed=_table(f"Gate{of}: rules that passed", [row for row in judged if row.status == "pass"]),
        remarks=(*gate.problems, *_not_applied(gate), *gate.notices),
    )


def _outcome(gate: GatePart, judged: list[GateRow]) -> tuple[str, Mood, str]:
    if gate.reference is None:
        return "no reference", "unclear", "There were no reference outputs to hold this run against."
    if gate.outcome is None:
        detail = (
            f"Nobody asked for a gate, and {gate.reference}, which ships for this suite, is of another run."
        )
        return "not gated", "unclear", detail
    against = f"Held against {gate.reference}"
    if gate.outcome == "not-comparable":
        return "not comparable, not a pass", "no", f"{against}."
    counts = Counter(row.status for row in judged)
    counted = ", ".join(f"{counts[status]} {word}" for status, (word, _) in _SHOWN.items() if counts[status])
    failed = gate.outcome == "fail"
    return "FAIL" if failed else "pass", "no" if failed else "yes", f"{against}: {counted}."


def _table(caption: str, rows: list[GateRow]) -> Table | None:
    columns = ("verdict", "strategy", "rule", "observed", "limit", "explanation")
    return table(caption, columns, [_cells(r) for r in rows], left=frozenset({0, 1, 2, 5})) if rows else None


def _cells(row: GateRow) -> tuple[str | Cell, ...]:
    word, tint = _SHOWN[row.status]
    numbers = (_plain(row.observed), _plain(row.limit))
    return (Cell(text=word, tint=tint), row.arm, row.rule, *numbers, row.explanation)


def _plain(value: float | None) -> str:
    return NONE if value is None else f"{value:.4g}"


def _not_applied(gate: GatePart) -> tuple[str, ...]:
    off = [f"{row.arm} {row.rule}" for row in gate.rows if row.status == "off"]
    return (f"Not applied: {', '.join(off)}.",) if off else ()
