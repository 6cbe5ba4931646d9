"""What other tools read of a gate: JUnit XML, step summary, annotations, exit codes."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.errors import DataError
from gravbench.gate.verdict import (
    MARK,
    MAX_ANNOTATIONS,
    GateReport,
    Status,
    Verdict,
    at_level,
    junit_xml,
    outcome_of,
    read_report,
    step_summary,
    workflow_commands,
)
from gravbench.store.schema import canonical_json

NASTY = "a <b> & \x00 \ud800 | `c` \u202e ]]> 100% done\r\n::error::x"


def verdict(status: Status, *, rule: str = "loops", text: str = "found") -> Verdict:
    return Verdict(rule=rule, arm="selfspec", status=status, observed=1.0, limit=0.5, explanation=text)


def report(*verdicts: Verdict, problems: tuple[str, ...] = ()) -> GateReport:
    outcome, code = outcome_of(verdicts, problems)
    return GateReport(
        mode="candidate",
        suite="smoke",
        candidate="runs/x",
        reference="reference_outputs/smoke",
        outcome=outcome,
        exit_code=code,
        verdicts=verdicts,
        problems=problems,
    )


@pytest.mark.parametrize(
    ("statuses", "problems", "code"),
    [
        (("pass",), (), 0),
        (("pass", "inconclusive", "warn", "off"), (), 0),
        (("pass", "fail", "missing"), (), 1),
        (("pass", "missing"), (), 3),
        ((), ("samples missing",), 3),
        (("pass",), ("samples missing",), 3),
        ((), (), 3),
        (("off",), (), 3),
    ],
)
def test_exit_codes(statuses: tuple[Status, ...], problems: tuple[str, ...], code: int) -> None:
    assert outcome_of([verdict(s) for s in statuses], problems)[1] == code


def test_advisory_level_turns_failures_into_warnings_only() -> None:
    assert [at_level(verdict(s), "warn").status for s in ("fail", "missing", "pass")] == [
        "warn",
        "warn",
        "pass",
    ]
    assert at_level(verdict("fail"), "fail").status == "fail"


def test_junit_counts_and_carries_numbers() -> None:
    root = ET.fromstring(
        junit_xml(
            report(verdict("fail"), verdict("missing"), verdict("off"), verdict("warn"), verdict("pass"))
        )
    )
    (suite,) = root
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    first = suite.find("testcase/properties/property[@name='observed']")
    assert first is not None
    assert first.get("value") == "1.0"


def test_a_file_of_the_gate_is_read_back(tmp_path: Path) -> None:
    """JSON whole; JUnit but for what it does not hold; a file of something else is none."""
    whole = report(*(verdict(status, rule=f"r-{status}", text=f"is: {status}") for status in MARK))
    path = tmp_path / "verdict.json"
    path.write_bytes(canonical_json(whole.model_dump(mode="json", by_alias=True, exclude_none=True)))
    assert read_report(path) == whole
    path.write_bytes(junit_xml(whole))
    read = read_report(path)
    assert read is not None
    assert (read.verdicts, read.outcome, read.suite) == (whole.verdicts, whole.outcome, whole.suite)
    path.write_bytes(junit_xml(report(problems=("one", "two"))))
    read = read_report(path)
    assert read is not None
    assert (read.problems, read.outcome, read.verdicts) == (("one", "two"), "not-comparable", ())
    path.write_bytes(b"{}")
    assert read_report(path) is None
    path.write_bytes(junit_xml(whole)[:-20])
    with pytest.raises(DataError):
        read_report(path)


def test_junit_of_an_incomparable_run_is_an_error() -> None:
    root = ET.fromstring(junit_xml(report(problems=("sample missing",))))
    assert root.find(".//error") is not None


@given(st.text())
def test_junit_parses_whatever_a_sample_is_called(text: str) -> None:
    ET.fromstring(junit_xml(report(verdict("fail", text=text), problems=())))
    ET.fromstring(junit_xml(report(problems=(text,))))


def test_step_summary_puts_failures_first_and_escapes() -> None:
    text = step_summary(report(verdict("pass"), verdict("fail", rule="speed", text=NASTY)))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "result" not in line]
    assert rows[0].startswith("| FAIL")
    assert "<b>" not in text
    assert rows[0].count("|") - rows[0].count("\\|") == 5


def test_annotations_are_ten_at_most_with_errors_first() -> None:
    many = [verdict("warn", rule=f"w{i}") for i in range(8)] + [
        verdict("fail", rule=f"f{i}") for i in range(8)
    ]
    lines = workflow_commands(report(*many))
    assert len(lines) == MAX_ANNOTATIONS
    assert all(line.startswith("::error") for line in lines[:8])
    assert "7 more" in lines[-1]


def test_annotation_is_one_line_and_cannot_start_another_command() -> None:
    (line,) = workflow_commands(report(verdict("fail", rule="a,b:c", text=NASTY)))
    assert "\n" not in line
    assert "\r" not in line
    assert line.startswith("::error title=selfspec%3A a%2Cb%3Ac::")


def test_pass_needs_no_annotation() -> None:
    assert workflow_commands(report(verdict("pass"), verdict("off"))) == []
