"""What the two verbs do: read, score, write, print. Edges only; the scoring is elsewhere."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress

    from gravbench.omnidocbench.cdm.rows import Cdm
    from gravbench.omnidocbench.cdm.score import CdmResult
    from gravbench.options import ErrorLimit
    from gravbench.recorded_results import KindReport

from gravbench.cli.output import write_output
from gravbench.errors import NotComparableError, UsageError
from gravbench.omnidocbench.document import SUMMARY_METRICS, build_document, encode
from gravbench.omnidocbench.evaluation import CdmPair, evaluate
from gravbench.omnidocbench.ground_truth import chosen_pages, read_annotations, read_pages
from gravbench.omnidocbench.page_metrics import FORMULA, FORMULA_CDM, METRICS
from gravbench.omnidocbench.page_scorer import ScorerSetup
from gravbench.omnidocbench.page_scores import rendered_signature, unavailable
from gravbench.omnidocbench.quick_match import MATCH_METHODS, QUICK_MATCH
from gravbench.omnidocbench.result_file import PageFacts, page_records
from gravbench.omnidocbench.result_tables import (
    ResultTable,
    as_csv,
    as_markdown,
    leaderboard,
    official_files,
    page_table,
    tables_by,
)
from gravbench.scorers.contract import Note
from gravbench.store.files import make_folder
from gravbench.suites.manifest import PageSet, load_suite
from gravbench.suites.page_folder import entry_digest, flat_attributes, name_of_copy

LINES_FROM = 50
"""Shorter stages print no line."""
NAMES_SHOWN = 3
NOTES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Ground-truth file, prediction folder, processes at most, and which pages (all by default)."""

    gt: Path
    predictions: Path
    jobs: int
    globs: Sequence[str] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    match: str = QUICK_MATCH
    latex_cache: Path | None = None
    """Where LaTeX tables that were converted are kept."""


def run_scoring(
    options: ScoreOptions, *, cdm: Cdm | Callable[[], Cdm] | None = None, quiet: bool = True
) -> dict[str, Any]:
    """Score a folder. `cdm` may be a function, called only if a page has a formula.

    Progress goes to standard error, as bars on a terminal and otherwise, unless `quiet`, as lines.
    """
    annotations = chosen_pages(read_annotations(options.gt), globs=options.globs, where=options.where)
    pages = read_pages(annotations, source=str(options.gt))
    if callable(cdm):
        needed = any(page.owns_formula or page.formulas for page in pages)
        cdm = cdm() if needed else None
        no_formula = not needed
    else:
        no_formula = False
    with ScoringProgress(quiet=quiet) as progress:
        if cdm is not None:
            cdm.progress = progress.stage("rendering formulas")
        evaluation = evaluate(
            pages,
            options.predictions,
            setup=ScorerSetup(options.match, options.latex_cache),
            jobs=options.jobs,
            cdm_scorer=_nothing if no_formula else cdm.score if cdm and cdm.status.available else None,
            progress=progress.stage("scoring pages"),
        )
    digest = hashlib.sha256(options.gt.read_bytes()).hexdigest()
    inputs = {"gt": options.gt.name, "gt_sha256": digest, "predictions": options.predictions.name}
    document = build_document(evaluation, inputs=inputs)
    document["data"] = asdict(name_of_copy(_release(), annotations, digest, folder=options.gt.parent))
    if options.globs or options.where:
        chosen = [*options.globs, *(f"{name}={value}" for name, value in options.where.items())]
        document["inputs"]["chosen"] = chosen
    unrendered = None if evaluation.cdm_scored else Note(element="page", reason="CDM was left out")
    if cdm:
        document["cdm"] = cdm.to_record(evaluation.rows("display_formula"))
        if cdm.status.available:
            own = document["scorer"]["signatures"]
            own[FORMULA_CDM] = rendered_signature(own[FORMULA_CDM], str(cdm.status.signature))
        else:
            unrendered = unavailable(cdm)
    facts = [
        PageFacts(attributes=flat_attributes(entry), reference_sha256=entry_digest(entry))
        for entry in annotations
    ]
    document["page_records"] = page_records(evaluation, facts, unrendered=unrendered)
    return document


def _nothing(pairs: Sequence[CdmPair]) -> list[CdmResult]:
    """CDM where the ground truth has no formula: no tools are needed for that."""
    assert not pairs
    return []


