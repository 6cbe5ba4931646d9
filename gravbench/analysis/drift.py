"""Did the machine hold still? Log speed ratios by slot, and the cost per forward in blocks.

Interleaved pairs cancel slow drift from the ratio; this says how much there was to cancel, and whether
warm-up was enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats as scipy_stats

from gravbench.analysis.bootstrap import CONFIDENCE, Floats, cluster_sums, design_of
from gravbench.analysis.loaded import Unit
from gravbench.analysis.speed import shared_groups
from gravbench.records import Record

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
    line = scipy_stats.linregress(slots, np.log(costs[:, 0] / costs[:, 1]))
    reach = float(slots[-1] - slots[0])
    error = line.stderr if np.isfinite(line.stderr) else 0.0  # NaN when all points lie on one line
    half = float(scipy_stats.t.ppf(0.5 + CONFIDENCE / 2, len(slots) - 2) * error)
    change, low, high = (
        float(np.expm1(reach * slope)) for slope in (line.slope, line.slope - half, line.slope + half)
    )
    return Drift(
        n_pairs=len(slots),
        change=change,
        low=low,
        high=high,
        drifting=not low <= 0 <= high and abs(change) > NOTABLE_DRIFT,
    )


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
