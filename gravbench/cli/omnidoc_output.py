"""What comes of a scored folder: files of its tables, and what the terminal says of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gravbench.recorded_results import KindReport

from gravbench.cli.output import print_tables, write_output
from gravbench.errors import UsageError, printable
from gravbench.omnidocbench.document import SUMMARY_METRICS, encode
from gravbench.omnidocbench.page_metrics import FORMULA, METRICS
from gravbench.omnidocbench.quick_match import QUICK_MATCH
from gravbench.omnidocbench.result_tables import (
    ResultTable,
    as_csv,
    as_markdown,
    leaderboard,
    long_table,
    official_files,
    page_table,
    tables_by,
)

NAMES_SHOWN = 3
NOTES_SHOWN = 10


def write_result(path: Path, document: Mapping[str, Any] | None) -> None:
    """Write the result as JSON, whole or not at all. None only checks that the place can be written."""
    write_output(path, None if document is None else encode(document))


def beside_csv(csv: Path) -> Path:
    """Where the tables by attribute go: `pages-by.csv` beside `pages.csv`."""
    return csv.with_name(f"{csv.stem}-by{csv.suffix}")


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
            if tables:
                beside_csv(csv).write_text(as_csv(long_table(tables)), encoding="utf-8")
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
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("part", "value", "better", "pages"):
        table.add_column(name, justify="right" if name in ("value", "pages") else "left")
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
    print_tables(table, *map(_table, tables))
    for line in report_notes(document):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _table(given: ResultTable) -> Table:
    """Numbers are never cut; a long value of the attribute takes several lines."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, title=given.title, title_justify="left")
    for number, heading in enumerate(given.columns):
        if number:
            shown.add_column(heading, justify="right", no_wrap=True)
        else:
            shown.add_column(heading, overflow="fold")
    for row in given.text:
        shown.add_row(*map(Text, map(printable, row)))
    return shown


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


def _shown(value: float | None, factor: float = 1.0) -> str:
    return "not scored" if value is None else f"{value * factor:.3f}"


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
