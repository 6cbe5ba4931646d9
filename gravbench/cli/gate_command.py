"""`gravbench gate`: the outcome, then every verdict with failures first."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.bootstrap import DetectableEffect
from gravbench.analysis.loaded import run_data
from gravbench.cli.output import print_json, print_tables, rich_table, say_error
from gravbench.cli.progress import make_progress
from gravbench.cli.run_loading import load_with_facts, policy_of, set_up_referee, shipped_reference
from gravbench.cli.verdict_verbs import Gate
from gravbench.errors import DataError, GravbenchError, UsageError
from gravbench.gate.candidate import judge_candidate
from gravbench.gate.exact import judge_regenerated, rescore
from gravbench.gate.policy import Policy, load_policy
from gravbench.gate.reference import Reference, load_reference, suites_in
from gravbench.gate.verdict import (
    MARK,
    GateReport,
    Mode,
    Status,
    data_lines,
    junit_xml,
    step_summary,
    unjudged,
    verdict_rows,
    workflow_commands,
)
from gravbench.options import RunOptions, options_of
from gravbench.reporting.tables import NONE, Cell, Table, arm, table
from gravbench.runner.samples import data_document, open_suite_data, references_sha
from gravbench.store.files import disk_error, make_folder, write_atomic
from gravbench.store.rundir import RunDirectory
from gravbench.store.schema import GenRecord, ScoreRecord, canonical_json
from gravbench.suites.manifest import load_suite, suite_digest

MODES: tuple[Mode, ...] = get_args(Mode)
TAKEN: dict[Mode, frozenset[str]] = {
    "candidate": frozenset({"--policy", "--referee", "--mde"}),
    "rescore": frozenset({"--suite", "--data"}),
    "regenerate": frozenset({"--suite", "--model", "--data", "--policy"}),
}
"""Options that mean something in a mode; any other is refused rather than passed over."""


def gate(given: Gate) -> int:
    """Judge, print, tell JUnit and GitHub; returns the report's exit code.

    What cannot be loaded is a report too, for JSON, JUnit and GitHub, before the error is raised.
    """
    run, junit = given.run, given.junit
    _clear(junit)
    _check_use(given)
    fault: GravbenchError | None = None
    try:
        report = _judge(given)
    except GravbenchError as error:
        fault = error
        report = unjudged(
            _mode(given.mode), error, candidate=None if run is None else run.name, reference=given.reference
        )
    if given.json:
        print_json(canonical_json(report.model_dump(mode="json", by_alias=True, exclude_none=True)))
    elif fault is None:
        print_tables(*verdict_parts(report))
    unwritten = _publish(report, junit)
    if fault is not None:
        raise fault
    if unwritten and not report.exit_code:
        raise unwritten[0]
    return report.exit_code


def _mode(name: str) -> Mode:
    return next(mode for mode in MODES if mode == name)


def _check_use(given: Gate) -> None:
    """`UsageError` for a mode that is none, and for what the mode needs or does not take."""
    mode, run = given.mode, given.run
    if mode not in MODES:
        raise UsageError(f"--mode: '{mode}'", hint=f"One of {', '.join(MODES)}.")
    if (run is None) == (mode == "candidate"):
        needs = "needs a run folder" if run is None else "takes no run folder"
        raise UsageError(f"gate --mode {mode} {needs}", hint="gravbench gate RUN --reference DIR")
    if run is None and given.reference is None:
        raise UsageError("gate: --reference is missing", hint="For example reference_outputs/smoke.")
    names = {name for taken in TAKEN.values() for name in taken} - TAKEN[_mode(mode)]
    useless = [name for name in sorted(names) if getattr(given, name.removeprefix("--"))]
    if useless:
        raise UsageError(
            f"gate --mode {mode} takes no {useless[0]}",
            hint=f"Leave it out. This mode takes {', '.join(sorted(TAKEN[_mode(mode)]))}.",
        )


def _judge(given: Gate) -> GateReport:
    extra: tuple[str | Path, ...] = () if given.policy is None else (given.policy,)
    policy = load_policy(extra)  # one that cannot be applied is said before anything is read
    loaded = load_reference(_reference_folder(given.reference, given.run))
    if given.mode == "rescore":
        return _rescore(loaded, given)
    if given.mode == "regenerate":
        return _regenerate(loaded, given, policy)
    assert given.run is not None
    candidate = load_with_facts(given.run)
    with tempfile.TemporaryDirectory(prefix="gravbench-crops-") as crops:
        setup = set_up_referee(given.referee, candidate, crops=Path(crops))
        return judge_candidate(
            candidate,
            loaded,
            lambda arm: policy_of(arm, extra),
            referee=setup.referee,
            tau=setup.tau,
            with_mde=given.mde,
        )


def _reference_folder(given: Path | None, run: Path | None) -> Path:
    """The folder of one suite; of a folder of several, as `bless --to` makes, that of the run's suite."""
    held = suites_in(given) if given is not None and run is not None else ()
    if given is not None and not held:
        return given
    assert run is not None
    suite = RunDirectory(run).manifest().identity.suite
    if given is not None:
        return given / suite if suite in held else given
    folder = shipped_reference(suite)
    if not folder.is_dir():
        raise DataError(
            f"no reference outputs of suite {suite} ship with gravbench: nothing to hold {run} against",
            hint=f'Bless the first from a run you vouch for: gravbench bless {run} --reason "..." --to DIR; '
            f"later runs: gravbench gate RUN --reference DIR/{suite}",
        )
    return folder


