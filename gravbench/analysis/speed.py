"""Speedups: ratios of sums over pairs, with interval, spread and outliers, and which times are shares.

The headline is sum of base times / sum of own times over pairs. Per-pair ratios describe spread and are
never the headline. Interleaved pairs cancel slow drift from the ratio; drift and steadiness say how much
there was to cancel, and whether warm-up was enough.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from gravbench.analysis.bootstrap import (
    CONFIDENCE,
    RESAMPLES,
    Design,
    Floats,
    Interval,
    Ints,
    bootstrap,
    cluster_sums,
    design_of,
    ratio,
    student_quantile,
)
from gravbench.analysis.loaded import Unit
from gravbench.arms import ar_arms, batch_of, is_ar, speed_base
from gravbench.records import Record
from gravbench.store.schema import GenRecord


def speed_notes(arms: Collection[str]) -> tuple[str, ...]:
    """One for each strategy without an `ar` arm of its batch size; empty where no `ar` arm was run at all."""
    if not ar_arms(arms):
        return ()
    return tuple(
        f"{arm}: no ar arm at batch size {batch_of(arm)}: speedups were not measured"
        for arm in arms
        if not is_ar(arm) and speed_base(arm, arms) is None
    )


def share_notes(records_by_arm: Sequence[Sequence[GenRecord]]) -> tuple[str, ...]:
    """One note where crops decoded together: their times are shares of shared forwards."""
    shared = [records[0].arm for records in records_by_arm if shared_groups(records) is not None]
    if not shared:
        return ()
    return (
        f"{', '.join(shared)}: crops that decode together share the time of each forward equally, so the "
        "time of a single crop is a share, not a latency. Medians, P10, P90 and outliers of pairs, and "
        "speedups by task, length and category or of identical outputs alone, are of such shares; the sum "
        "over the run is time.",
    )


def shared_groups(records: Sequence[GenRecord]) -> Ints | None:
    """Group number of each record of one arm; `None` when every sample decoded alone."""
    if all(record.forward_group is None for record in records):
        return None
    groups: dict[object, int] = {}
    keys = [
        (r.session_id, r.arm, (r.sample_id, r.rep) if r.forward_group is None else r.forward_group)
        for r in records
    ]
    return np.array([groups.setdefault(key, len(groups)) for key in keys], dtype=np.int64)


def time_design(design: Design, records: Sequence[GenRecord]) -> Design:
    """Design for times of `records` (one a row): rows that shared forwards are one cluster.

    Such clusters are drawn from the whole suite and take the place of pages and strata, which they cross.
    """
    groups = shared_groups(records)
    if groups is None:
        return design
    return design_of([str(group) for group in groups], [""] * len(records))


TimeOf = Callable[[GenRecord], int | None]


class SpeedEstimate(Interval):
    """`value` = base_ns / own_ns over `n_pairs` pairs in `n_clusters` pages, or batches of crops.

    `geometric_mean`, `median`, `p10` and `p90` are of the per-pair ratios with both times above 0; `None`
    when there is none.
    """

    n_pairs: int
    n_clusters: int
    base_ns: int
    own_ns: int
    geometric_mean: float | None = None
    median: float | None = None
    p10: float | None = None
    p90: float | None = None


def timed_rows(units: Sequence[Unit], base: str, own: str, time_of: TimeOf) -> tuple[list[int], Floats]:
    """Indices of the units in which both arms are ok and timed, and their times [n, 2].

    Pairs in which both times are 0 (answers of one token have no decode rounds) say nothing. The repeats of a
    sample are one row, at its first repeat: of each arm the median time, since repeats say what the machine's
    noise is and nothing more of the sample.
    """
    kept: dict[str, int] = {}
    times: dict[str, list[tuple[int, int]]] = {}
    for index, unit in enumerate(units):
        a, b = unit.records[base], unit.records[own]
        if a.status == b.status == "ok":
            base_ns, own_ns = time_of(a), time_of(b)
            if base_ns is not None and own_ns is not None and base_ns + own_ns > 0:
                kept.setdefault(unit.sample_id, index)
                times.setdefault(unit.sample_id, []).append((base_ns, own_ns))
    medians = [np.median(np.array(repeats, dtype=np.float64), axis=0) for repeats in times.values()]
    return list(kept.values()), np.array(medians, dtype=np.float64).reshape(-1, 2)


def estimate_speedup(
    units: Sequence[Unit],
    base: str,
    own: str,
    time_of: TimeOf,
    *,
    design: Design,
    seed: int,
    resamples: int,
) -> SpeedEstimate | None:
    """Speedup of `own` over `base`; `design` has one row per unit. `None` without time to divide by."""
    kept, times = timed_rows(units, base, own, time_of)
    if not kept or times[:, 1].sum() == 0:
        return None
    here = time_design(sub_design(design, kept), [units[index].records[own] for index in kept])
    found = bootstrap(times, ratio, here, seed=seed, resamples=resamples)
    if found is None:
        return None
    both = times[(times > 0).all(axis=1)]
    ratios = both[:, 0] / both[:, 1]
    spread = np.quantile(ratios, [0.1, 0.5, 0.9]).tolist() if len(ratios) else [None] * 3
    return SpeedEstimate(
        value=found.value,
        low=found.low,
        high=found.high,
        n_pairs=len(kept),
        n_clusters=here.n_clusters,
        base_ns=int(times[:, 0].sum()),
        own_ns=int(times[:, 1].sum()),
        geometric_mean=float(np.exp(np.log(ratios).mean())) if len(ratios) else None,
        p10=spread[0],
        median=spread[1],
        p90=spread[2],
    )


class OutlierRow(Record):
    """A pair far from the pooled speedup: shown, never dropped."""

    sample_id: str
    rep: int
    slot: int
    base_ns: int
    own_ns: int
    ratio: float


def outliers(
    units: Sequence[Unit], base: str, own: str, time_of: TimeOf, *, count: int = 20
) -> tuple[OutlierRow, ...]:
    """The `count` pairs with the largest |log(ratio / pooled ratio)|, largest first."""
    kept, times = timed_rows(units, base, own, time_of)
    if not kept or times[:, 1].sum() == 0:
        return ()
    pooled = times[:, 0].sum() / times[:, 1].sum()
    rows = [
        OutlierRow(
            sample_id=units[index].sample_id,
            rep=units[index].rep,
            slot=units[index].records[own].slot,
            base_ns=int(base_ns),
            own_ns=int(own_ns),
            ratio=float(base_ns / own_ns),
        )
        for index, (base_ns, own_ns) in zip(kept, times, strict=True)
        if base_ns > 0 and own_ns > 0
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(np.log(row.ratio / pooled)), row.sample_id))[:count])


def sub_design(design: Design, rows: Sequence[int]) -> Design:
    """The design of a subset of rows, clusters and strata renumbered."""
    clusters = design.cluster_of[list(rows)]
    return design_of([str(c) for c in clusters], [str(design.stratum_of[c]) for c in clusters])


class Speedup(Interval):
    """sum of AR times / sum of this strategy's times over pairs, with its interval; `n_pairs` went in."""

    n_pairs: int
    base_ns: int
    own_ns: int


