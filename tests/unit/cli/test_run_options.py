"""The options of a run are one declaration: what a user can give, what a run is, and how to ask again."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from run_support import run_identity

from gravbench.cli import app, compare_command, report_command, run_command
from gravbench.cli.app import build_app
from gravbench.cli.verbs import Run, Sweep
from gravbench.cli.verdict_verbs import Compare, Report
from gravbench.options import (
    MAX_SEED,
    ErrorLimit,
    RunOptions,
    command_of,
    declared_options,
    options_of,
    parse_error_limit,
)
from gravbench.store.schema import LayoutInfo, RunIdentity

OWN = {"blocks", "batch_sizes", "vary"}
"""What `sweep` has alone."""
RUN_ALONE = {"report", "dry_run"}
"""What `run` has alone, beside the options of a single run."""


def offered(verb: str) -> dict[str, tuple[object, ...]]:
    command = typer.main.get_command(build_app()).commands[verb]  # type: ignore[attr-defined]
    return {p.name: (p.opts, p.default, p.help, p.required) for p in command.params}


def test_every_field_of_a_run_is_an_option() -> None:
    wanted = set(RunOptions.model_fields) - {"runs_root"}
    assert wanted == {name for name, _, _ in declared_options()}
    assert wanted | RUN_ALONE | {"json", "quiet"} == {*offered("run")} - {"help"}


def test_sweep_offers_the_options_of_run_in_the_same_words() -> None:
    run, sweep = offered("run"), offered("sweep")
    alone = {name for name, _, option in declared_options() if option.alone}
    assert {name: option for name, option in sweep.items() if name not in OWN} == {
        name: option for name, option in run.items() if name not in alone | RUN_ALONE
    }


def test_what_moves_a_run_has_its_field_in_the_identity() -> None:
    for _, _, option in declared_options():
        assert option.identity is None or option.identity.partition(".")[0] in RunIdentity.model_fields
    free = {name for name, _, option in declared_options() if option.identity is None}
    assert free == {"url", "out", "max_errors", "retry_failed", "fresh"}


def asked_for(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """The options that reach the body of a verb."""
    caught: list[RunOptions] = []

    def body(given: Run | Sweep) -> int:
        caught.append(given.options)
        return 0

    monkeypatch.setattr(run_command, "run_suite", body)
    monkeypatch.setattr(run_command, "sweep", body)
    assert app.run_command_line(arguments) == 0
    return caught[0]


EVERYTHING = RunOptions(
    suite="s", strategies=("ar", "selfspec:block=4"), model="m", backend="toy", device="cuda",
    dtype="float16", out=Path("o"), limit=3, data=Path("d"), layout="whitespace", seed=5, threads=2,
    repeats=3,
    max_errors=ErrorLimit(count=7), fresh=True, stratify="layout", pages="p*", allow_drift=("suite",),
    layout_model="l", retry_failed=True, url=("http://h:1",),
)  # fmt: skip


def test_what_is_given_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command_of(EVERYTHING))[2:]
    assert asked_for(["sweep", *words], monkeypatch) == EVERYTHING
    assert asked_for(["run", *words, "--batch-size", "4"], monkeypatch) == EVERYTHING.but(batch_size=4)


def test_what_is_left_out_has_the_defaults_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("run", "sweep"):
        assert asked_for([verb, "--suite", "s"], monkeypatch) == RunOptions(suite="s")


@pytest.mark.parametrize("words", [["--repeats", "0"], ["--seed", str(MAX_SEED + 1)], ["--threads", "many"]])
def test_limits_of_the_declaration_hold_on_the_command_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run_command_line(["run", "--suite", "s", *words]) == 2
    assert words[0] in capsys.readouterr().err


@given(
    seed=st.integers(0, MAX_SEED), limit=st.none() | st.integers(1, 99), repeats=st.integers(1, 5),
    pages=st.none() | st.text("p*-0", min_size=1), threads=st.integers(1, 4),
    strategies=st.sampled_from([("ar",), ("ar", "selfspec:block=4,batch=2")]),
    backend=st.sampled_from(["toy", "transformers", "transformers:cuda_graphs=yes"]),
    layout=st.none() | st.sampled_from(["ground-truth", "whitespace"]),
)  # fmt: skip
def test_the_command_of_an_identity_asks_for_that_identity(layout: str | None, **asked: Any) -> None:
    info = None if layout is None else LayoutInfo(name=layout, digest="d")
    own = run_identity(layout=info, **asked)
    options = options_of(own)
    taken = {name: getattr(options, name) for name in asked}
    assert taken == asked
    assert options.layout == (layout or "ground-truth")


@pytest.mark.parametrize("text", ["1%", "0.5%", "100%", "0", "12"])
def test_an_error_limit_is_said_as_it_was_given(text: str) -> None:
    assert str(parse_error_limit(text)) == text


@pytest.mark.parametrize(
    "words",
    [
        ["report", "a b", "c", "--out", "r.html", "--no-images", "--seed", "3"],
        ["report", "--markdown", "m.md", "--", "-run"],
        ["compare", "a", "--by", "language", "--by", "layout", "--force"],
    ],
)
def test_the_command_of_a_verb_asks_for_the_same(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[Report | Compare] = []

    def body(given: Report | Compare) -> int:
        caught.append(given)
        return 0

    monkeypatch.setattr(report_command, "report", body)
    monkeypatch.setattr(compare_command, "compare", body)
    assert app.run_command_line(["--debug", *words]) == 0
    assert app.run_command_line(shlex.split(caught[0].command)[1:]) == 0
    assert caught[0] == caught[1]
    assert caught[0].command.startswith(f"gravbench {words[0]} --")


def test_an_interrupted_verb_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(_given: Run | Report) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_command, "run_suite", body)
    monkeypatch.setattr(report_command, "report", body)
    assert app.run_command_line(["run", "--fresh", "--suite", "s", "--out", "--fresh"]) == 130
    assert "hint: continue with: gravbench run --suite s --out --fresh\n" in capsys.readouterr().err
    assert app.run_command_line(["report", "run", "--out", "r.html"]) == 130
    assert "hint: repeat with: gravbench report --out r.html run\n" in capsys.readouterr().err
