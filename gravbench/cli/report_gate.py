"""The gate's verdict as part of a report: judged here, handed over as data."""

from __future__ import annotations

from pathlib import Path

from gravbench.analysis.loaded import LoadedRun
from gravbench.cli.references import ROOT, policy_of, shipped_reference
from gravbench.cli.run_loading import RefereeSetup
from gravbench.gate.candidate import judge_candidate
from gravbench.gate.reference import load_reference
from gravbench.reporting.document import GatePart, GateRow


def gate_part(run: LoadedRun, *, reference: Path | None, setup: RefereeSetup) -> GatePart:
    """The run held against `reference`, by default the shipped one of its suite if there is one.

    A shipped reference is named without its folder, which differs from machine to machine.
    """
    suite = str(run.manifest.identity["suite"])
    folder = shipped_reference(suite) if reference is None else reference
    if reference is None and not folder.is_dir():
        return GatePart(reference=None, outcome=None)
    report = judge_candidate(run, load_reference(folder), policy_of, referee=setup.referee, tau=setup.tau)
    return GatePart(
        reference=f"{ROOT}/{suite}" if reference is None else str(reference),
        outcome=report.outcome,
        rows=tuple(
            GateRow(
                status=v.status,
                arm=v.arm,
                rule=v.rule,
                observed=v.observed,
                limit=v.limit,
                explanation=v.explanation,
            )
            for v in report.verdicts
        ),
        problems=report.problems,
        notices=tuple(notice for notice in report.notices if notice not in run.notes),
    )
