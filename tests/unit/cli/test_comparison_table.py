"""Tables of `compare`: 100 columns with long names, and nothing said twice that did not change."""

import io
from pathlib import Path

from report_support import loaded, plain_records
from rich.console import Console
from verdict_support import SAMPLES, doctored, make_run, with_text

from gravbench.analysis.compare import compare_one
from gravbench.analysis.loaded import LoadedRun
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.comparison_table import comparison_parts


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
    assert {"selfspec:block=16", "selfspec:block=16,", "batch=4", "committed", "forwards"} <= words
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
