"""`gravbench audit`: each committed token against its own prefix, by strategy and precision."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.text import Text

from gravbench.analysis.certificate import Certificate, Certificates, answers_sha, certify, write_certificates
from gravbench.analysis.loaded import IMPORTED, LoadedRun, is_lossy
from gravbench.arms import parse_arm
from gravbench.cli.output import print_json, print_tables, rich_table
from gravbench.cli.run_loading import load_with_facts, set_up_referee
from gravbench.cli.verdict_verbs import Audit
from gravbench.errors import UsageError
from gravbench.reporting.tables import Table, arm, table
from gravbench.store.schema import record_bytes

SHOWN = 5


def audit_run(given: Audit) -> int:
    """Certify the strategies of a run, keep the certificate in its folder, print it; 1 with violations."""
    run = load_with_facts(given.run)
    found = certificates_of(run, given)
    write_certificates(given.run, found)
    if given.json:
        print_json(record_bytes(found))
    else:
        print_tables(rich_table(_table(found)), *(Text(line) for line in _lines(found)))
    return 1 if found.violations else 0


def certificates_of(run: LoadedRun, given: Audit) -> Certificates:
    """One certificate a strategy and pass; `UsageError` where none of the strategies promises AR's tokens."""
    wanted = tuple(given.strategy or run.arms)
    unknown = [name for name in wanted if name not in run.arms]
    if unknown:
        raise UsageError(f"--strategy {unknown[0]}: not in this run", hint=f"It has {', '.join(run.arms)}.")
    left_out = {name: why for name in wanted if (why := _no_promise(run, name)) is not None}
    arms = [name for name in wanted if name not in left_out]
    if not arms:
        raise UsageError(
            f"{run.name}: no strategy promises the tokens of AR: "
            + "; ".join(f"{name} is {why}" for name, why in left_out.items()),
            hint="Audit a run of exact strategies at temperature 0.",
        )
    model = given.referee or str(run.manifest.model.get("model"))
    with tempfile.TemporaryDirectory(prefix="gravbench-crops-") as crops:
        passes = set_up_referee(model, run, crops=Path(crops)).passes
        certified = tuple(certify(name, run.records(name), one) for name in arms for one in passes)
    return Certificates(
        run_id=run.manifest.run_id,
        answers_sha=answers_sha(r for unit in run.units for r in unit.records.values()),
        arms=certified,
        left_out=left_out,
    )


def _no_promise(run: LoadedRun, name: str) -> str | None:
    if run.manifest.identity.backend == IMPORTED or run.records(name)[0].imported:
        return "imported"
    if is_lossy(run.manifest.protocol, name):
        return "lossy by design"
    return "sampled" if parse_arm(name).sampling else None


def _table(found: Certificates) -> Table:
    columns = ("strategy", "pass", "outputs", "tokens", "argmax", "near-ties", "violations", "worst gap")
    return table(
        "tokens against their own prefix",
        columns,
        [
            (
                arm(own.arm),
                own.precision,
                *(f"{n:,}" for n in (own.outputs, own.tokens, own.argmax, own.near_ties, own.violations)),
                f"{own.worst_gap:.2g}",
            )
            for own in found.arms
        ],
    )


def _lines(found: Certificates) -> list[str]:
    taus = ", ".join(dict.fromkeys(f"{own.tau:.2g} in {own.precision}" for own in found.arms))
    lines = [f"Near-ties lie no further below the argmax of their prefix than rounding explains: {taus}."]
    lines += [f"{name}: left out, {why}" for name, why in found.left_out.items()]
    for own in found.arms:
        if own.untold:
            lines.append(f"{own.arm}: {own.untold} of {own.outputs} outputs have no token ids to judge")
        lines += _violations(own)
    return lines


def _violations(own: Certificate) -> list[str]:
    wrong = [one for one in own.exceptions if not one.near_tie]
    if not wrong:
        return []
    origins = ", ".join(f"{count} of {origin}" for origin, count in own.by_origin.items())
    lines = [f"{own.arm}, {own.precision}: {len(wrong)} violations ({origins})"]
    for one in wrong[:SHOWN]:
        where = f"{one.sample_id}#{one.region_id}" if one.region_id else one.sample_id
        which = "" if one.round is None else f" of round {one.round}"
        lines.append(
            f"  {where}: token {one.position} ({one.origin}{which}) is {one.token_id}, "
            f"its prefix calls for {one.best_id}, gap {one.gap:.2g}"
        )
    return [*lines, f"  and {len(wrong) - SHOWN} more; --json lists all"] if len(wrong) > SHOWN else lines
