"""`gravbench suites list|show`."""

from __future__ import annotations

from collections import Counter

from pydantic import JsonValue
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gravbench.cli.output import print_json, print_tables
from gravbench.pipeline import suite_digest
from gravbench.records import TASKS
from gravbench.store.schema import canonical_json
from gravbench.suites.manifest import Suite, list_suites, load_samples, load_suite
from gravbench.suites.samples import Sample


def list_all(*, as_json: bool) -> int:
    """Name, version, number of samples by task and title of every suite."""
    rows = [describe(suite, load_samples(suite)) for suite in list_suites()]
    if as_json:
        print_json(canonical_json({"schema": "gravbench.suites/1", "suites": rows}))
        return 0
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("suite", "version", "samples", *TASKS):
        table.add_column(column, justify="left" if column == "suite" else "right")
    for row in rows:
        tasks = row["tasks"]
        assert isinstance(tasks, dict)
        counts = (str(tasks.get(task, 0)) for task in TASKS)
        table.add_row(Text(str(row["name"])), str(row["version"]), str(row["n_samples"]), *counts)
    print_tables(table)
    return 0


def show(name: str, *, as_json: bool) -> int:
    """One suite in full."""
    suite = load_suite(name)
    row = describe(suite, load_samples(suite))
    if as_json:
        print_json(canonical_json({"schema": "gravbench.suite/1", **row}))
        return 0
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in row.items():
        if isinstance(value, dict):
            for inner, entry in value.items():
                table.add_row(f"{key}.{inner}", Text(str(entry)))
        else:
            table.add_row(key, Text(str(value)))
    print_tables(table)
    return 0


def describe(suite: Suite, samples: tuple[Sample, ...]) -> dict[str, JsonValue]:
    """The facts of one suite that decide what is measured."""
    counts = Counter(sample.task for sample in samples)
    return {
        "name": suite.name,
        "version": suite.version,
        "description": suite.description,
        "digest": suite_digest(suite),
        "n_samples": len(samples),
        "tasks": {task: counts[task] for task in TASKS if counts[task]},
        "prompts": {str(task): text for task, text in suite.prompts.items()},
        "max_new_tokens": {str(task): budget for task, budget in suite.max_new_tokens.items()},
    }
