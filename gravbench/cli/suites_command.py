"""`gravbench suites list|show|verify|fetch|make`."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gravbench.cli.output import print_json, print_line, print_tables
from gravbench.cli.progress import make_progress
from gravbench.cli.verbs import SuitesFetch, SuitesList, SuitesMake, SuitesShow, SuitesVerify
from gravbench.errors import DataError, UsageError, printable
from gravbench.records import TASKS, Task
from gravbench.store.schema import canonical_json
from gravbench.suites.data import data_folder
from gravbench.suites.manifest import Suite, list_suites, load_samples, load_suite, suite_digest
from gravbench.suites.samples import Sample
from gravbench.suites.status import FoundData, Verification, fetch_pages, find_data, verify_suite

if TYPE_CHECKING:
    from gravbench.suites.own_crops import MadeSuite, Making

SHOWN_FAULTS = 20


def list_all(given: SuitesList) -> int:
    """Name, version, number of samples by task, and the data of every suite."""
    suites = list_suites()
    found = {suite.name: find_data(suite, environ=os.environ) for suite in suites}
    rows = [describe(suite, load_samples(suite), found[suite.name]) for suite in suites]
    if given.json:
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


def show(given: SuitesShow) -> int:
    """One suite in full."""
    suite = load_suite(given.name)
    found = find_data(suite, environ=os.environ)
    row = describe(suite, load_samples(suite), found)
    if given.json:
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


def verify(given: SuitesVerify) -> int:
    """Print what was checked; 0 when all is well, else 5."""
    suite = load_suite(given.name)
    found = verify_suite(suite, data_folder(suite, data=given.data, environ=os.environ))
    if given.json:
        print_json(canonical_json({"schema": "gravbench.verification/1", **_document(found)}))
    else:
        _print(found)
    return 0 if found.ok else DataError.exit_code


def fetch(given: SuitesFetch) -> int:
    """Download, then verify what came."""
    suite = load_suite(given.name)
    folder = fetch_pages(
        suite, data=given.data, environ=os.environ, note=make_progress(quiet=given.quiet).note
    )
    found = verify_suite(suite, folder)
    if not given.quiet:
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


def make(given: SuitesMake) -> int:
    """Write the suite and say what is in it and what is not; 0 where at least one sample is."""
    from gravbench.suites.own_crops import Making, make_suite
    from gravbench.suites.own_pages import make_page_suite
    from gravbench.suites.truth_tables import read_truth

    named = given.name or (given.out or given.truth or given.images or Path()).resolve().stem
    chosen = named if given.name else re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:64]
    budgets = _of_tasks(given.max_new_tokens or (), "--max-new-tokens", "table=2048")
    making = Making(
        name=chosen,
        out=given.out or Path(chosen),
        columns=_named(given.columns.split(",") if given.columns else (), "--columns", "image=file,text=gt"),
        prompts=_of_tasks(given.prompt or (), "--prompt", 'text="Text Recognition:"'),
        budgets={task: _count(n) for task, n in budgets.items()},
        scorer=given.scorer,
    )
    if given.pages:
        if given.images is None:
            raise UsageError("--pages: no pages named", hint="Name their folder with --images DIR.")
        made = make_page_suite(
            given.images, making, truth=given.truth, encoding=given.encoding, dpi=given.dpi
        )
    else:
        made = make_suite(read_truth(given.truth, given.images, encoding=given.encoding), making)
    if given.json:
        print_json(canonical_json({"schema": "gravbench.made_suite/1", **_made_document(made, making)}))
    else:
        for line in _made_lines(made, making):
            print_line(printable(line))
    return 0


def _named(given: Sequence[str], flag: str, example: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value or key.strip() in found:
            raise UsageError(
                f"{flag}: {text!r}, expected NAME=VALUE, each name once",
                hint=f"For example {flag} {example}.",
            )
        found[key.strip()] = value
    return found


def _of_tasks(given: Sequence[str], flag: str, example: str) -> dict[Task, str]:
    named = _named(given, flag, example)
    unknown = [task for task in named if task not in TASKS]
    if unknown:
        raise UsageError(f"{flag}: {unknown[0]!r}, expected {', '.join(TASKS)}", hint=f"{flag} {example}")
    return {task: named[task] for task in TASKS if task in named}


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,6}", text):
        raise UsageError(f"--max-new-tokens: {text!r}, expected a whole number above 0", hint="table=2048")
    return int(text)


def _counted(tasks: Mapping[Any, int]) -> str:
    return ", ".join(f"{count:,} {task}" for task, count in tasks.items())


def _made_lines(made: MadeSuite, making: Making) -> list[str]:
    from gravbench.suites.own_crops import LEFT_OUT

    where = ", ".join(f"{role} = {column}" for role, column in made.columns.items())
    lines = [f"{making.name}: {made.samples:,} samples ({_counted(made.tasks)}), in {making.out}"]
    if where:
        lines.append(f"columns: {where}")
    if made.blocks:
        lines.append(f"blocks of their truth: {_counted(made.blocks)}")
    if made.inferred:
        lines.append(f"tasks read off the truth: {_counted(made.inferred)}")
    if made.undelimited:
        lines.append(f"delimiters taken off {made.undelimited:,} formulas: models answer bare LaTeX")
    if made.attributes:
        lines.append(f"attributes: {', '.join(made.attributes)}")
    lines += [f"no attribute: {column} ({why})" for column, why in made.ignored_columns.items()]
    if made.left_out:
        lines.append(f"left out {len(made.left_out):,} of {made.samples + len(made.left_out):,}:")
        lines += [f"  {one.line}" for one in made.left_out[:SHOWN_FAULTS]]
        hidden = len(made.left_out) - SHOWN_FAULTS
        if hidden > 0:
            lines.append(f"  ... and {hidden:,} more, all in {making.out / LEFT_OUT}")
    layout = " --layout whitespace" if made.blocks else ""
    lines.append(f"next: gravbench run --suite {made.manifest}{layout} --report {making.name}.html")
    return lines


def _made_document(made: MadeSuite, making: Making) -> dict[str, JsonValue]:
    return {
        "suite": making.name,
        "manifest": str(made.manifest),
        "samples": made.samples,
        "tasks": {str(task): count for task, count in made.tasks.items()},
        "inferred": {str(task): count for task, count in made.inferred.items()},
        "columns": dict(made.columns),
        "attributes": list(made.attributes),
        "ignored_columns": dict(made.ignored_columns),
        "blocks": dict(made.blocks),
        "undelimited": made.undelimited,
        "left_out": [{"where": o.where, "what": o.what, "why": o.why} for o in made.left_out],
    }
