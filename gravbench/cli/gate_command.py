"""`gravbench gate`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from gravbench.analysis.run_data import run_data
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.progress import make_progress
from gravbench.cli.references import policy_of, shipped_reference
from gravbench.cli.run_loading import load_with_facts, set_up_referee
from gravbench.cli.verdict_table import verdict_parts
from gravbench.errors import UsageError
from gravbench.gate.candidate import judge_candidate
from gravbench.gate.exact import judge_regenerated, rescore
from gravbench.gate.github import step_summary, workflow_commands
from gravbench.gate.junit import junit_xml
from gravbench.gate.policy import Policy, load_policy
from gravbench.gate.reference import Reference, load_reference
from gravbench.gate.verdict import GateReport, Mode
from gravbench.pipeline import suite_digest
from gravbench.regions import PageSample
from gravbench.runner.options import RunOptions
from gravbench.runner.pages import data_document, references_sha
from gravbench.runner.suite_data import open_suite_data
from gravbench.store.files import disk_error, make_folder, write_atomic
from gravbench.store.rundir import RunDirectory
from gravbench.store.schema import GenRecord, ScoreRecord, canonical_json
from gravbench.suites.manifest import load_suite

MODES: tuple[Mode, ...] = get_args(Mode)


def gate(
    run: Path | None,
    *,
    reference: Path | None,
    policy: str | None,
    mode: str,
    suite: str | None,
    model: str | None,
    data: Path | None,
    referee: str | None,
    with_mde: bool,
    junit: Path | None,
    as_json: bool,
) -> int:
    """Judge, print, tell JUnit and GitHub; returns the report's exit code."""
    if mode not in MODES:
        raise UsageError(f"--mode: '{mode}'", hint=f"One of {', '.join(MODES)}.")
    if (run is None) == (mode == "candidate"):
        needs = "needs a run folder" if run is None else "takes no run folder"
        raise UsageError(f"gate --mode {mode} {needs}", hint="gravbench gate RUN --reference DIR")
    loaded = load_reference(_reference_folder(reference, run))
    extra: tuple[str | Path, ...] = () if policy is None else (policy,)
    if mode == "candidate":
        assert run is not None
        candidate = load_with_facts(run)
        with tempfile.TemporaryDirectory(prefix="gravbench-crops-") as crops:
            setup = set_up_referee(referee, candidate, crops=Path(crops))
            report = judge_candidate(
                candidate,
                loaded,
                lambda arm: policy_of(arm, extra),
                referee=setup.referee,
                tau=setup.tau,
                with_mde=with_mde,
            )
    elif mode == "rescore":
        report = _rescore(loaded, suite, data)
    else:
        report = _regenerate(loaded, suite, model, data, load_policy(extra))
    _publish(report, junit)
    if as_json:
        print_json(canonical_json(report.model_dump(mode="json", by_alias=True, exclude_none=True)))
    else:
        print_tables(*verdict_parts(report))
    return report.exit_code


def _reference_folder(given: Path | None, run: Path | None) -> Path:
    if given is not None:
        return given
    if run is None:
        raise UsageError("gate: --reference is missing", hint="For example reference_outputs/smoke.")
    return shipped_reference(str(RunDirectory(run).manifest().identity["suite"]))


def _rescore(reference: Reference, suite: str | None, data: Path | None) -> GateReport:
    from gravbench.runner.path import score_records
    from gravbench.scoring import scorer_id

    loaded = load_suite(suite or reference.suite)
    options = RunOptions(suite=loaded.name, data=data)
    opened = open_suite_data(options, loaded, note=lambda _: None)
    ids = {sample_id for arm in reference.arms.values() for sample_id, _ in arm.predictions}
    samples = [sample for sample in opened.samples if sample.sample_id in ids]
    pages = any(isinstance(sample, PageSample) for sample in samples)

    def score(records: Sequence[GenRecord]) -> Sequence[ScoreRecord]:
        return score_records(records, samples)

    document = data_document(replace(opened, samples=tuple(samples)))
    return rescore(
        reference,
        score,
        scorer_id=scorer_id(pages=pages),
        suite_sha=suite_digest(loaded),
        inputs={sample.sample_id: sample.image_sha256 for sample in samples},
        references_sha=references_sha(samples) if loaded.kind == "page-crops" else None,
        data=run_data({"data": document}),
    )


def _regenerate(
    reference: Reference, suite: str | None, model: str | None, data: Path | None, policy: Policy
) -> GateReport:
    """Run the reference's question again, in a folder that goes away, and compare to the last token."""
    from gravbench.runner.engine import open_engine
    from gravbench.runner.path import run as run_path

    identity = next(iter(reference.arms.values())).run.identity
    limit, seed, threads = identity.get("limit"), identity["seed"], identity["threads"]
    layout = identity.get("layout")
    assert isinstance(seed, int)
    assert isinstance(threads, int)
    loaded = load_suite(suite or reference.suite)
    progress = make_progress(quiet=False)
    with tempfile.TemporaryDirectory(prefix="gravbench-gate-") as folder:
        options = RunOptions(
            suite=suite or reference.suite,
            strategies=tuple(sorted(reference.arms)),
            model=model,
            backend=str(identity["backend"]),
            device=str(identity["device"]),
            dtype=str(identity["dtype"]),
            out=Path(folder),
            limit=limit if isinstance(limit, int) else None,
            data=data,
            layout=str(layout["name"]) if isinstance(layout, dict) else "ground-truth",
            seed=seed,
            threads=threads,
            argv=("gravbench", "gate", "--mode", "regenerate"),
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


def _publish(report: GateReport, junit: Path | None) -> None:
    """JUnit file, GitHub step summary and annotations; the latter two only where GitHub asks for them."""
    if junit is not None:
        make_folder(junit.parent)
        write_atomic(junit, junit_xml(report))
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(step_summary(report))
        except OSError as error:
            raise disk_error(error, Path(summary)) from error
    if summary or os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(report):
            print(line, file=sys.stderr)