def _bars(console: Console) -> Progress:
    """Drawn when told, by no thread of their own: a process with one thread can be forked."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, auto_refresh=False)


class ScoringProgress:
    """Bars with the remaining time on a terminal; elsewhere a line at every tenth, unless quiet."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._lines = not quiet and not console.is_terminal
        self._bars = _bars(console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bars:
            self._bars.stop()

    def stage(self, name: str) -> Callable[[int, int], None]:
        """What a stage calls with (done, in all)."""
        task, shown, begun = None, 0, 0.0

        def update(done: int, total: int) -> None:
            nonlocal task, shown, begun
            begun = begun or time.monotonic()
            if self._bars:
                task = self._bars.add_task(name, total=total) if task is None else task
                self._bars.update(task, completed=done, total=total, refresh=True)
            tenth = 10 * done // max(1, total)
            if self._lines and tenth > shown and total > LINES_FROM:
                shown = tenth
                left = (time.monotonic() - begun) / done * (total - done)
                print(f"{name}: {done} of {total}, about {left:.0f} s left", file=sys.stderr, flush=True)

        return update


def _release() -> PageSet:
    """The release whose rules are applied: what a ground-truth file is named after."""
    pages = load_suite("omnidoc16").pages
    assert pages is not None
    return pages


def write_result(path: Path, document: Mapping[str, Any] | None) -> None:
    """Write the result as JSON, whole or not at all. None only checks that the place can be written."""
    write_output(path, None if document is None else encode(document))


def _shown(value: float | None, factor: float = 1.0) -> str:
    return "not scored" if value is None else f"{value * factor:.3f}"


def parsed_where(pairs: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE pairs of --where."""
    for pair in pairs:
        if "=" not in pair:
            raise UsageError(
                f"--where {pair}: expected NAME=VALUE", hint="For example --where language=english."
            )
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def refuse_method(name: str) -> None:
    """`UsageError` unless it can be scored: the official `no_split` is broken in v1.6."""
    if name not in MATCH_METHODS:
        why = "it is broken in the official v1.6" if name == "no_split" else "no such method"
        raise UsageError(
            f"--match {name}: {why}, expected {' or '.join(MATCH_METHODS)}",
            hint="Use quick_match, the official default.",
        )


def refuse_pictures(folder: Path | None, *, no_cdm: bool) -> None:
    """`UsageError` where pictures of matches could not be drawn, or would lie among other files."""
    if folder is None:
        return
    if no_cdm:
        raise UsageError("--cdm-images with --no-cdm: nothing is rendered", hint="Leave out one of the two.")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UsageError(f"--cdm-images {folder}: not an empty folder", hint="Choose a new folder.")
    make_folder(folder)


def draw_matches(document: Mapping[str, Any], folder: Path, *, limit: int, cache_dir: Path) -> None:
    """Pictures of the worst `limit` formulas; standard error says how many, or why none."""
    from gravbench.omnidocbench.cdm.pictures import INDEX, worst_first, write_pictures

    rows = worst_first(document["rows"]["display_formula"], limit)
    if not rows:
        why = document.get("cdm", {}).get("reason", "no formula was scored")
        print(f"--cdm-images: no pictures: {why}", file=sys.stderr)
        return
    with ScoringProgress(quiet=False) as progress:
        written = write_pictures(
            rows, folder, cache_dir=cache_dir, progress=progress.stage("drawing formulas")
        )
    print(f"written: {len(written)} pictures and {INDEX} in {folder}", file=sys.stderr)


def refuse_too_many_errors(document: Mapping[str, Any], limit: ErrorLimit) -> None:
    """Exit code 3 where more pages than allowed were not scored as given."""
    lost, pages = document["pages_not_scored_as_given"], document["pages"]
    if limit.exceeded(lost, pages):
        raise NotComparableError(
            f"{lost} of {pages} pages have no readable prediction, --max-errors {limit} allows fewer",
            hint="Add the missing files, or allow more with --max-errors.",
        )


def write_tables(
    document: Mapping[str, Any],
    *,
    by: Sequence[str],
    markdown: Path | None,
    csv: Path | None,
    official: Path | None,
    name: str,
) -> list[ResultTable]:
    """Write what was asked for; the tables by attribute, to be shown."""
    tables = [table for attribute in by for table in tables_by(document, attribute)]
    row = leaderboard(document, name=name)
    try:
        if markdown is not None:
            markdown.write_text("\n".join(map(as_markdown, [row, *tables])), encoding="utf-8")
        if csv is not None:
            csv.write_text(as_csv(page_table(document)), encoding="utf-8")
        if official is not None:
            official.mkdir(parents=True, exist_ok=True)
            for file, content in official_files(document, name=name).items():
                (official / file).write_bytes(encode(content))
    except OSError as error:
        raise UsageError(
            f"{error.filename}: cannot be written: {error.strerror}", hint="Name a place you may write to."
        ) from error
    return tables


def print_report(document: Mapping[str, Any], tables: Sequence[ResultTable] = ()) -> None:
    """One table of the leaderboard parts and `tables`, then what a reader must know about them."""
    console = Console()
    summary = document["summary"]
    console.print(report_title(document), markup=False, highlight=False, soft_wrap=True, style="bold")
    table = Table()
    for name, justify in (("part", "left"), ("value", "right"), ("better", "left"), ("pages", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left")
    found = {metric.name: metric for metric in METRICS}
    for name, _, _, factor in SUMMARY_METRICS:
        part, metric = summary["metrics"][name], found[name]
        pages = part["page_denominator"]
        table.add_row(
            metric.label, _shown(part["raw"], factor), metric.direction, "-" if pages is None else str(pages)
        )
    formula = document["display_formula"]["all"]["Edit_dist"].get("ALL_page_avg")
    edit = formula if isinstance(formula, float) else None
    denominator = document["page_denominators"]["display_formula"]["Edit_dist"]
    table.add_row(found[FORMULA].label, _shown(edit), found[FORMULA].direction, str(denominator))
    console.print(table)
    for extra in tables:
        shown = Table(title=extra.title, title_justify="left")
        for number, heading in enumerate(extra.columns):
            shown.add_column(heading, justify="right" if number else "left")
        for row in extra.rows:
            shown.add_row(*row)
        console.print(shown)
    for line in report_notes(document):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def report_title(document: Mapping[str, Any]) -> str:
    """Whose score it is: the release's name, with its page count, stands there for the whole of it alone."""
    return f"{document['data']['label']}, scored end to end"


def report_notes(document: Mapping[str, Any]) -> list[str]:
    """Overall or what it lacks; missing pages, crashes, unconverted tables, clock limits, surplus."""
    summary = document["summary"]
    if summary["overall_missing"]:
        notes = [f"No Overall: {', '.join(summary['overall_missing'])} missing."]
    else:
        exact, board = summary["overall_notebook"], summary["overall_leaderboard"]
        notes = [f"Overall {exact:.4f} unrounded, {board:.3f} from rounded parts as on the leaderboard."]
    method = document["scorer"]["match_method"]
    if method != QUICK_MATCH:
        notes.append(f"Matched by {method}: not comparable with published numbers.")
    notes += _cdm_notes(document.get("cdm"))
    notes += missing_notes(document)
    latex = document["latex_tables"]
    if latex["unconverted"]:
        notes.append(
            f"{latex['unconverted']} of {latex['in_predictions']} LaTeX tables could not be converted and "
            "count as empty."
        )
    notes += [_note_line(note) for note in document["notes"][:NOTES_SHOWN]]
    if len(document["notes"]) > NOTES_SHOWN:
        notes.append(f"... and {len(document['notes']) - NOTES_SHOWN} more such notes in the JSON (notes).")
    if document["clock_limits"]:
        notes.append(
            f"{len(document['clock_limits'])} places where the official time limits could have changed the "
            "result; see clock_limits."
        )
    surplus = document["surplus"].values()
    predicted = sum(page["predicted_chars"] for page in surplus)
    free = sum(page["surplus_chars"] for page in surplus)
    if predicted:
        notes.append(
            f"Surplus: {free / predicted:.1%} of predicted characters match nothing (not in the score)."
        )
    return notes


def missing_notes(document: Mapping[str, Any]) -> list[str]:
    """Pages without a prediction and files without a page: the first three by name, and what may be meant."""
    missing, unused = document["pages_without_prediction"], document["unused_files"]
    notes = []
    if missing:
        nearest = document["nearest_files"]
        first = [
            f"{page} (nearest file: {nearest[page]})" if page in nearest else page
            for page in missing[:NAMES_SHOWN]
        ]
        notes.append(
            f"{len(missing)} of {document['pages']} pages have no prediction and count as empty: "
            f"{_and_more(first, len(missing))}."
        )
    if unused:
        notes.append(
            f"{len(unused)} files belong to no page and are not used: "
            f"{_and_more(unused[:NAMES_SHOWN], len(unused))}."
        )
    return notes


def _and_more(first: Sequence[str], total: int) -> str:
    more = f" and {total - len(first)} more" if total > len(first) else ""
    return ", ".join(first) + more


def _note_line(note: Mapping[str, Any]) -> str:
    value = f" is {note['value']:.3f}" if "value" in note else ""
    step = f" {note['next_step']}" if note.get("next_step") else ""
    return f"{note['page']}, {note['element']}{value}: {note['reason']}.{step}"


def _cdm_notes(cdm: Mapping[str, Any] | None) -> list[str]:
    """Why CDM is missing and what to install, or how many formulas did not render."""
    if cdm is None:
        return []
    if not cdm["available"]:
        return [f"CDM is not scored: {cdm['reason']}. {cdm['hint']}"]
    failed = cdm["failed"]
    return [f"{len(failed)} formulas show nothing on one side."] if failed else []


def print_verification(reports: Mapping[str, KindReport], *, as_json: bool) -> None:
    """Passed, failed and not run per kind, then the first mismatches."""
    if as_json:
        record = {kind: report.to_record() for kind, report in reports.items()}
        sys.stdout.write(json.dumps({"schema": "gravbench.verify-scorer/1", "kinds": record}) + "\n")
        return
    console = Console()
    table = Table(title="scorer against recorded official results", title_justify="left")
    table.add_column("kind")
    for name in ("passed", "failed", "not run"):
        table.add_column(name, justify="right")
    for kind, report in reports.items():
        table.add_row(kind, str(report.passed), str(report.failed), str(report.not_run))
    console.print(table)
    for kind, report in reports.items():
        lines = [f"{kind}: not run: {reason}" for reason in report.reasons]
        lines += [f"{kind}: {line}" for line in report.mismatches]
        for line in lines:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
