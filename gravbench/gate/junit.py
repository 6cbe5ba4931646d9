"""A gate report as JUnit XML: one test case a rule and strategy, the numbers as properties."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from gravbench.gate.verdict import GateReport, Verdict, data_lines

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


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
