"""A run with many arms as a curve: one point a strategy, in the order the arms were given."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from gravbench.analysis.identity import Identity
from gravbench.analysis.quality import QualityDifference
from gravbench.analysis.speed import Speedup
from gravbench.analysis.summary import Summary
from gravbench.arms import AR, canonical, parse_arm, with_batch
from gravbench.records import Record


class CurvePoint(Record):
    """One strategy. `block` is the block size its name asks for, `None` when it asks for none. Speedups are
    against `speed_base`: `ar` at the same batch size, of `ar:batch=N` plain `ar`."""

    strategy: str
    block: int | None
    batch: int = 1
    tpf_all: float | None
    accepted_draft: float | None
    tau_round: float | None
    acceptance_rate: float | None
    requests_per_forward: float | None = None
    """How full the batches were: they drain at the end of a group of crops and of a page."""
    decode: Speedup | None
    request: Speedup | None
    page: Speedup | None = None
    """Whole pages, where the suite has some."""
    speed_base: str | None = None
    """Absent where no speedup was measured."""
    identical_to_ar: Identity | None
    quality: dict[str, float]
    failed: int
    lossy: Literal[True] | None = None
    """Its tokens may differ from those of `ar` by design; absent for exact strategies."""
    quality_difference: dict[str, QualityDifference] | None = None
    """own - ar in points with paired intervals; absent for exact strategies."""


class Curve(Record):
    """`gravbench.sweep/1`: points of one interleaved session."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_id: Literal["gravbench.sweep/1"] = Field(default="gravbench.sweep/1", alias="schema")
    suite: str
    n_samples: int
    run_dir: str
    sessions: int
    points: tuple[CurvePoint, ...]
    warnings: tuple[str, ...]
    data: dict[str, JsonValue] | None = None
    """Which copy of the page data was run; absent for suites without pages."""


def curve_of(summary: Summary) -> Curve:
    """Points of a summary."""
    return Curve(
        suite=summary.suite,
        n_samples=summary.n_samples,
        run_dir=summary.run_dir,
        sessions=summary.sessions,
        points=tuple(
            CurvePoint(
                strategy=name,
                block=parse_arm(name).block,
                batch=parse_arm(name).batch,
                tpf_all=c.tpf_all,
                accepted_draft=c.accepted_draft if c.draft_offered else None,
                tau_round=c.tau_round,
                acceptance_rate=c.acceptance_rate,
                requests_per_forward=c.requests_per_forward,
                decode=s.speedup.decode if s.speedup else None,
                request=s.speedup.request if s.speedup else None,
                page=s.speedup.page if s.speedup else None,
                speed_base=(s.speed_base or AR) if s.speedup else None,
                identical_to_ar=s.identical_to_ar,
                quality=s.quality,
                failed=s.failed,
                lossy=s.lossy,
                quality_difference=s.quality_difference,
            )
            for name, s in summary.strategies.items()
            if (c := s.counters) is not None
        ),
        warnings=summary.warnings,
        data=summary.data,
    )


def swept_strategies(
    *,
    vary: tuple[str, ...],
    blocks: tuple[int, ...],
    strategies: tuple[str, ...],
    batches: tuple[int, ...] = (1,),
) -> tuple[str, ...]:
    """`ar`, `strategies`, then each of `vary` at each block size, all at each batch size; nothing twice.

    Names made here are canonical; `strategies` at a single batch size stay as given.
    """
    varied = [f"{name}{',' if ':' in name else ':'}block={block}" for name in vary for block in blocks]
    arms = [AR, *strategies, *map(canonical, varied)]
    return tuple(dict.fromkeys(with_batch(arm, size) for size in batches for arm in arms))
