"""Published comparisons: `reports/YYYY-MM-slug/` with comparison.json and the page rendered from it."""

from __future__ import annotations

import re
from pathlib import Path

from gravbench.errors import DataError, UsageError
from gravbench.reporting.document import ReportDocument
from gravbench.reporting.html import render_report
from gravbench.reporting.public_view import public
from gravbench.reporting.verdicts import headline
from gravbench.reporting.visible import visible
from gravbench.store.files import make_folder, parse_record, write_atomic
from gravbench.store.schema import record_bytes

DOCUMENT, PAGE, LIST = "comparison.json", "report.html", "README.md"
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def published_folder(document: ReportDocument, slug: str) -> str:
    """`YYYY-MM-slug`, by the month of the first run."""
    if not _SLUG.fullmatch(slug):
        raise UsageError(f"--publish: {slug!r}", hint="Small letters, digits and hyphens: crops-mini.")
    return f"{document.runs[0].created_utc[:7]}-{slug}"


def publish_report(document: ReportDocument, *, root: Path, folder: str, working: Path) -> list[Path]:
    """Write both files, then the list of everything published below `root`.

    Paths stay as far as they lie below `working`; the machine is not named.
    """
    target = root / folder
    make_folder(target, option="--to")
    write_atomic(target / DOCUMENT, record_bytes(public(document, working=working)) + b"\n")
    write_atomic(target / PAGE, render_report(read_document(target / DOCUMENT)).encode("utf-8"))
    write_atomic(root / LIST, list_text(root).encode("utf-8"))
    return [target / DOCUMENT, target / PAGE, root / LIST]


def read_document(path: Path) -> ReportDocument:
    """A stored document; `DataError` when it is missing or not of the schema."""
    try:
        data = path.read_bytes()
    except OSError as fault:
        raise DataError(f"{path}: {fault.strerror}", hint="Publish it again.") from fault
    return parse_record(data, ReportDocument, where=str(path))


def list_text(root: Path) -> str:
    """`README.md`: one line a published comparison, newest first."""
    lines = ["# Published comparisons", "", "Written by `gravbench report --publish`, newest first.", ""]
    for file in sorted(root.glob(f"*/{DOCUMENT}"), reverse=True):
        document = read_document(file)
        lines.append(f"- [{file.parent.name}]({file.parent.name}/{PAGE}): {visible(headline(document))}")
    return "\n".join(lines) + "\n"
