"""Tables of `compare`: 100 columns with long names, and nothing said twice that did not change."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import failed_record, hidden_rounds_record, loaded, plain_records
from rich.console import Console
from verdict_support import SAMPLES, doctored, make_run, with_text

from gravbench.analysis.comparison import compare_one, compare_runs
from gravbench.analysis.loaded import LoadedRun
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.app import run_command_line
from gravbench.cli.compare_command import comparison_parts
from gravbench.scorers.contract import Note


def printed(run: LoadedRun) -> str:
    console = Console(file=io.StringIO(), width=100)
    for part in comparison_parts(compare_one(run, AnalysisOptions(resamples=100))):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_heads_and_names_are_never_broken_inside_a_word() -> None:
    records = plain_records(12)
    ar, own = records["ar"], records["selfspec"]
    long = "selfspec:block=16,batch=4"
    arms = {
        "ar": ar,
        "selfspec:block=16": [r.model_copy(update={"arm": "selfspec:block=16"}) for r in own],
        "ar:batch=4": [r.model_copy(update={"arm": "ar:batch=4"}) for r in ar],
        long: [r.model_copy(update={"arm": long}) for r in own],
    }
    text = printed(loaded(arms))
    words = set(text.split())
    assert {"selfspec:block=16", long, "ar:batch=4", "accepted_draft", "forwards"} <= words
    assert not {"roun", "d", "e", "sampl"} & words
    assert max(map(len, text.splitlines())) <= 100


def test_metrics_that_did_not_change_are_one_line_a_strategy(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    assert printed(run).count("unchanged") == 1
    assert "sign-flip" in printed(run)
    changed = doctored(
        tmp_path / "a",
        tmp_path / "b",
        edit=lambda line: with_text(line, "other") if line["arm"] == "selfspec" else line,
        samples=SAMPLES,
    )
    assert "unchanged" not in printed(changed)


def test_ar_against_ar_of_two_runs_is_a_row_and_is_not_called_unmeasured(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = ("run", "--suite", "smoke", "--backend", "toy", "--limit", "3", "--quiet")
    for name, arm in (("a", "ar"), ("b", "ar:batch=2")):
        assert run_command_line([*run, "--strategy", arm, "--out", str(tmp_path / name)]) == 0
    page = tmp_path / "page.html"
    pair = ("--base-arm", "ar", "--own-arm", "ar:batch=2", "--resamples", "200", "--report", str(page))
    assert run_command_line(["compare", str(tmp_path / "a"), str(tmp_path / "b"), *pair]) == 0
    assert "ar:batch=2 against ar" in page.read_text(encoding="utf-8")
    out = capfd.readouterr().out
    assert "B against A, ar:batch=2 against ar: " in out
    assert "not measured" not in out
    assert "same text in 3 of 3 samples" in " ".join(out.split())
    assert re.search(r"ar:batch=2 against ar +- +- +3 +0 > 0", out)


QUICK = AnalysisOptions(resamples=100)


def two_models() -> list[str]:
    """Lines of a comparison of two models, the second of which reads worse and drafts less."""
    a = loaded(plain_records(12))
    b = loaded(plain_records(12, accepted=1), value=lambda _: 0.5, model_digest="n" * 64)
    console = Console(file=io.StringIO(), width=100)
    for part in comparison_parts(compare_runs(a, b, QUICK)):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_two_models_are_named_and_what_differs_between_them_comes_before_every_table() -> None:
    lines = two_models()
    assert lines[0] == f"A: fake, model fake ({'m' * 12})"
    assert lines[1] == f"B: fake, model fake ({'n' * 12})"
    text = " ".join(lines)
    sentence = text[text.index("B against A, selfspec:") : text.index("settings that differ")]
    assert "text NED -25.00 [-25.00, -25.00] points" in sentence
    assert "same text in 12 of 12 samples" in sentence
    assert re.search(r"decode speedup over ar \d\.\d\dx against \d\.\d\dx, \d\.\d\dx", sentence)


def test_a_run_with_failed_samples_says_so_in_its_first_line() -> None:
    records = plain_records(12)
    records["selfspec"][3] = failed_record("s-0003", "selfspec")
    first, *_ = printed(loaded(records)).splitlines()
    assert first == "FAILED samples: 1 of 12 in selfspec; they score worst (fake)"


def test_what_was_not_seen_is_said_in_plain_words() -> None:
    text = " ".join(printed(loaded(plain_records(12))).split())
    assert "whether the machine held still was not measured: that takes 24 pairs" in text
    for unclear in ("not surely", "own", "steady"):
        assert not re.search(rf"\b{unclear}\b", text)


def test_scorer_notes_are_shown_by_page_element_value_reason_and_next_step() -> None:
    """The first three by name, and how many more; of several strategies once."""
    note = Note(element="table 1", value=0.0, reason="LaTeXML is missing", next_step="Install latexml.")
    run = loaded(plain_records(6))
    scores = {
        key: tuple(s.model_copy(update={"notes": (note,)}) for s in own) for key, own in run.scores.items()
    }
    noted = replace(run, scores=scores)
    text = printed(noted)
    assert "scorer: s-0000, table 1 (text_ned): 0.0000, LaTeXML is missing. Install latexml." in text
    assert "scorer: and 3 more notes; --json lists all" in text
    found = compare_one(noted, QUICK).base.score_notes
    assert (len(found), found[0].arms) == (6, ("ar", "selfspec"))
    assert printed(run).count("scorer:") == 0


def test_an_engine_that_hides_its_rounds_shows_totals_and_says_what_is_missing() -> None:
    records = plain_records(12)
    records["selfspec"] = [hidden_rounds_record(r.sample_id, "selfspec", r.text) for r in records["selfspec"]]
    run = loaded(records)
    text = " ".join(printed(run).split())
    assert "selfspec: same tokens as ar on 12 of 12 samples." in text
    assert re.search(r"selfspec decode [0-9.]+x", text)
    assert "note: selfspec: the engine hid the rounds of 12 of 12 samples: their totals are counted" in text
    (_, own) = compare_one(run, QUICK).base.arms
    assert (own.acceptance, own.counters.get("tau_round"), own.counters.get("tpf_all")) == (None, None, None)
    mixed = plain_records(12)
    mixed["selfspec"][0] = records["selfspec"][0]
    (_, part) = compare_one(loaded(mixed), QUICK).base.arms
    (_, whole) = compare_one(loaded(plain_records(12)), QUICK).base.arms
    assert part.counters["tau_round"].value == pytest.approx(whole.counters["tau_round"].value, rel=0.2)
