"""What batching and the cache buy, as ratios of CPU time in one process and its children.

The official way is measured on fewer pairs than ours: its cost per pair does not depend on their number.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cdm_support import source_of
from oracles import official_cdm
from oracles.formulas import distinct_pairs
from system_packages import needs_imagemagick, needs_tex

from gravbench.omnidocbench.cdm.match import _token_cost
from gravbench.omnidocbench.cdm.score import CdmPair, score_pairs
from gravbench.omnidocbench.cdm.tokenise import tokenise
from gravbench.omnidocbench.cdm.tools import find_tools

pytestmark = [pytest.mark.bench, needs_tex, needs_imagemagick]

PAIRS = 200
OFFICIAL_PAIRS = int(os.environ.get("CDM_BENCH_OFFICIAL_PAIRS", "16"))


def cpu_s(work: Callable[[], Any]) -> float:
    """CPU seconds of a call, its child processes included."""

    def spent() -> float:
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    before = spent()
    work()
    return spent() - before


def official_pair(gt: str, pred: str, folder: Path) -> None:
    """Both renderings and the matching, one at a time."""
    pictures = []
    for side, formula in (("gt", gt), ("pred", pred)):
        source = source_of(formula)
        (folder / side).mkdir(parents=True)
        pictures.append(
            official_cdm.render(
                source.body,
                source.template,
                tokens=source.tokens,
                colours=source.colours,
                folder=folder / side,
            )
        )
    if None in pictures:
        return
    seen = [
        [(token, box) for token, box in zip(tokenise(formula).tokens, picture.boxes, strict=True) if box]
        for formula, picture in zip((gt, pred), pictures, strict=True)
    ]
    if all(seen):
        cost = _token_cost(*([token for token, _ in side] for side in seen))
        official_cdm.true_positives(*seen, (pictures[0].size, pictures[1].size), cost)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    return [pair for pair in distinct_pairs(PAIRS, seed=3) if all(tokenise(side).painted for side in pair)]


def test_batches_are_twenty_times_cheaper_and_the_cache_another_hundred(
    pairs: list[tuple[str, str]], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    find_tools()
    wanted = [CdmPair(gt, pred) for gt, pred in pairs]
    sample = pairs[:: max(1, len(pairs) // OFFICIAL_PAIRS)][:OFFICIAL_PAIRS]
    official = sum(
        cpu_s(lambda pair=pair, number=number: official_pair(*pair, tmp_path / str(number)))
        for number, pair in enumerate(sample)
    ) / len(sample)
    cache = tmp_path / "cache"
    ours = cpu_s(lambda: score_pairs(wanted, cache_dir=cache)) / len(wanted)
    cached = statistics.median(cpu_s(lambda: score_pairs(wanted, cache_dir=cache)) for _ in range(5)) / len(
        wanted
    )
    peak_mb = max(
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    figures = {
        "official_cpu_s_per_pair": official,
        "ours_cpu_s_per_pair": ours,
        "batch_ratio": official / ours,
        "cache_ratio": ours / cached,
        "peak_mb": peak_mb,
    }
    for name, value in figures.items():
        record_property(name, round(value, 5))
    print(figures)
    assert figures["batch_ratio"] >= 20, figures
    assert figures["cache_ratio"] >= 100, figures
    assert peak_mb < 1000, figures
