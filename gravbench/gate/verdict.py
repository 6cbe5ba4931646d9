"""What a gate says: one verdict a rule and strategy, the outcome they add up to, for JUnit and GitHub too."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field

from gravbench.analysis.bootstrap import DetectableEffect
from gravbench.analysis.loaded import RunData
from gravbench.errors import DataError, GravbenchError, NotComparableError, VerificationError
from gravbench.records import Record
from gravbench.store.files import parse_record, read_bytes

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


MAX_ANNOTATIONS = 10
"""GitHub shows no more in a step."""

MARK: dict[Status, str] = {
    "fail": "FAIL",
    "missing": "MISSING",
    "warn": "warning",
    "inconclusive": "inconclusive",
    "pass": "pass",
    "off": "off",
}
_ORDER = list(MARK)


def step_summary(report: GateReport) -> str:
    """Markdown: outcome, problems, and a table with failures first."""
    lines = [f"## Gate on `{_cell(report.suite)}`: {report.outcome}", ""]
    for name, label in data_lines(report):
        lines += [f"{name.capitalize()}: {_cell(label)}", ""]
    lines += [f"- {_cell(problem)}" for problem in report.problems]
    if report.verdicts:
        lines += ["| result | strategy | rule | what was found |", "|---|---|---|---|"]
        lines += [
            f"| {MARK[v.status]} | `{_cell(v.arm)}` | {v.rule} | {_cell(v.found)} |"
            for v in verdict_rows(report)
        ]
    lines += ["", *(f"Note: {_cell(notice)}" for notice in report.notices)]
    return "\n".join(lines).rstrip() + "\n"


def workflow_commands(report: GateReport) -> list[str]:
    """`::error` and `::warning` lines, errors first, ten at most; the last one counts the rest."""
    found = [_command("error", "not comparable", problem) for problem in report.problems]
    for verdict in by_severity(report):
        title = f"{verdict.arm}: {verdict.rule}"
        if verdict.status in {"fail", "missing"}:
            found.append(_command("error", title, verdict.explanation))
        elif verdict.status in {"warn", "inconclusive"}:
            found.append(_command("warning", title, verdict.explanation))
    if len(found) <= MAX_ANNOTATIONS:
        return found
    left = len(found) - MAX_ANNOTATIONS + 1
    more = _command("warning", "gate", f"{left} more are in the step summary")
    return [*found[: MAX_ANNOTATIONS - 1], more]


def by_severity(report: GateReport) -> list[Verdict]:
    """Verdicts with failures first, otherwise in order."""
    return sorted(report.verdicts, key=lambda v: _ORDER.index(v.status))


GROUPS = {
    "identity": ("token_identity", "ar_identity", "regenerate", "rescore"),
    "accuracy": ("accuracy",),
    "counters": ("tau_round", "tpf_all", "accepted_draft", "forwards_per_sample"),
    "acceptance": ("draft_acceptance", "acceptance_floor"),
    "counts": ("failed", "stopped_by_length", "loops"),
    "warnings": ("warnings",),
    "speed": ("speed",),
}
"""Groups of rules as they are printed when all of them pass."""


class VerdictRow(NamedTuple):
    """A line of the table of verdicts: one verdict, or a group of rules that all passed."""

    status: Status
    arm: str
    rule: str
    found: str


def verdict_rows(report: GateReport) -> list[VerdictRow]:
    """What terminal and step summary list: every verdict that did not pass, then a line a passing group."""
    told = [v for v in by_severity(report) if v.status not in {"pass", "off"}]
    rows = [VerdictRow(v.status, v.arm, v.rule, v.explanation) for v in told]
    passed: dict[str, list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.status == "pass":
            passed.setdefault(_group_of(verdict.rule), []).append(verdict)
    return rows + [_passed(group, own) for group, own in passed.items()]


def _group_of(rule: str) -> str:
    head = rule.partition(".")[0]
    return next((group for group, rules in GROUPS.items() if head in rules), head)


def _passed(group: str, own: Sequence[Verdict]) -> VerdictRow:
    """A group in a line; of several verdicts the one closest to its limit stands for all."""
    arms = ", ".join(dict.fromkeys(v.arm for v in own))
    if len(own) == 1:
        return VerdictRow("pass", arms, own[0].rule, own[0].explanation)
    closest = min(own, key=_room)
    return VerdictRow(
        "pass", arms, group, f"{len(own)} verdicts; nearest its limit: {closest.arm} {_short(closest)}"
    )


def _room(verdict: Verdict) -> float:
    """How far from its limit a verdict passed, in parts of the limit; without numbers as far as can be."""
    if verdict.observed is None or verdict.limit is None:
        return inf
    return abs(verdict.observed - verdict.limit) / max(abs(verdict.limit), 1e-9)


def _short(verdict: Verdict) -> str:
    return f"{verdict.rule}: {verdict.explanation}"


def _command(kind: str, title: str, text: str) -> str:
    name = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={name}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _cell(text: str) -> str:
    """Text inside a Markdown table cell: no markup, no row break."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|").replace("`", "'")


