"""TEDS against apted, in one run: a pair of 780 nodes each, at least 80 times faster with equal values."""

from __future__ import annotations

import random
import time

import pytest
from apted import APTED
from table_oracles import OfficialCosts, trees

from gravbench.metrics.teds import teds_pair


def grid(rng: random.Random, *, rows: int, columns: int) -> str:
    words = ["amber", "stone", "12.5", "river", "", "5%", "north wind", "0.731"]
    body = "".join(
        "<tr>"
        + "".join(f"<td>{rng.choice(words)} {rng.randrange(1000)}</td>" for _ in range(columns))
        + "</tr>"
        for _ in range(rows)
    )
    return f'<html><body><table border="1" >{body}</table></body></html>'


@pytest.mark.bench
def test_teds_is_eighty_times_faster_than_apted(benchmark) -> None:  # type: ignore[no-untyped-def]
    rng = random.Random(780)
    gt, pred = grid(rng, rows=30, columns=25), grid(rng, rows=31, columns=24)
    result = benchmark(teds_pair, gt, pred)
    assert (result.nodes_gt, result.nodes_pred) == (781, 776)
    (first, size), (second, _) = (trees(source, structure_only=False) for source in (gt, pred))
    began = time.perf_counter()
    distance = APTED(first, second, OfficialCosts()).compute_edit_distance()
    apted_s = time.perf_counter() - began
    assert result.teds == pytest.approx(1 - distance / size, abs=1e-9)
    ratio = apted_s / benchmark.stats["median"]
    benchmark.extra_info["times_faster_than_apted"] = round(ratio)
    assert ratio >= 80
