"""`gravbench doctor`."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from gravbench.cli.output import print_json, print_tables
from gravbench.doctor import Diagnosis, diagnose
from gravbench.errors import EngineError
from gravbench.store.schema import canonical_json

_STYLE = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def run_doctor(*, forward_cost: bool, model: str | None, threads: int, as_json: bool) -> int:
    """Print the checks; 0 when none failed, else 4."""
    diagnosis = diagnose(
        folder=Path.cwd() / "runs",
        model=model,
        threads=threads,
        forward_cost=(lambda checkpoint: _forward_cost(checkpoint, threads)) if forward_cost else None,
    )
    if as_json:
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