def decode_ns(record: GenRecord) -> int | None:
    """Time of the decode rounds alone; `None` when not measured."""
    return record.times.decode_ns if record.times else None


def request_ns(record: GenRecord) -> int | None:
    """Time of the whole request, image and prefill included; `None` when not measured."""
    return record.times.total_ns if record.times else None


def speedup(
    units: Sequence[Unit],
    base: str,
    own: str,
    time_of: Callable[[GenRecord], int | None],
    *,
    design: Design,
    seed: int,
) -> Speedup | None:
    """Speedup of `own` over `base` as comparisons and reports estimate it; `design` has one row per unit.

    `None` without time to divide by.
    """
    found = estimate_speedup(units, base, own, time_of, design=design, seed=seed, resamples=RESAMPLES)
    if found is None:
        return None
    return Speedup(
        value=found.value,
        low=found.low,
        high=found.high,
        n_pairs=found.n_pairs,
        base_ns=found.base_ns,
        own_ns=found.own_ns,
    )


MIN_PAIRS = 24
BLOCKS = 6
STEADY_WITHIN = 0.02
PERMUTATIONS = 1_000
CHANCE_LEVEL = 0.95
PERMUTATION_SEED = 0
NOTABLE_DRIFT = 0.02


class Drift(Record):
    """Change of the speed ratio from the first slot to the last, as a fraction (0.03: 3 % faster at the end).

    Ordinary least squares of log(base cost per forward / own cost per forward) on slot, Student's t
    interval. `drifting`: the interval excludes 0 and the change exceeds 2 %.
    """

    n_pairs: int
    change: float
    low: float
    high: float
    drifting: bool


class Steadiness(Record):
    """Ratio of costs per forward (base / own) in six consecutive blocks of pairs.

    `steady`: the last three agree within 2 %, or within `spread_by_chance`: what 95 of 100 random orders of
    the pairs in them stay below. `warm_up` = first block / median of the others - 1; above 0 the first block
    favoured this strategy. `cold_start`: it exceeds, either way, 2 % and `warm_up_by_chance`, the like for
    random orders of all pairs. Noise of pairs alone moves medians of a few by more than 2 %.
    """

    block_ratios: tuple[float, ...]
    last_three_spread: float
    steady: bool
    warm_up: float
    spread_by_chance: float | None = None
    """Absent, as the two below, in documents older than the field."""
    warm_up_by_chance: float | None = None
    cold_start: bool | None = None


def measure_drift(units: Sequence[Unit], base: str, own: str) -> Drift | None:
    """Drift over the pairs with decode rounds in both arms; `None` with fewer than 24, or all in one slot."""
    slots, costs = cost_per_forward(units, base, own)
    if len(slots) < MIN_PAIRS or slots[0] == slots[-1]:
        return None
    slope, error = fitted_slope(slots, np.log(costs[:, 0] / costs[:, 1]))
    reach = float(slots[-1] - slots[0])
    half = student_quantile(0.5 + CONFIDENCE / 2, len(slots) - 2) * error
    change, low, high = (float(np.expm1(reach * each)) for each in (slope, slope - half, slope + half))
    return Drift(
        n_pairs=len(slots),
        change=change,
        low=low,
        high=high,
        drifting=not low <= 0 <= high and abs(change) > NOTABLE_DRIFT,
    )


