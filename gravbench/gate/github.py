"""A gate report for GitHub Actions: a step summary in Markdown, and at most ten annotation lines."""

from __future__ import annotations

from gravbench.gate.verdict import GateReport, Status, Verdict, data_lines

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
            f"| {MARK[v.status]} | `{_cell(v.arm)}` | {v.rule} | {_cell(v.explanation)} |"
            for v in by_severity(report)
            if v.status != "off"
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


def _command(kind: str, title: str, text: str) -> str:
    name = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{kind} title={name}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _cell(text: str) -> str:
    """Text inside a Markdown table cell: no markup, no row break."""
    plain = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return plain.replace("|", "\\|").replace("`", "'")
