"""`gravbench report --history DIR`: every run below a folder, each with its gate's verdict, to one page."""

from __future__ import annotations

from pathlib import Path

from gravbench.analysis.loaded import LoadedRun
from gravbench.analysis.run_analysis import AnalysisOptions
from gravbench.cli.output import print_json, print_tables
from gravbench.cli.report_command import gate_part, part_of
from gravbench.cli.run_loading import RefereeSetup, load_with_facts
from gravbench.cli.verdict_verbs import Report
from gravbench.errors import GravbenchError, UsageError
from gravbench.gate.reference import load_reference
from gravbench.gate.verdict import read_report
from gravbench.reporting.builder import ReportInput, build_document
from gravbench.reporting.document import GatePart, RunPart
from gravbench.reporting.history import Found, Omitted, build_history, history_claim, render_history
from gravbench.reporting.publication import DOCUMENT, read_document
from gravbench.resources import __version__
from gravbench.store.files import make_folder, write_atomic
from gravbench.store.schema import canonical_json

RUN_FILES = frozenset({"manifest.json", "state.json", "summary.json", "amendment.json", "lock.json"})
REFUSED = ("publish", "markdown", "referee", "forward_cost", "data")


def write_history(given: Report, folder: Path) -> int:
    """Write the page, print what it claims and what it leaves out; 0 whatever it shows."""
    out = _place(given, folder)
    if given.reference is not None:
        load_reference(given.reference)  # one that is none is said before any run is read
    options = AnalysisOptions(seed=given.seed, resamples=given.resamples)
    found: list[Found] = []
    omitted: list[Omitted] = []
    for path in sorted([*folder.rglob("manifest.json"), *folder.rglob(DOCUMENT)]):
        place = str(path.parent.relative_to(folder))
        try:
            published = path.name == DOCUMENT
            runs = read_document(path).runs if published else _run_of(path.parent, options, given.reference)
        except GravbenchError as error:
            omitted.append(Omitted(what=place, reason=error.message))
        else:
            found += [Found(place=_named(place, run), run=run) for run in runs]
    history = build_history(found, omitted)
    suite = str(history.runs[-1].run.identity.get("suite"))
    page = render_history(
        history,
        title=given.title or f"{suite}: {len(history.runs)} runs",
        commands=(given.command,),
        version=__version__,
    )
    make_folder(out.parent)
    write_atomic(out, page.encode("utf-8"))
    _tell(history_claim(history), history.omitted, out, as_json=given.json)
    return 0


def _place(given: Report, folder: Path) -> Path:
    """Where the page goes; `UsageError` for what a history has no use for."""
    useless = [name for name in REFUSED if getattr(given, name) is not None]
    if given.runs or useless:
        what = f"--{useless[0].replace('_', '-')}" if useless else str(given.runs[0] if given.runs else "")
        raise UsageError(f"report --history: {what} has no place here", hint="Leave it out.")
    if not folder.is_dir():
        raise UsageError(f"--history {folder}: no such folder", hint="Name the folder that holds the runs.")
    if given.out is None or given.out.is_dir():
        found = "nowhere to write the history" if given.out is None else f"{given.out}: is a folder"
        raise UsageError(found, hint=f"gravbench report --history {folder} --out history.html")
    return given.out


def _named(place: str, run: RunPart) -> str:
    """The folder a run lies in; of a published document the run's own name behind it."""
    return place if Path(place).name == run.name else f"{place}: {run.name}"


def _run_of(folder: Path, options: AnalysisOptions, reference: Path | None) -> tuple[RunPart, ...]:
    """The run in a folder, analysed as a report analyses it."""
    run = load_with_facts(folder)
    gate = _gate(run, folder, reference)
    name = folder.resolve().name
    return build_document([ReportInput(run=run, name=name, options=options, gate=gate)]).runs


def _gate(run: LoadedRun, folder: Path, reference: Path | None) -> GatePart:
    """Against `reference`; else what a gate wrote beside the run; else against the shipped reference."""
    if reference is None:
        for path in _beside(folder):
            report = read_report(path)
            if report is not None:
                return part_of(report, reference=report.reference, said=run.notes)
    return gate_part(run, reference=reference, setup=RefereeSetup())


def _beside(folder: Path) -> list[Path]:
    """JSON, then XML: in a run's folder, and next to it under a name that begins with the folder's."""
    name = folder.resolve().name
    places = [*folder.iterdir(), *folder.resolve().parent.iterdir()]
    kept = [
        p for p in places if p.parent == folder or p.name.startswith((f"{name}.", f"{name}-", f"{name}_"))
    ]
    kept = [p for p in kept if p.suffix in {".json", ".xml"} and p.name not in RUN_FILES and p.is_file()]
    return sorted(kept, key=lambda p: (p.suffix, p.parent != folder, p.name))


def _tell(claim: str, omitted: list[Omitted], out: Path, *, as_json: bool) -> None:
    left = [f"{one.what}: {one.reason}" for one in omitted]
    if as_json:
        files = [{"path": str(out), "bytes": out.stat().st_size}]
        value = {"schema": "gravbench.report-files/1", "files": files, "claim": claim, "cautions": left}
        print_json(canonical_json(value))
        return
    from rich.text import Text

    lines = [Text(claim, style="bold"), *(Text(f"not shown: {line}", style="yellow") for line in left)]
    print_tables(*lines, Text(f"written: {out} ({out.stat().st_size:,} bytes)"))
