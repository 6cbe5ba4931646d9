"""`gravbench suites make`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from gravbench.cli.output import print_json, print_line
from gravbench.errors import UsageError, printable
from gravbench.records import TASKS, Task
from gravbench.store.schema import canonical_json
from gravbench.suites.own_crops import LEFT_OUT, MadeSuite, Making, make_suite
from gravbench.suites.own_pages import make_page_suite
from gravbench.suites.truth_tables import read_truth

SHOWN = 20


def make(
    *,
    images: Path | None,
    truth: Path | None,
    name: str | None,
    out: Path | None,
    columns: str | None,
    prompts: Sequence[str],
    budgets: Sequence[str],
    scorer: str,
    pages: bool,
    dpi: int,
    encoding: str,
    as_json: bool,
) -> int:
    """Write the suite and say what is in it and what is not; 0 where at least one sample is."""
    named = name or (out or truth or images or Path()).resolve().stem
    chosen = named if name else re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")[:64]
    making = Making(
        name=chosen,
        out=out or Path(chosen),
        columns=_named(columns.split(",") if columns else (), "--columns", "image=file,text=gt"),
        prompts=_of_tasks(prompts, "--prompt", 'text="Text Recognition:"'),
        budgets={task: _count(n) for task, n in _of_tasks(budgets, "--max-new-tokens", "table=2048").items()},
        scorer=scorer,
    )
    if pages:
        if images is None:
            raise UsageError("--pages: no pages named", hint="Name their folder with --images DIR.")
        made = make_page_suite(images, making, truth=truth, encoding=encoding, dpi=dpi)
    else:
        made = make_suite(read_truth(truth, images, encoding=encoding), making)
    if as_json:
        print_json(canonical_json({"schema": "gravbench.made_suite/1", **_document(made, making)}))
    else:
        for line in _lines(made, making):
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


def _lines(made: MadeSuite, making: Making) -> list[str]:
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
        lines += [f"  {one.line}" for one in made.left_out[:SHOWN]]
        hidden = len(made.left_out) - SHOWN
        if hidden > 0:
            lines.append(f"  ... and {hidden:,} more, all in {making.out / LEFT_OUT}")
    layout = " --layout whitespace" if made.blocks else ""
    lines.append(f"next: gravbench run --suite {made.manifest}{layout} --report {making.name}.html")
    return lines


def _document(made: MadeSuite, making: Making) -> dict[str, JsonValue]:
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