def _rescore(reference: Reference, given: Gate) -> GateReport:
    from gravbench.scorers.scoring import open_scorers

    loaded = load_suite(given.suite or reference.suite)
    options = RunOptions(suite=loaded.name, data=given.data)
    opened = open_suite_data(options, loaded, note=lambda _: None)
    ids = {sample_id for arm in reference.arms.values() for sample_id, _ in arm.predictions}
    samples = [sample for sample in opened.samples if sample.sample_id in ids]
    scorers = open_scorers(loaded.scorers)

    def score(records: Sequence[GenRecord]) -> Sequence[ScoreRecord]:
        return scorers.score(records, samples)

    document = data_document(replace(opened, samples=tuple(samples)))
    return rescore(
        reference,
        score,
        scorer_id=scorers.name,
        suite_sha=suite_digest(loaded),
        inputs={sample.sample_id: sample.image_sha256 for sample in samples},
        references_sha=references_sha(samples) if loaded.kind == "page-crops" else None,
        data=run_data({"data": document}),
    )


def _regenerate(reference: Reference, given: Gate, policy: Policy) -> GateReport:
    """Run the reference's question again, in a folder that goes away, and compare to the last token."""
    from gravbench.runner.engine import open_engine
    from gravbench.runner.run import run as run_path

    identity = next(iter(reference.arms.values())).run.identity
    loaded = load_suite(given.suite or reference.suite)
    progress = make_progress(quiet=False)
    with tempfile.TemporaryDirectory(prefix="gravbench-gate-") as folder:
        options = options_of(
            identity,
            strategies=tuple(sorted(reference.arms)),
            suite=given.suite or reference.suite,
            model=given.model,
            out=Path(folder),
            data=given.data,
        )
        opened = open_suite_data(options, loaded, note=progress.note)
        run_path(
            options,
            loaded,
            opened.samples,
            open_backend=open_engine,
            progress=progress,
            environ=os.environ,
            opened=opened,
        )
        return judge_regenerated(load_with_facts(Path(folder)), reference, policy)


def _clear(junit: Path | None) -> None:
    """What an earlier gate wrote must not stand for this one, however this one ends."""
    if junit is not None and junit.is_file():
        with contextlib.suppress(OSError):
            junit.unlink()


def _publish(report: GateReport, junit: Path | None) -> list[GravbenchError]:
    """JUnit file, GitHub step summary and annotations; the latter two only where GitHub asks for them.

    A place that cannot be written is said at once and returned: it takes nothing from the others.
    """
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    unwritten = [
        error
        for write in (lambda: _write_junit(report, junit), lambda: _append_summary(report, summary))
        if (error := _tried(write)) is not None
    ]
    if report.exit_code:
        for error in unwritten:
            say_error(error.message, error.hint)
    if summary or os.environ.get("GITHUB_ACTIONS") == "true":
        with contextlib.suppress(BrokenPipeError):
            for line in workflow_commands(report):
                print(line, file=sys.stderr)
    return unwritten


def _tried(write: Callable[[], None]) -> GravbenchError | None:
    try:
        write()
    except GravbenchError as error:
        return error
    return None


def _write_junit(report: GateReport, junit: Path | None) -> None:
    if junit is not None:
        make_folder(junit.parent, option="--junit")
        write_atomic(junit, junit_xml(report), option="--junit")


def _append_summary(report: GateReport, summary: str | None) -> None:
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(step_summary(report))
        except OSError as error:
            raise disk_error(error, Path(summary), option="GITHUB_STEP_SUMMARY") from error


_STYLE: dict[Status, str] = {
    "fail": "bold red",
    "missing": "bold red",
    "warn": "yellow",
    "inconclusive": "yellow",
    "pass": "green",
    "off": "dim",
}
_OUTCOME = {
    "pass": "PASS",
    "fail": "FAIL",
    "not-comparable": "NOT COMPARABLE, not a pass",
}


def verdict_parts(report: GateReport) -> list[RenderableType]:
    """Everything `gravbench gate` prints, top to bottom."""
    against = f" of {report.candidate}" if report.candidate else ""
    title = f"gate ({report.mode}){against} against {report.reference}: {_OUTCOME[report.outcome]}"
    parts: list[RenderableType] = [Text(title, style="bold")]
    parts += [Text(f"{name}: {label}", style="bold") for name, label in data_lines(report)]
    parts += [Text(f"- {problem}") for problem in report.problems]
    rows: list[tuple[str | Cell, ...]] = [
        (Cell(text=MARK[row.status], style=_STYLE[row.status]), arm(row.arm), row.rule, row.found)
        for row in verdict_rows(report)
    ]
    if rows:
        columns = ("result", "strategy", "rule", "found")
        given = table("verdicts", columns, rows, left=frozenset(range(4)))
        parts.append(rich_table(given, caption=False, whole=(0,)))
    off = [f"{verdict.arm} {verdict.rule}" for verdict in report.verdicts if verdict.status == "off"]
    if off:
        parts.append(Text("not applied: " + ", ".join(off)))
    if report.mde:
        varied = [effect for effect in report.mde if effect.power]
        parts += [rich_table(_power_table(varied))] if varied else []
        names = [effect.name for effect in report.mde if not effect.power]
        parts += [Text(f"no variance to judge from: {name}") for name in names]
    return [*parts, *(Text(f"note: {notice}") for notice in report.notices)]


def _power_table(effects: Sequence[DetectableEffect]) -> Table:
    rows: list[tuple[str | Cell, ...]] = [
        (
            effect.name,
            *(f"{p:.2f}" for p in effect.power),
            NONE if effect.mde is None else f"{effect.mde:.1%}",
            str(effect.n),
        )
        for effect in effects
    ]
    drops = (f"{drop:.0%}" for drop in effects[0].drops)
    title = "chance to fail at a true drop, and the drop found 95 times in 100"
    return table(title, ("rule, variance of", *drops, "found", "n"), rows)
