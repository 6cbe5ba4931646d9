"""`gravbench status`: a look at a run that is under way, was cut short or is damaged. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue
from rich.console import RenderableType
from rich.text import Text

from gravbench.analysis.summary import Summary, build_summary
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.summary_table import summary_parts
from gravbench.cli.verdict_verbs import Status
from gravbench.errors import DataError
from gravbench.resources import __version__
from gravbench.scorers.scoring import open_scorers
from gravbench.store.files import parse_record, read_bytes
from gravbench.store.rundir import PairKey, RunDirectory, complete_pairs
from gravbench.store.schema import GenRecord, Manifest, State, canonical_json

SHOWN_FAULTS = 3
SILENT_S = 600
"""Without a sign of life for so long a run that calls itself under way is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """What lies in a run folder: `pairs` are whole in every strategy, `faults` name lines that cannot be
    read, `torn` the files whose last line is cut off."""

    manifest: Manifest
    state: State | None
    silent_s: float | None
    pairs: Mapping[PairKey, Mapping[str, GenRecord]]
    torn: tuple[str, ...]
    faults: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether the run ended and all of it can be read."""
        ended = self.state is not None and self.state.phase == "complete"
        return ended and len(self.pairs) == self.samples and not self.faults

    @property
    def samples(self) -> int:
        """(sample, repeat) pairs of the plan."""
        return len({(e.sample_id, e.rep) for e in self.manifest.plan})


def status(given: Status) -> int:
    """Print how far a run is and a table of what is there; 0 whatever it finds, for it can be looked at."""
    path = given.run
    run = RunDirectory(path)
    found = read_status(run, now=time.time())
    partial = partial_summary(found, str(path))
    if given.json:
        print_json(canonical_json(_document(path, found, partial)))
    else:
        print_tables(*_parts(path, found, partial))
    return 0


def read_status(run: RunDirectory, *, now: float) -> RunStatus:
    """Every line that can be read; `UsageError` without a run, `DataError` where its manifest is broken."""
    records: list[GenRecord] = []
    torn: list[str] = []
    faults: list[str] = []
    for shard in sorted(run.path.glob("gen/*.jsonl")):
        data = read_bytes(shard)
        whole, _, rest = data.rpartition(b"\n")
        torn += [shard.name] if rest else []
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                records.append(parse_record(line, GenRecord, where=f"{shard.name}:{number}"))
            except DataError as fault:
                faults.append(fault.message)
    state, manifest = run.state(), run.manifest()
    planned = {(e.sample_id, e.rep, e.arm) for e in manifest.plan}
    known = [r for r in records if (r.sample_id, r.rep, r.arm) in planned]
    return RunStatus(
        manifest=manifest,
        state=state,
        silent_s=None if state is None else max(0.0, now - state.heartbeat_unix),
        pairs=complete_pairs(known, manifest.plan),
        torn=tuple(torn),
        faults=tuple(faults),
    )


def partial_summary(found: RunStatus, run_dir: str) -> Summary | None:
    """Counters, identity and speed of the pairs that are whole, without scores; `None` before the first."""
    if not found.pairs:
        return None
    scorers = open_scorers(found.manifest.identity.scorers)
    return build_summary(
        found.manifest,
        [found.pairs[key] for key in sorted(found.pairs)],
        (),
        metrics=scorers.metrics,
        quality_of=scorers.aggregate,
        run_dir=run_dir,
        version=__version__,
    )


def _word(found: RunStatus) -> str:
    """How the run stands, in a few words."""
    state = found.state
    if state is None:
        return "no state.json: how far it came is read from its records"
    if state.phase not in {"generating", "scoring"}:
        return state.phase + (f" ({state.exit_reason})" if state.exit_reason else "")
    silent = found.silent_s or 0.0
    if silent > SILENT_S:
        return f"{state.phase}, but without a sign of life for {silent:.0f} s: it was probably killed"
    return f"{state.phase}, last sign of life {silent:.0f} s ago"


def _parts(path: Path, found: RunStatus, partial: Summary | None) -> list[RenderableType]:
    done, total = len(found.pairs), found.samples
    parts: list[RenderableType] = [
        Text(f"{path}: {found.manifest.identity.suite}, {done} of {total} samples are whole", style="bold"),
        Text(f"phase: {_word(found)}"),
    ]
    if found.complete:
        return [*parts, Text(f"complete: gravbench score {path} prints its tables")]
    parts += [Text(f"{name}: its last line is cut off; continuing the run mends that") for name in found.torn]
    parts += [Text(f"unreadable: {fault}", style="red") for fault in found.faults[:SHOWN_FAULTS]]
    if len(found.faults) > SHOWN_FAULTS:
        parts.append(
            Text(f"and {len(found.faults) - SHOWN_FAULTS} more lines; --json lists all", style="red")
        )
    parts.append(Text(f"to continue: {found.manifest.command}"))
    if partial is None:
        return [*parts, Text("no sample is whole in every strategy yet: nothing to show")]
    parts.append(Text(f"PARTIAL: {done} of {total} samples, not scored", style="yellow"))
    return [*parts, *summary_parts(partial)]


def _document(path: Path, found: RunStatus, partial: Summary | None) -> dict[str, JsonValue]:
    return {
        "schema": "gravbench.status/1",
        "run": str(path),
        "suite": found.manifest.identity.suite,
        "phase": None if found.state is None else found.state.phase,
        "silent_s": found.silent_s,
        "samples": found.samples,
        "whole": len(found.pairs),
        "partial": not found.complete,
        "torn": list(found.torn),
        "unreadable": list(found.faults),
        "continue": found.manifest.command,
        "summary": None
        if partial is None
        else partial.model_dump(mode="json", by_alias=True, exclude_none=True),
    }