def fitted_slope(x: Floats, y: Floats) -> tuple[float, float]:
    """Least squares of y on x, both [n], n > 2, x not constant: the slope and its standard error, 0 and up.

    The arithmetic of scipy.stats.linregress, without the half second that its import takes.
    """
    xx, xy, _, yy = np.cov(x, y, bias=True).flat
    if yy == 0:
        return 0.0, 0.0
    correlation = np.clip(xy / np.sqrt(xx * yy), -1, 1)
    return float(xy / xx), float(np.sqrt((1 - correlation**2) * yy / xx / (len(x) - 2)))


def measure_steadiness(units: Sequence[Unit], base: str, own: str) -> Steadiness | None:
    """Block ratios in slot order; `None` with fewer than four pairs a block."""
    return steadiness_of(cost_per_forward(units, base, own)[1])


def steadiness_of(costs: Floats) -> Steadiness | None:
    """Steadiness of costs per forward of (base, own) [n, 2] in slot order; `None` for fewer than 24."""
    if len(costs) < 4 * BLOCKS:
        return None
    ratios = _block_ratios(costs[None], BLOCKS)[0]
    spread, warm_up = float(_spread(ratios[-3:])), float(_warm_up(ratios))
    rng = np.random.default_rng(PERMUTATION_SEED)
    last = costs[len(costs) - sum(len(rows) for rows in np.array_split(costs, BLOCKS)[-3:]) :]
    by_chance = _chance(_spread(_block_ratios(_shuffled(last, rng), 3)))
    cold_by_chance = _chance(np.abs(_warm_up(_block_ratios(_shuffled(costs, rng), BLOCKS))))
    return Steadiness(
        block_ratios=tuple(ratios.tolist()),
        last_three_spread=spread,
        steady=spread <= max(STEADY_WITHIN, by_chance),
        warm_up=warm_up,
        spread_by_chance=by_chance,
        warm_up_by_chance=cold_by_chance,
        cold_start=abs(warm_up) > max(STEADY_WITHIN, cold_by_chance),
    )


def _shuffled(costs: Floats, rng: np.random.Generator) -> Floats:
    """Random orders of the rows [permutations, n, 2]."""
    order = np.tile(np.arange(len(costs)), (PERMUTATIONS, 1))
    return np.asarray(costs[rng.permuted(order, axis=1)])


def _block_ratios(orders: Floats, blocks: int) -> Floats:
    """Median base cost / median own cost in consecutive blocks of each order [orders, blocks]."""
    parts = np.array_split(orders, blocks, axis=1)
    return np.stack(
        [np.median(part[..., 0], axis=1) / np.median(part[..., 1], axis=1) for part in parts], axis=1
    )


def _spread(ratios: Floats) -> Floats:
    """Largest / smallest - 1 along the last axis."""
    return np.asarray(ratios.max(axis=-1) / ratios.min(axis=-1) - 1)


def _warm_up(ratios: Floats) -> Floats:
    """First / median of the others - 1 along the last axis."""
    return np.asarray(ratios[..., 0] / np.median(ratios[..., 1:], axis=-1) - 1)


def _chance(found: Floats) -> float:
    return float(np.quantile(found, CHANCE_LEVEL))


def cost_per_forward(units: Sequence[Unit], base: str, own: str) -> tuple[Floats, Floats]:
    """Slots [n] in order and decode nanoseconds per decode forward of (base, own) [n, 2].

    Per forward, so that neither the length of an output nor its acceptance moves it. A row is a sample, or
    the samples of one batch together.
    """
    kept = [unit for unit in units if all(_spent(unit, arm) for arm in (base, own))]
    if not kept:
        return np.zeros(0), np.zeros((0, 2))
    table = np.array(
        [
            (sum(u.records[arm].slot for arm in (base, own)) / 2, *_spent(u, base), *_spent(u, own), 1.0)
            for u in kept
        ]
    )
    groups = shared_groups([unit.records[own] for unit in kept])
    if groups is not None:
        table = cluster_sums(table, design_of([str(group) for group in groups], [""] * len(kept)))
    rows = np.column_stack((table[:, 0] / table[:, 5], table[:, 1] / table[:, 2], table[:, 3] / table[:, 4]))
    rows = rows[np.lexsort(rows.T[::-1])]
    return rows[:, 0], rows[:, 1:]


def _spent(unit: Unit, arm: str) -> tuple[int, int] | tuple[()]:
    """Decode nanoseconds and forwards of an ok record that has both, else nothing."""
    counters, times = unit.records[arm].counters, unit.records[arm].times
    if counters is None or times is None:
        return ()
    forwards, spent = counters.decode_forwards, times.decode_ns
    return (spent, forwards) if forwards and spent else ()
