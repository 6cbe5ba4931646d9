import io
import re

import pytest
from rich.console import Console
from run_support import FakeBackend, run_fake

from gravbench.cli.output import ArmName
from gravbench.cli.progress import PlainProgress
from gravbench.cli.summary_table import summary_parts


def rendered(summary, *, width: int = 100) -> str:  # type: ignore[no-untyped-def]
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False)
    for part in summary_parts(summary):
        console.print(part)
    return stream.getvalue()


def test_table_fits_100_columns_without_colour(tmp_path) -> None:  # type: ignore[no-untyped-def]
    strategies = ("ar", "selfspec:block=16", "selfspec:block=32,legacy=1")
    outcome = run_fake(tmp_path / "r", samples=24, strategies=strategies)
    text = rendered(outcome.summary)
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    for word in (
        *strategies[:2],
        "block=32,",
        "legacy=1",
        "tpf_all",
        "accepted_draft",
        "tau_round",
        "decode speedup",
        "request",
        "speedup",
        "failed",
    ):
        assert word in text
    assert "24/24 (100.0%)" in text
    assert re.search(r"\d\.\d\dx \[\d\.\d\d, \d\.\d\d\]", text)


def test_every_speedup_of_a_batched_run_names_what_it_is_over(tmp_path) -> None:  # type: ignore[no-untyped-def]
    strategies = ("ar", "ar:batch=4", "selfspec:batch=4", "selfspec:batch=2")
    summary = run_fake(tmp_path / "r", samples=12, strategies=strategies).summary
    text = " ".join(rendered(summary, width=140).split())
    assert re.search(r"ar:batch=4 over ar 1\.00 - 1\.00 1\.00x", text)
    assert re.search(r"selfspec:batch=4 [0-9. ]+ \d\.\d\dx", text)
    assert re.search(r"selfspec:batch=2 [0-9. ]+ - -", text)
    assert "A strategy is timed over ar at the same batch size; ar:batch=N over ar is the gain" in text
    assert "warning: selfspec:batch=2: no ar arm at batch size 2" in text
    assert max(map(len, rendered(summary).splitlines())) <= 100


ARMS = ("ar", "ar:batch=4", "selfspec:block=16,batch=4", "selfspec:block=32,batch=4")


@pytest.mark.parametrize("width", [80, 100])
def test_arms_that_differ_at_their_ends_stay_apart_in_every_table(width: int, tmp_path) -> None:  # type: ignore[no-untyped-def]
    summary = run_fake(tmp_path / "r", samples=6, strategies=ARMS).summary
    text = rendered(summary, width=width)
    assert "…" not in text
    for arm in ARMS:
        assert ArmName(arm).lines(200) == [arm]
        narrow = ArmName(arm).lines(10)
        assert "".join(narrow) == arm
        assert all(len(line) <= 10 or ":" not in line[:-1] for line in narrow)
        assert text.count(narrow[-1]) >= 3
    assert max(map(len, text.splitlines())) <= width


def test_the_legend_of_a_plain_run_speaks_of_no_batch(tmp_path) -> None:  # type: ignore[no-untyped-def]
    assert "batch" not in rendered(run_fake(tmp_path / "r").summary)


def test_what_was_not_measured_is_a_dash_and_warnings_are_words(tmp_path) -> None:  # type: ignore[no-untyped-def]
    failing = frozenset(f"{task}-{i:03d}" for task in ("text", "table", "formula") for i in range(6))
    outcome = run_fake(tmp_path / "r", backend=FakeBackend(failing=failing))
    text = rendered(outcome.summary)
    assert re.search(r"selfspec +- +- +- +- +-", text)
    assert "warning: 6 of 6 samples failed" in text


def test_markup_in_names_is_shown_not_obeyed(tmp_path) -> None:  # type: ignore[no-untyped-def]
    summary = run_fake(tmp_path / "[red]r").summary
    odd = summary.model_copy(update={"strategies": {"[bold]x": summary.strategies["ar"]}})
    assert "[bold]x" in rendered(odd)
    assert "[red]r" in rendered(odd)


def test_plain_progress_tells_what_is_left() -> None:
    ticks = iter([0.0, 1.0, 20.0, 40.0])
    stream = io.StringIO()
    progress = PlainProgress(stream, clock=lambda: next(ticks))
    progress.start(done=1, total=4)
    for _ in range(3):
        progress.advance()
    assert stream.getvalue().splitlines() == [
        "gravbench: 3 of 4 generations to do",
        "gravbench: 3/4 generations, about 10 s left",
        "gravbench: 4/4 generations, about 0 s left",
    ]


def test_every_quality_says_how_many_samples_it_is_the_mean_of(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Failed samples are among them."""
    failing = frozenset({"text-000"})
    summary = run_fake(tmp_path / "r", samples=12, backend=FakeBackend(failing=failing)).summary
    assert summary.strategies["ar"].scored == {
        "formula_ned": 4,
        "formula_tree": 4,
        "table_teds": 4,
        "text_ned": 4,
    }
    text = " ".join(rendered(summary).split())
    assert "scored 4 4 4 4" in text
    assert "1/12" in text


def test_failed_and_looping_samples_are_named_three_at_most_with_how_many_more(tmp_path) -> None:  # type: ignore[no-untyped-def]
    failing = frozenset(f"text-{i:03d}" for i in range(0, 12, 3)) | {"table-001"}
    summary = run_fake(tmp_path / "r", samples=12, backend=FakeBackend(failing=failing)).summary
    assert "and 2 more failed samples" in summary.warnings
