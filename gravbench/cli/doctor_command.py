"""`gravbench doctor`: is this machine fit to run? Each check (versions, disk, suites, model) is one line."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gravbench.cli.output import print_json, print_tables
from gravbench.cli.verbs import Doctor
from gravbench.errors import EngineError, GravbenchError
from gravbench.provenance import (
    LOCATING_VARIABLES,
    MAIN_PACKAGES,
    THREAD_VARIABLES,
    cpu,
    git_state,
    package_version,
    usable_cores,
)
from gravbench.records import Record
from gravbench.resources import __version__
from gravbench.runner.engine import checkpoint_of
from gravbench.store.files import LineWriter
from gravbench.store.schema import StoredRecord, canonical_json
from gravbench.suites.data import data_folder
from gravbench.suites.manifest import Suite, list_suites, load_samples, suite_digest
from gravbench.suites.status import FoundData, find_data, how_to_get, verify_suite

Status = Literal["ok", "warn", "fail"]

SUPPORTED_PYTHONS = ((3, 11), (3, 13))
FSYNC_LINES = 20
SLOW_FSYNC_MS = 50.0
LOW_DISK_BYTES = 1 << 30


class Check(Record):
    """One finding. `facts` holds what was measured; `hint` what to do when it is not ok."""

    name: str
    status: Status
    message: str
    hint: str | None = None
    facts: dict[str, JsonValue] = Field(default_factory=dict)


class Diagnosis(StoredRecord):
    """All checks; `ok` is false as soon as one fails (warnings do not count)."""

    schema_id: Literal["gravbench.cli.doctor_command/1"] = Field(
        default="gravbench.cli.doctor_command/1", alias="schema"
    )
    ok: bool
    checks: tuple[Check, ...]
    forward_cost: dict[str, float] | None = None
    """Query length Q -> c(Q)/c(1): cost of one forward on Q rows, in units of a forward on one row."""


def diagnose(
    *, folder: Path, model: str | None, threads: int, forward_cost: Callable[[Path], dict[str, float]] | None
) -> Diagnosis:
    """Run every check; `folder` is where runs would be written. `forward_cost` measures, if asked for."""
    checkpoint = checkpoint_of(model)
    assert checkpoint is not None
    checks = [
        check_python(),
        check_packages(),
        check_machine(threads),
        check_variables(),
        check_disk(folder),
        *check_suites(),
        check_cdm(),
        check_latex_tables(),
        check_olmocr(),
        check_model(checkpoint, threads),
    ]
    measured = None
    if forward_cost is not None and checks[-1].status != "fail":
        measured = forward_cost(checkpoint)
    return Diagnosis(ok=all(c.status != "fail" for c in checks), checks=tuple(checks), forward_cost=measured)


def check_python() -> Check:
    """The interpreter is one we support."""
    low, high = SUPPORTED_PYTHONS
    supported = low <= sys.version_info[:2] <= high
    return Check(
        name="python",
        status="ok" if supported else "warn",
        message=sys.version.split()[0],
        hint=None if supported else f"Tested with Python {low[0]}.{low[1]} to {high[0]}.{high[1]}.",
        facts={"version": sys.version.split()[0], "executable": sys.executable},
    )


def check_packages() -> Check:
    """The model stack and the scorers are installed."""
    versions: dict[str, JsonValue] = {name: package_version(name) for name in MAIN_PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    checkout = git_state(Path(__file__).resolve().parent)
    return Check(
        name="packages",
        status="fail" if missing else "ok",
        message=", ".join(f"{name} {version}" for name, version in versions.items() if version is not None),
        hint=f"Missing: {', '.join(missing)}. Install gravbench again with pip." if missing else None,
        facts={"gravbench": __version__, "git": checkout, **versions},
    )


def check_machine(threads: int) -> Check:
    """Cores, vector extensions, and whether the threads asked for exist."""
    found = cpu()
    cores = os.cpu_count() or 1
    flags = found["flags"]
    assert isinstance(flags, list)
    return Check(
        name="machine",
        status="warn" if threads > cores else "ok",
        message=f"{found['model']}, {cores} cores, {' '.join(map(str, flags)) or 'no known vector flags'}; "
        f"{threads} model thread{'s' if threads > 1 else ''}",
        hint=f"--threads {threads} is more than the {cores} cores here." if threads > cores else None,
        facts={**found, "threads": threads},
    )


def check_variables() -> Check:
    """Environment variables that locate data (recorded), and thread variables (overruled by --threads)."""
    names = (*LOCATING_VARIABLES, *THREAD_VARIABLES)
    values: dict[str, JsonValue] = {name: os.environ[name] for name in names if name in os.environ}
    data = os.environ.get("GRAVBENCH_DATA")
    lost = data is not None and not Path(data).is_dir()
    return Check(
        name="variables",
        status="warn" if lost else "ok",
        message=", ".join(f"{name}={value}" for name, value in values.items()) or "none set",
        hint="GRAVBENCH_DATA is not a folder." if lost else None,
        facts=values,
    )


def check_disk(folder: Path) -> Check:
    """Records can be written and synchronised where runs go; says how long one durable line takes."""
    try:
        with tempfile.TemporaryDirectory(dir=_existing(folder), prefix=".gravbench-doctor-") as scratch:
            writer = LineWriter(Path(scratch) / "probe.jsonl")
            started = time.perf_counter_ns()
            for _ in range(FSYNC_LINES):
                writer.append(b"x" * 4096)
            per_line_ms = (time.perf_counter_ns() - started) / FSYNC_LINES / 1e6
            writer.close()
        usage = os.statvfs(_existing(folder))
    except (OSError, GravbenchError) as error:
        return Check(
            name="disk",
            status="fail",
            message=f"{folder}: {error}",
            hint="Start gravbench in a folder you may write to, or give --out.",
        )
    free = usage.f_bavail * usage.f_frsize
    slow, low = per_line_ms > SLOW_FSYNC_MS, free < LOW_DISK_BYTES
    return Check(
        name="disk",
        status="warn" if slow or low else "ok",
        message=f"{per_line_ms:.1f} ms per durable line, {free / (1 << 30):.1f} GiB free",
        hint="Slow or nearly full disk: runs take longer between samples, or may stop."
        if slow or low
        else None,
        facts={"fsync_ms": round(per_line_ms, 3), "free_bytes": free},
    )


def check_suites() -> list[Check]:
    """Every suite loads, and its files have the digests of its manifest."""
    try:
        suites = list_suites()
    except GravbenchError as error:
        return [Check(name="suites", status="fail", message=error.message, hint=error.hint)]
    if not suites:
        return [
            Check(
                name="suites", status="fail", message="none found", hint="Install gravbench again with pip."
            )
        ]
    return [_check_suite(suite) for suite in suites]


def check_cdm() -> Check:
    """TeX and Ghostscript render an identical pair to 1.0 and a known pair to its value."""
    from gravbench.omnidocbench.cdm.score import check_tools

    status = check_tools()
    if status.available:
        versions = dict(status.versions)
        return Check(name="cdm", status="ok", message=", ".join(versions.values()), facts={**versions})
    return Check(
        name="cdm",
        status="warn",
        message=f"CDM and Overall cannot be scored: {status.reason}",
        hint=status.hint,
        facts={"missing_packages": list(status.missing_packages)},
    )


def check_latex_tables() -> Check:
    """LaTeXML turns a small table of LaTeX into HTML; without it such tables count as empty."""
    from gravbench.omnidocbench.table_conversion import LatexTables

    found = LatexTables().convert(r"\begin{tabular}{c}x\end{tabular}")
    if found.html:
        return Check(name="latex tables", status="ok", message="latexmlc converts a table")
    return Check(
        name="latex tables",
        status="warn",
        message=f"tables written in LaTeX count as empty in page scores: {found.reason}",
        hint=found.next_step,
    )


def check_olmocr() -> Check:
    """olmOCR-Bench's formulas are rendered by KaTeX in V8 (needed) or Chromium (a check); pages are PDFs."""
    from gravbench.olmocr.renderers import NAMES, engine_missing, find_chromium

    lacks = [
        *((reason,) if (reason := engine_missing()) else ()),
        *(() if package_version("pypdfium2") else ("pypdfium2, which renders its PDFs, is not installed",)),
    ]
    chromium = find_chromium()
    found = f"Chromium {chromium}" if chromium else f"no Chromium (any of {', '.join(NAMES)})"
    return Check(
        name="olmocr-bench",
        status="warn" if lacks else "ok",
        message=("; ".join(lacks) if lacks else "KaTeX renders in V8, pypdfium2 renders pages")
        + f"; {found}, which `olmocr --math chromium` needs",
        hint="pip install 'gravbench[olmocr]'" if lacks else None,
        facts={"engine": package_version("mini-racer"), "chromium": chromium},
    )


