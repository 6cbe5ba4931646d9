"""Places where a wall-clock limit of the official scorer could have chosen another algorithm.

Ours never looks at a clock. Work is counted instead and turned into seconds of the official pure Python
code on an ordinary core; from a twentieth of its limit on the place is reported, because the official
workers share one interpreter (13 threads by default) and machines differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gravbench.metrics.teds import TedsResult

MERGING_LIMIT_S = 300.0
TEDS_LIMIT_S = 120.0
REPORTED_SHARE = 0.05
_SECONDS_PER_WINDOW = 4e-7
_SECONDS_PER_NODE_PAIR = 6e-5


@dataclass(frozen=True, slots=True)
class ClockLimit:
    """One such place: the limit, what the official code would about have needed, what it does beyond."""

    page: str
    stage: str
    limit_s: float
    estimated_s: float
    otherwise: str

    def to_record(self) -> dict[str, Any]:
        return {
            "page": self.page,
            "stage": self.stage,
            "limit_s": self.limit_s,
            "estimated_s": round(self.estimated_s, 1),
            "otherwise": self.otherwise,
        }


def _reported(limit: ClockLimit) -> list[ClockLimit]:
    return [limit] if limit.estimated_s >= REPORTED_SHARE * limit.limit_s else []


def matching_limits(page: str, official_windows: int, *, searched: bool) -> list[ClockLimit]:
    """The merging search of a page, from the windows it reads; one we left out is always reported."""
    seconds = official_windows * _SECONDS_PER_WINDOW
    limit = ClockLimit(page, "prediction_merging", MERGING_LIMIT_S, seconds, "chunked assignment")
    if not searched:
        return [replace(limit, stage="prediction_merging (left out here: beyond the work budget)")]
    return _reported(limit)


def teds_limits(page: str, table: int, teds: TedsResult) -> list[ClockLimit]:
    """TEDS and TEDS-S of one table pair, from its numbers of nodes."""
    seconds = teds.nodes_gt * teds.nodes_pred * _SECONDS_PER_NODE_PAIR
    return _reported(ClockLimit(page, f"teds of table {table}", TEDS_LIMIT_S, seconds, "score 0"))
