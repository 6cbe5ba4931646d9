"""What the two verbs do: read, score, write, print. Edges only; the scoring is elsewhere."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from gravbench.errors import UsageError
from gravbench.omnidocbench.cdm.rows import Cdm
from gravbench.omnidocbench.document import SUMMARY_METRICS, build_document, encode
from gravbench.omnidocbench.evaluation import evaluate
from gravbench.omnidocbench.ground_truth import read_annotations, read_pages
from gravbench.omnidocbench.metric_table import FORMULA, METRICS
from gravbench.recorded_results import KindReport
from gravbench.suites.manifest import PageSet, load_suite
from gravbench.suites.page_folder import name_of_copy


@dataclass(frozen=True, slots=True)
class ScoreOptions:
    """Ground-truth file, prediction folder, processes at most."""

    gt: Path
    predictions: Path
    jobs: int


def run_scoring(options: ScoreOptions, *, cdm: Cdm | None = None) -> dict[str, Any]:
    """Score a folder; the bar goes to a terminal's standard error only."""
    annotations = read_annotations(options.gt)
    pages = read_pages(annotations, source=str(options.gt))
    console = Console(stderr=True)
    columns = (TextColumn("scoring pages"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("pages", total=len(pages))
        evaluation = evaluate(
            pages,
            options.predictions,
            jobs=options.jobs,
            cdm_scorer=cdm.score if cdm and cdm.status.available else None,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    digest = hashlib.sha256(options.gt.read_bytes()).hexdigest()
    inputs = {"gt": options.gt.name, "gt_sha256": digest, "predictions": options.predictions.name}
    document = build_document(evaluation, inputs=inputs)
    document["data"] = asdict(name_of_copy(_release(), annotations, digest, folder=options.gt.parent))
    if cdm:
        document["cdm"] = cdm.to_record(evaluation.rows("display_formula"))
    return document


def _release() -> PageSet:
    """The release whose rules are applied: what a ground-truth file is named after."""
    pages = load_suite("omnidoc16").pages
    assert pages is not None
    return pages


def write_result(path: Path, document: Mapping[str, Any] | None) -> None:
    """Write the result whole or not at all. None only checks that the place can be written."""
    draft = path.with_name(path.name + ".part")
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        if document is None:
            draft.touch()
            draft.unlink()
        else:
            draft.write_bytes(encode(document))
            draft.replace(path)
    except OSError as error:
        raise UsageError(
            f"--out {path}: cannot be written: {error.strerror or error}",
            hint="Name a file in an existing folder that you may write to.",
        ) from error


def _shown(value: float | None, factor: float = 1.0) -> str:
    return "not scored" if value is None else f"{value * factor:.3f}"


def print_report(document: Mapping[str, Any]) -> None:
    """One table of the leaderboard parts, then what a reader must know about them."""
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
    notes += _cdm_notes(document.get("cdm"))
    missing = document["pages_without_prediction"]
    if missing:
        notes.append(f"{len(missing)} of {document['pages']} pages have no prediction and count as empty.")
    for page, reason in document["crashed_predictions"].items():
        notes.append(f"{page}: scored as empty: {reason}")
    latex = document["latex_tables"]
    if latex["unconverted"]:
        notes.append(
            f"{latex['unconverted']} of {latex['in_predictions']} LaTeX tables could not be converted and "
            "count as empty (LaTeXML does the conversion: apt install latexml)."
        )
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


def _cdm_notes(cdm: Mapping[str, Any] | None) -> list[str]:
    """Why CDM is missing and what to install, or how many formulas did not render."""
    if cdm is None:
        return []
    if not cdm["available"]:
        return [f"CDM is not scored: {cdm['reason']}. {cdm['hint']}"]
    failed = cdm["failed"]
    return [f"{len(failed)} formulas show nothing on one side; see cdm.failed."] if failed else []


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