def check_model(checkpoint: Path, threads: int) -> Check:
    """The checkpoint loads and can draft."""
    from gravbench.backends.registry import open_backend

    try:
        backend = open_backend("transformers", model=checkpoint, threads=threads)
        info = backend.describe()
        backend.close()
    except GravbenchError as error:
        return Check(name="model", status="fail", message=error.message, hint=error.hint)
    drafts = info.block_size is not None
    return Check(
        name="model",
        status="ok" if drafts and not info.warnings else "warn",
        message=f"{info.model}, {info.engine}, {info.dtype} on {info.device}, "
        + (f"block size {info.block_size}" if drafts else "cannot draft"),
        hint="; ".join(info.warnings) or (None if drafts else "No block_diffusion.json: only `ar` will run."),
        facts=info.model_dump(mode="json"),
    )


def _check_suite(suite: Suite) -> Check:
    name = suite.name
    try:
        crops = len(load_samples(suite))
    except GravbenchError as error:
        return Check(name=f"suite {name}", status="fail", message=error.message, hint=error.hint)
    found = find_data(suite, environ=os.environ)
    pages = _pages_of(suite, found)
    counted = [f"{n:,} {what}" for n, what in ((crops, "crops"), (pages.count, "pages")) if n]
    stated = [*counted, *([pages.said] if pages.said else [])]
    return Check(
        name=f"suite {name}",
        status=pages.status,
        message=f"{', '.join(stated)}; version {suite.version}, digest {suite_digest(suite)[:12]}",
        hint=pages.hint,
        facts={
            "n_samples": crops,
            "n_pages": pages.count,
            "digest": suite_digest(suite),
            "data": found.state,
            "data_pages": found.pages,
            "data_label": found.label,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """What there is to say of a suite's pages."""

    status: Status = "ok"
    count: int = 0
    said: str | None = None
    hint: str | None = None


def _pages_of(suite: Suite, found: FoundData) -> _Pages:
    """Pages that ship are all opened, and a fault fails; others are named, and `verify` opens them."""
    if suite.pages is None:
        return _Pages()
    if found.state == "ships":
        return _shipped_pages(suite)
    if found.state == "missing":
        return _Pages(status="warn", said="data not here", hint=f"How to get it: {how_to_get(suite)}")
    if found.problem is not None:
        return _Pages(status="warn", said=found.problem, hint=found.hint)
    check = f"Check every image: gravbench suites verify {suite.name}" if found.drifted else None
    return _Pages(status="warn" if found.drifted else "ok", said=found.label, hint=check)


def _shipped_pages(suite: Suite) -> _Pages:
    try:
        folder = data_folder(suite, data=None, environ={})
        verified = verify_suite(suite, folder)
    except GravbenchError as error:
        return _Pages(status="fail", said=error.message, hint=error.hint)
    if verified.ok:
        return _Pages(count=verified.pages)
    more = f" and {len(verified.faults) - 1} more" if len(verified.faults) > 1 else ""
    return _Pages(
        status="fail",
        count=verified.pages,
        said=f"{verified.faults[0]}{more}",
        hint="Install gravbench again with pip.",
    )


def _existing(folder: Path) -> Path:
    """The nearest existing ancestor: where `folder` would be made."""
    return next((p for p in (folder, *folder.parents) if p.is_dir()), Path.cwd())


_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def run_doctor(given: Doctor) -> int:
    """Print the checks; 0 when none failed, else 4."""
    threads = given.threads or usable_cores()
    diagnosis = diagnose(
        folder=Path.cwd() / "runs",
        model=given.model,
        threads=threads,
        forward_cost=(lambda checkpoint: _forward_cost(checkpoint, threads)) if given.forward_cost else None,
    )
    if given.json:
        print_json(canonical_json(diagnosis.model_dump(mode="json", by_alias=True, exclude_none=True)))
    else:
        print_tables(*_parts(diagnosis))
    return 0 if diagnosis.ok else EngineError.exit_code


def _forward_cost(checkpoint: Path, threads: int) -> dict[str, float]:
    from gravbench.backends.forward_cost import measure

    return {str(cost.rows): cost.ratio for cost in measure(checkpoint, threads=threads)}


def _parts(diagnosis: Diagnosis) -> list[Table | Text]:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("check", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("found", overflow="fold")
    for check in diagnosis.checks:
        found = check.message if check.hint is None else f"{check.message}\n{check.hint}"
        table.add_row(check.name, Text(check.status, style=_STYLE[check.status]), Text(found))
    parts: list[Table | Text] = [table]
    if diagnosis.forward_cost is not None:
        costs = Table(box=SIMPLE_HEAD, pad_edge=False)
        costs.add_column("Q", justify="right")
        costs.add_column("c(Q)/c(1)", justify="right")
        for rows, cost in diagnosis.forward_cost.items():
            costs.add_row(rows, f"{cost:.2f}")
        parts += [Text("c(Q)/c(1): cost of one forward on Q rows, in forwards on one row"), costs]
    return parts
