"""c(Q): what a forward of Q rows costs, in forwards of one row.

Policies that weigh drafts against forwards read this table and no clock, so the tokens they offer, and with
them every counter, are the same on every machine. `gravbench doctor
--forward-cost --json` measures a table; without one, that of the shipped model on a CPU is used.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost `costs[i]` of `rows[i]` rows, ascending; straight lines between, the last one goes on."""

    rows: tuple[int, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in zip(self.rows, self.rows[1:], strict=False))
        if len(self.rows) != len(self.costs) or len(self.rows) < 2 or not rising or min(self.costs) <= 0:
            raise ValueError("a cost table has two row counts or more, ascending, each with a positive cost")

    def __call__(self, rows: float) -> float:
        at = min(max(bisect_left(self.rows, rows), 1), len(self.rows) - 1)
        low, high = self.rows[at - 1], self.rows[at]
        below, above = self.costs[at - 1], self.costs[at]
        return max(below + (above - below) * (rows - low) / (high - low), min(self.costs))


SHIPPED = Costs((1, 9, 17, 33), (1.0, 1.56, 1.76, 2.12))
"""Of gravity-tiny in float32 on a CPU."""


def costs_of(path: str | None, arm: str) -> Costs:
    """The table of a file (what `gravbench doctor --forward-cost --json` wrote, or `rows` and `costs`).

    `SHIPPED` without one.
    """
    if path is None:
        return SHIPPED
    try:
        return _read(path, Path(path).stat().st_mtime_ns)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = error.strerror if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        raise UsageError(
            f"{arm}: costs={path}: no cost table: {why}",
            hint="gravbench doctor --forward-cost --json > FILE writes one.",
        ) from error


def measured_costs(document: Mapping[str, Any]) -> dict[int, float]:
    """c(Q)/c(1) by row count, of what `gravbench doctor --forward-cost --json` wrote."""
    return {int(rows): float(cost) for rows, cost in document["forward_cost"].items()}


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Costs:  # noqa: ARG001 - a changed file is another one
    held = json.loads(Path(path).read_text())
    if "forward_cost" in held:
        measured = measured_costs(held)
        return Costs(tuple(sorted(measured)), tuple(measured[rows] for rows in sorted(measured)))
    return Costs(tuple(int(rows) for rows in held["rows"]), tuple(float(cost) for cost in held["costs"]))
