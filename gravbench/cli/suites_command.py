"""`gravbench suites list|show|verify|fetch`."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gravbench.cli.output import print_json, print_tables
from gravbench.cli.progress import make_progress
from gravbench.errors import DataError, printable
from gravbench.records import TASKS
from gravbench.store.schema import canonical_json
from gravbench.suites.data import data_folder
from gravbench.suites.manifest import Suite, list_suites, load_samples, load_suite, suite_digest
from gravbench.suites.samples import Sample
from gravbench.suites.status import FoundData, Verification, fetch_pages, find_data, verify_suite


def list_all(*, as_json: bool) -> int:
    """Name, version, number of samples by task, and the data of every suite."""
    suites = list_suites()
    found = {suite.name: find_data(suite, environ=os.environ) for suite in suites}
    rows = [describe(suite, load_samples(suite), found[suite.name]) for suite in suites]
    if as_json:
        print_json(canonical_json({"schema": "gravbench.suites/1", "suites": rows}))
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("suite", "version", "crops", *TASKS, "pages", "data"):
        table.add_column(column, justify="left" if column in ("suite", "data") else "right")
    for suite, row in zip(suites, rows, strict=True):
        tasks = row["tasks"]
        assert isinstance(tasks, dict)
        counts = (str(tasks.get(task, 0)) for task in TASKS)
        pages = row["pages"]
        assert pages is None or isinstance(pages, dict)
        table.add_row(
            Text(str(row["name"])),
            str(row["version"]),
            str(row["n_crops"]),
            *counts,
            "0" if pages is None else f"{pages['selected']:,}",
            Text(found[suite.name].describe(suite.pages)),
        )
    print_tables(table)
    return 0


def show(name: str, *, as_json: bool) -> int:
    """One suite in full."""
    suite = load_suite(name)
    found = find_data(suite, environ=os.environ)
    row = describe(suite, load_samples(suite), found)
    if as_json:
        print_json(canonical_json({"schema": "gravbench.suite/1", **row}))
        return 0
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in (row | {"data": found.describe(suite.pages)}).items():
        if value is None:
            continue
        if isinstance(value, dict):
            for inner, entry in value.items():
                table.add_row(f"{key}.{inner}", Text(str(entry)))
        else:
            table.add_row(key, Text(str(value)))
    print_tables(table)
    return 0


def _pages_selected(suite: Suite) -> int:
    pages = suite.pages
    if pages is None:
        return 0
    return len(pages.select) or (pages.subset_pages if pages.subsets else pages.release_pages) or 0


def _pages(suite: Suite) -> dict[str, JsonValue] | None:
    pages = suite.pages
    if pages is None:
        return None
    return {
        "release": pages.release,
        "release_pages": pages.release_pages,
        "selected": _pages_selected(suite),
        "subsets": list(pages.subsets),
        "annotation_sha256": pages.annotation_sha256,
        "repository": pages.repository,
        "revision": pages.revision,
    }


def describe(suite: Suite, samples: tuple[Sample, ...], found: FoundData) -> dict[str, JsonValue]:
    """The facts of one suite that decide what is measured."""
    counts = Counter(sample.task for sample in samples)
    return {
        "name": suite.name,
        "version": suite.version,
        "description": suite.description,
        "digest": suite_digest(suite),
        "kind": suite.kind,
        "n_samples": len(samples) + (0 if suite.kind == "page-crops" else _pages_selected(suite)),
        "n_crops": len(samples),
        "pages": _pages(suite),
        "data": found.state,
        "data_label": found.label,
        "data_pages": found.pages,
        "data_problem": found.problem,
        "tasks": {task: counts[task] for task in TASKS if counts[task]},
        "prompts": {str(task): text for task, text in suite.prompts.items()},
        "max_new_tokens": {str(task): budget for task, budget in suite.max_new_tokens.items()},
    }


SHOWN_FAULTS = 20


def verify(name: str, *, data: Path | None, as_json: bool) -> int:
    """Print what was checked; 0 when all is well, else 5."""
    suite = load_suite(name)
    found = verify_suite(suite, data_folder(suite, data=data, environ=os.environ))
    if as_json:
        print_json(canonical_json({"schema": "gravbench.verification/1", **_document(found)}))
    else:
        _print(found)
    return 0 if found.ok else DataError.exit_code


def fetch(name: str, *, data: Path | None, quiet: bool) -> int:
    """Download, then verify what came."""
    suite = load_suite(name)
    folder = fetch_pages(suite, data=data, environ=os.environ, note=make_progress(quiet=quiet).note)
    found = verify_suite(suite, folder)
    if not quiet:
        _print(found)
    return 0 if found.ok else DataError.exit_code


def _document(found: Verification) -> dict[str, JsonValue]:
    return {
        "suite": found.suite,
        "folder": None if found.folder is None else str(found.folder),
        "label": found.label,
        "partial": found.partial,
        "crops": found.crops,
        "pages": found.pages,
        "faults": list(found.faults),
        "ok": found.ok,
    }


def _print(found: Verification) -> None:
    print(f"{found.suite}: {found.crops:,} crops, {found.pages:,} pages", flush=True)
    if found.folder is not None:
        print(f"data: {found.label}, in {printable(str(found.folder))}")
    for fault in found.faults[:SHOWN_FAULTS]:
        print(f"fault: {printable(fault)}")
    hidden = len(found.faults) - SHOWN_FAULTS
    if hidden > 0:
        print(f"... and {_faults(hidden, 'more ')} (--json lists them)")
    print("all well" if found.ok else _faults(len(found.faults)), flush=True)


def _faults(count: int, more: str = "") -> str:
    return f"{count:,} {more}fault{'' if count == 1 else 's'}"
