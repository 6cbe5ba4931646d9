"""Runs of one suite over commits: their order, what is left out or hidden with its reason, the page."""

import base64
import hashlib
from typing import Any

import pytest
from lxml import html
from report_support import HOSTILE, document_of, loaded, plain_records

from gravbench.errors import DataError
from gravbench.reporting.document import GatePart, GateRow, RunPart
from gravbench.reporting.history import Found, Omitted, build_history, history_claim, render_history


@pytest.fixture(scope="module")
def run() -> RunPart:
    return document_of(loaded(plain_records(6))).runs[0]


def found(run: RunPart, name: str, day: int, **changes: Any) -> Found:
    """A run begun on a day of 2026-03; `identity`, `environment` and `signatures` are added to its own."""
    added = {
        key: {**getattr(run, key), **changes.pop(key)}
        for key in ("identity", "environment", "signatures")
        if key in changes
    }
    begun = f"2026-03-{day:02}T10:00:00+00:00"
    update = {"run_id": name, "created_utc": begun, **added, **changes}
    return Found(place=name, run=run.model_copy(update=update))


def git(commit: str, day: int, *, dirty: bool = False) -> dict[str, Any]:
    dirt = "abc" if dirty else None
    return {"git": {"commit": commit * 40, "committed_utc": f"2026-01-{day:02}", "dirty_diff_sha": dirt}}


def page_of(*runs: Found, omitted: tuple[Omitted, ...] = ()) -> Any:
    history = build_history(runs, omitted)
    return html.fromstring(render_history(history, title="t", commands=("c",), version="0"))


def test_runs_stand_in_the_order_of_their_commits_and_else_of_their_start(run: RunPart) -> None:
    by_start = [found(run, name, day) for name, day in (("b", 9), ("c", 20), ("a", 3))]
    assert [one.place for one in build_history(by_start).runs] == ["a", "b", "c"]
    days = (("late", 1, 20), ("early", 25, 4), ("middle", 9, 12))
    by_commit = [found(run, name, begun, environment=git("d", day)) for name, begun, day in days]
    assert [one.place for one in build_history(by_commit).runs] == ["early", "middle", "late"]


def test_a_changed_tree_is_told_from_its_commit(run: RunPart) -> None:
    clean, dirty = (found(run, "x", 1, environment=git("e", 1, dirty=d)) for d in (False, True))
    assert (clean.commit, dirty.commit) == ("e" * 9, "e" * 9 + "+")
    assert found(run, "x", 1).commit == "v0"


def test_the_question_of_most_runs_is_shown_and_others_are_left_out_with_their_reason(run: RunPart) -> None:
    runs = [
        found(run, "a", 1),
        found(run, "b", 2),
        found(run, "other", 8, identity={"suite": "pages", "scorer": "y"}),
        found(run, "rescored", 9, identity={"scorer": "crops-other"}),
        found(run, "copy", 3, run_id="a"),
    ]
    history = build_history(runs, [Omitted(what="broken", reason="torn")])
    assert [one.place for one in history.runs] == ["a", "b"]
    assert {one.what: one.reason for one in history.omitted} == {
        "broken": "torn",
        "other": "suite is pages, not fake",
        "rescored": "scorer is crops-other, not crops-fake",
        "copy": "the same run as a",
    }
    assert build_history(runs[1:3]).runs[0].place == "other"  # as many of either: the newest asks


def test_values_that_do_not_compare_with_the_newest_run_are_hidden_with_their_reason(run: RunPart) -> None:
    old = found(run, "old", 1, signatures={"text_ned": "ned|v:0"}, identity={"device": "cuda"})
    history = build_history([old, found(run, "new", 2)])
    shown = {(p.found.place, p.arm): p for p in history.points}
    assert shown["old", "selfspec"].quality is None
    assert shown["old", "selfspec"].speedup is None
    assert shown["old", "selfspec"].accepted == shown["new", "selfspec"].accepted is not None
    assert shown["new", "selfspec"].speedup is not None
    reasons = {one.what: one.reason for one in history.omitted}
    assert (
        reasons["old, selfspec: quality"] == "text NED was scored as ned|v:0, in the newest run as ned|fake"
    )
    assert reasons["old, selfspec: decode speedup"] == "device is cuda, in the newest run cpu"
    assert not any(what.startswith("new") for what in reasons)


def test_the_gate_of_every_run_stands_in_claim_chart_and_table(run: RunPart) -> None:
    rows = tuple(
        GateRow(status=status, arm="selfspec", rule=rule, observed=1, limit=2, explanation="x")
        for status, rule in (("fail", "tau_round"), ("pass", "loops"), ("missing", "speed"))
    )
    gates = [
        GatePart(reference="r", outcome="pass"),
        GatePart(reference="r", outcome="fail", rows=rows),
        GatePart(reference="r", outcome="not-comparable", problems=("other weights",)),
        None,
    ]
    runs = [
        found(run, f"r{i}", i + 1, gate=gate, environment=git(f"{i}", i + 1)) for i, gate in enumerate(gates)
    ]
    claim = history_claim(build_history(runs))
    assert "selfspec over 4 runs: text NED 75.00 → 75.00 points; accepted_draft" in claim
    assert claim.endswith("Gate: 1 FAIL, 1 not comparable, 1 not gated, 1 pass.")
    page = page_of(*runs)
    cells = [row.xpath("string(td[last()])") for row in page.xpath("//tbody[1]/tr[th]")][:8]
    assert cells[::2] == ["not gated", "not comparable", "FAIL: selfspec tau_round; selfspec speed", "pass"]
    assert len(page.xpath("//figure//*[local-name()='text'][. = '111111111 ✗']")) == 3
    assert "other weights" in page.xpath("string(//table[caption='Left out or hidden'])")


def test_the_page_runs_nothing_and_shows_hostile_text_as_text(run: RunPart) -> None:
    model = {**run.model, "model": HOSTILE[0]}
    page = page_of(
        found(run, HOSTILE[1], 1, model=model), omitted=(Omitted(what=HOSTILE[2], reason=HOSTILE[3]),)
    )
    assert not page.xpath("//script | //iframe | //link | //*[@onerror] | //*[@onload] | //@style")
    text = page.text_content()
    assert all(one in text for one in HOSTILE[:4])
    (policy,) = page.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    digest = base64.b64encode(hashlib.sha256(page.findtext(".//style").encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; ")
    assert "script-src" not in policy


def test_without_a_run_there_is_no_history() -> None:
    with pytest.raises(DataError, match="x: torn"):
        build_history([], [Omitted(what="x", reason="torn")])