_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold in any spelling."""


def junit_xml(report: GateReport) -> bytes:
    """The document. What could not be judged is an error, a failed rule a failure, an off rule skipped."""
    statuses = [verdict.status for verdict in report.verdicts]
    problems = 1 if report.problems else 0
    suite = ET.Element(
        "testsuite",
        name=_clean(f"gravbench gate {report.suite}"),
        tests=str(len(statuses) + problems),
        failures=str(statuses.count("fail")),
        errors=str(statuses.count("missing") + problems),
        skipped=str(statuses.count("off")),
    )
    named = data_lines(report)
    properties = ET.SubElement(suite, "properties") if named else suite
    for name, label in named:
        ET.SubElement(properties, "property", name=name, value=_clean(label))
    for verdict in report.verdicts:
        _case(suite, report, verdict)
    if report.problems:
        case = ET.SubElement(suite, "testcase", classname=_clean(f"gate.{report.suite}"), name="comparable")
        ET.SubElement(case, "error", message="not comparable").text = _clean("\n".join(report.problems))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'.encode()


def _case(suite: ET.Element, report: GateReport, verdict: Verdict) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(f"gate.{report.suite}.{verdict.arm}"),
        name=_clean(verdict.rule),
    )
    numbers = {"observed": verdict.observed, "limit": verdict.limit, **verdict.numbers}
    properties = ET.SubElement(case, "properties")
    for name, value in numbers.items():
        if value is not None:
            ET.SubElement(properties, "property", name=name, value=repr(value))
    text = _clean(verdict.explanation)
    if verdict.status == "fail":
        ET.SubElement(case, "failure", message=text)
    elif verdict.status == "missing":
        ET.SubElement(case, "error", message=text)
    elif verdict.status == "off":
        ET.SubElement(case, "skipped", message=text)
    else:
        ET.SubElement(case, "system-out").text = f"{verdict.status}: {text}"


def read_report(path: Path) -> GateReport | None:
    """What a gate wrote to a file: its JSON document, or its JUnit file, which names no run and no reference.

    `None` for a file of something else; `DataError` for one that is damaged.
    """
    data = read_bytes(path)
    if b"gravbench.verdict/" in data:
        return parse_record(data, GateReport, where=str(path))
    if b'name="gravbench gate ' not in data:
        return None
    try:
        suite = ET.fromstring(data).find("testsuite")
    except ET.ParseError as fault:
        raise DataError(f"{path}: {fault}", hint="Run the gate again with --junit.") from fault
    if suite is None:
        raise DataError(f"{path}: no testsuite in it", hint="Run the gate again with --junit.")
    cases = suite.findall("testcase")
    problems = [error.text or "" for case in cases for error in case.findall("error") if _whole(case)]
    verdicts = tuple(_verdict(case) for case in cases if not _whole(case))
    outcome, exit_code = outcome_of(verdicts, problems)
    return GateReport(
        mode="candidate",
        suite=str(suite.get("name")).removeprefix("gravbench gate "),
        candidate=None,
        reference="reference outputs that the JUnit file does not name",
        outcome=outcome,
        exit_code=exit_code,
        verdicts=verdicts,
        problems=tuple("\n".join(problems).splitlines()),
    )


def _whole(case: ET.Element) -> bool:
    return case.get("name") == "comparable"


def _verdict(case: ET.Element) -> Verdict:
    """The inverse of `_case`."""
    numbers = {str(p.get("name")): float(str(p.get("value"))) for p in case.iter("property")}
    told: dict[str, Status] = {"failure": "fail", "error": "missing", "skipped": "off"}
    found = next(((told[node.tag], str(node.get("message"))) for node in case if node.tag in told), None)
    if found is None:
        word, _, text = (case.findtext("system-out") or "").partition(": ")
        found = next((status for status in MARK if status == word), "pass"), text
    return Verdict(
        rule=str(case.get("name")),
        arm=str(case.get("classname")).split(".", 2)[-1],
        status=found[0],
        observed=numbers.pop("observed", None),
        limit=numbers.pop("limit", None),
        explanation=found[1],
        numbers=numbers,
    )


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
