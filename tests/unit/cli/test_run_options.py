"""The options of a run are one list: `run` offers every field of RunOptions, `sweep` offers them alike."""

from dataclasses import fields, replace
from pathlib import Path

import pytest
import typer.main

from gravbench.cli import entry, run_command, sweep_command
from gravbench.cli.app import app
from gravbench.runner.options import ErrorLimit, RunOptions, parse_error_limit

OWN = {"strategy", "blocks", "batch_sizes", "vary"}
"""What `sweep` means in another way than `run`, or has alone."""
ONLY_OF_A_RUN = {"batch_size", "in_flight"}
"""A sweep has batch sizes, and regions that decode together are not in flight."""


def offered(verb: str) -> dict[str, tuple[object, ...]]:
    command = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    return {p.name: (p.opts, p.default, p.help, p.required) for p in command.params}


def test_every_field_of_a_run_is_an_option() -> None:
    wanted = {f.name for f in fields(RunOptions)} - {"runs_root", "argv", "strategies"}
    assert wanted | {"strategy", "batch_size", "json", "quiet"} == {*offered("run")} - {"help"}


def test_sweep_offers_the_options_of_run_in_the_same_words() -> None:
    run, sweep = offered("run"), offered("sweep")
    assert {name: option for name, option in sweep.items() if name not in OWN} == {
        name: option for name, option in run.items() if name not in OWN | ONLY_OF_A_RUN
    }


def asked_for(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """The options that reach the body of a verb."""
    caught: list[RunOptions] = []

    def body(options: RunOptions, **_: object) -> int:
        caught.append(replace(options, argv=()))
        return 0

    monkeypatch.setattr(run_command, "run_suite", body)
    monkeypatch.setattr(sweep_command, "sweep", body)
    assert entry.run_command_line(arguments) == 0
    return caught[0]


def test_what_is_given_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    common = ["--suite", "s", "--model", "m", "--backend", "toy", "--device", "cuda", "--dtype", "float16",
              "--out", "o", "--limit", "3", "--data", "d", "--layout", "whitespace", "--seed", "5",
              "--threads", "2", "--max-errors", "7", "--fresh", "--strategy", "ar",
              "--stratify", "layout", "--pages", "p*", "--allow-drift", "suite",
              "--layout-model", "l"]  # fmt: skip
    expected = RunOptions(
        suite="s", strategies=("ar",), model="m", backend="toy", device="cuda", dtype="float16",
        out=Path("o"), limit=3, data=Path("d"), layout="whitespace", seed=5, threads=2,
        max_errors=ErrorLimit(count=7), fresh=True, stratify="layout", pages="p*", allow_drift=("suite",),
        layout_model="l",
    )  # fmt: skip
    assert asked_for(["sweep", *common], monkeypatch) == expected
    assert asked_for(["run", *common, "--in-flight", "4"], monkeypatch) == replace(expected, in_flight=4)


def test_what_is_left_out_has_the_defaults_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("run", "sweep"):
        assert asked_for([verb, "--suite", "s"], monkeypatch) == RunOptions(suite="s", strategies=())


@pytest.mark.parametrize("text", ["1%", "0.5%", "100%", "0", "12"])
def test_an_error_limit_is_said_as_it_was_given(text: str) -> None:
    assert str(parse_error_limit(text)) == text
