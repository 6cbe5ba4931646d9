"""What a gate says: one verdict a rule and strategy, and the outcome they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from gravbench.analysis.mde import DetectableEffect
from gravbench.analysis.run_data import RunData
from gravbench.errors import GravbenchError, NotComparableError, VerificationError
from gravbench.records import Record

Status = Literal["pass", "inconclusive", "warn", "missing", "fail", "off"]
"""`warn` is a failed advisory rule; `inconclusive` passes with a notice; `missing` could not be judged."""

Level = Literal["fail", "warn", "off"]
Mode = Literal["candidate", "rescore", "regenerate"]
Outcome = Literal["pass", "fail", "not-comparable"]


class Verdict(Record):
    """One rule on one strategy. `observed` was held against `limit`; `explanation` says how."""

    rule: str
    arm: str
    status: Status
    observed: float | None = None
    limit: float | None = None
    explanation: str
    numbers: dict[str, float] = Field(default_factory=dict)


class GateReport(Record):
    """`gravbench.verdict/1`. `problems` say why nothing was judged; then `verdicts` is empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.verdict/1"] = Field(default="gravbench.verdict/1", alias="schema")
    mode: Mode
    suite: str
    candidate: str | None
    reference: str
    outcome: Outcome
    exit_code: int
    verdicts: tuple[Verdict, ...]
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    mde: tuple[DetectableEffect, ...] = ()
    data: RunData | None = None
    """Page data of what was judged; absent for suites without pages."""
    reference_data: RunData | None = None
    """Page data of the reference; absent likewise, and where the reference is older than the field."""


def data_lines(report: GateReport) -> tuple[tuple[str, str], ...]:
    """(name, label) of the page data judged, and of the reference's where it goes by another name."""
    own, theirs = report.data, report.reference_data
    lines = [("data", own.label)] if own is not None else []
    if theirs is not None and (own is None or theirs.label != own.label):
        lines.append(("data of the reference", theirs.label))
    return tuple(lines)


def outcome_of(verdicts: Sequence[Verdict], problems: Sequence[str]) -> tuple[Outcome, int]:
    """Outcome and exit code: problems first, then failures, then rules that could not be judged.

    No verdict at all is not a pass.
    """
    statuses = {verdict.status for verdict in verdicts}
    if problems:
        return "not-comparable", NotComparableError.exit_code
    if "fail" in statuses:
        return "fail", VerificationError.exit_code
    if "missing" in statuses or not statuses - {"off"}:
        return "not-comparable", NotComparableError.exit_code
    return "pass", 0


def unjudged(
    mode: Mode, error: GravbenchError, *, candidate: str | None, reference: Path | None
) -> GateReport:
    """What is said when run or reference could not be loaded: its problem, under the error's exit code."""
    problem = error.message if error.hint is None else f"{error.message}. {error.hint}"
    return GateReport(
        mode=mode,
        suite=reference.name if reference is not None else "unknown",
        candidate=candidate,
        reference=str(reference) if reference is not None else "the reference outputs of its suite",
        outcome="not-comparable",
        exit_code=error.exit_code,
        verdicts=(),
        problems=(problem,),
    )


def at_level(verdict: Verdict, level: Level) -> Verdict:
    """The verdict under its rule's level: an advisory failure, or one that cannot be judged, is a warning."""
    if level == "warn" and verdict.status in {"fail", "missing"}:
        return verdict.model_copy(update={"status": "warn"})
    return verdict
