"""The gate on the page: outcome, table, and what stands there when there was nothing to judge."""

import json

from lxml import html
from report_support import QUICK, document_of, loaded, plain_document, plain_records

from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.document import GatePart, GateRow, ReportDocument
from gravbench.reporting.gates import shown_gates
from gravbench.reporting.html import render_report
from gravbench.store.schema import record_bytes

FAILED = GatePart(
    reference="reference_outputs/fake",
    outcome="fail",
    rows=(
        GateRow(status="pass", arm="ar", rule="failed", observed=0, limit=0, explanation="0 of 4 samples"),
        GateRow(status="off", arm="ar", rule="speed", observed=None, limit=None, explanation="not applied"),
        GateRow(
            status="fail",
            arm="<b>selfspec</b>",
            rule="tau_round",
            observed=0.93456,
            limit=0.99,
            explanation="upper bound 0.95",
        ),
    ),
    notices=("threads is 2, the reference was made with 1",),
)


def gated(gate: GatePart | None) -> ReportDocument:
    run = loaded(plain_records(4))
    return build_document([ReportInput(run=run, name="run", options=QUICK, gate=gate)])


def gate_of(document: ReportDocument) -> html.HtmlElement:
    (found,) = html.fromstring(render_report(document)).xpath("//div[@class='gate']")
    return found


def test_failures_come_first_with_what_was_held_against_which_limit() -> None:
    found = gate_of(gated(FAILED))
    (row,) = found.xpath("./div//tbody/tr")
    said = [cell.text_content() for cell in row]
    assert said == ["FAIL", "<b>selfspec</b>", "tau_round", "0.9346", "0.99", "upper bound 0.95"]
    (row,) = found.xpath("./details//tbody/tr")
    assert [cell.text_content() for cell in row][:3] == ["pass", "ar", "failed"]
    said = found.text_content()
    assert "FAIL Held against reference_outputs/fake: 1 FAIL, 1 pass." in said
    assert "Not applied: ar speed." in said
    assert "threads is 2" in said


def test_the_gate_stands_above_the_answers() -> None:
    page = render_report(gated(FAILED))
    assert page.index('class="gate"') < page.index('class="card"') < page.index('id="speed"')


def test_unlike_run_and_reference_are_no_pass_and_say_why() -> None:
    gate = GatePart(
        reference="there", outcome="not-comparable", problems=("suite is a, the reference has b",)
    )
    said = gate_of(gated(gate)).text_content()
    assert "not comparable, not a pass" in said
    assert "suite is a, the reference has b" in said


def test_without_a_reference_the_page_says_so() -> None:
    said = gate_of(gated(GatePart(reference=None, outcome=None))).text_content()
    assert "no reference outputs to hold this run against" in said


def test_every_run_has_its_own_gate() -> None:
    run = loaded(plain_records(4))
    page = render_report(
        build_document([ReportInput(run=run, name=name, options=QUICK, gate=FAILED) for name in ("a", "b")])
    )
    titles = html.fromstring(page).xpath("//div[@class='gate']/h3/text()")
    assert titles == ["Gate of a", "Gate of b"]


def test_documents_from_before_the_gate_still_render() -> None:
    stored = json.loads(record_bytes(plain_document(4)))
    del stored["intervals"]
    for run in stored["runs"]:
        run.pop("gate", None)
    page = render_report(ReportDocument.model_validate(stored))
    assert 'class="gate"' not in page
    assert "Intervals are 95 % BCa bootstrap intervals over pages" in page


def test_the_interval_is_called_what_it_is() -> None:
    page = render_report(document_of(loaded(plain_records(4))))
    assert "bootstrap intervals over pages, BCa widened to expanded percentiles" in page


def test_a_run_that_nobody_gated_has_no_red_gate() -> None:
    """The shipped reference of its suite has other strategies: that is no failure of a sweep."""
    document = plain_document()
    part = GatePart(reference="reference_outputs/fake", outcome=None, problems=("strategy 'x' extra",))
    run = document.runs[0].model_copy(update={"gate": part})
    (shown,) = shown_gates(document.model_copy(update={"runs": (run,)}))
    assert (shown.answer, shown.mood) == ("not gated", "unclear")
    assert shown.remarks == ("strategy 'x' extra",)
