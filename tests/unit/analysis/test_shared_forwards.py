"""Times of a batch are shares of one measurement: drawn together, and one row of drift."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from report_support import record_of
from run_support import gen_record, with_times

from gravbench.analysis.bootstrap import independent
from gravbench.analysis.load import load_of
from gravbench.analysis.loaded import Unit
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.analysis.speed import Speedup, cost_per_forward, decode_ns, shared_groups, speedup, time_design
from gravbench.store.schema import GenRecord


def records(arm: str, *, size: int, count: int = 12, session: str = "s") -> list[GenRecord]:
    return [
        record_of(f"{i:03}", arm, "x" * (5 + i), slot=i).model_copy(
            update={
                "submit_ns": 1000 * (i // size),
                "done_ns": 1000 * (i // size) + 1,
                "session_id": session,
                "forward_group": i // size if size > 1 else None,
            }
        )
        for i in range(count)
    ]


def test_crops_of_one_batch_are_one_cluster() -> None:
    batched = records("ar:batch=4", size=4)
    groups = shared_groups(batched)
    assert groups is not None and groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert time_design(independent(12), batched).n_clusters == 3


def test_samples_that_decode_alone_and_pages_share_nothing() -> None:
    assert shared_groups(records("ar", size=1)) is None
    pages = [record.model_copy(update={"task": "page"}) for record in records("ar:batch=4", size=1)]
    assert shared_groups(pages) is None
    design = independent(12)
    assert time_design(design, pages) is design


def test_equal_moments_of_two_sessions_are_two_batches() -> None:
    both = [*records("ar:batch=4", size=4, count=4), *records("ar:batch=4", size=4, count=4, session="t")]
    groups = shared_groups(both)
    assert groups is not None and len(set(groups.tolist())) == 2


def slower(record: GenRecord, factor: float) -> GenRecord:
    """The record with its decode time multiplied."""
    assert record.times is not None
    return with_times(record, decode_ns=int((record.times.decode_ns or 0) * factor), total_ns=None)


def test_the_interval_of_a_batched_speedup_counts_batches() -> None:
    base, own = records("ar:batch=2", size=2), records("selfspec:batch=2", size=2)
    rng = np.random.default_rng(0)
    factors = np.repeat(rng.uniform(0.5, 2.0, 6), 2)  # what a batch of neighbours shares
    slowed = [slower(record, factor) for record, factor in zip(own, factors, strict=True)]

    def measured(records_of_own: list[GenRecord]) -> Speedup | None:
        arms = zip(base, records_of_own, strict=True)
        units = [
            Unit(sample_id=f"{i:03}", rep=0, task="text", records={"ar": b, "own": o})
            for i, (b, o) in enumerate(arms)
        ]
        return speedup(units, "ar", "own", decode_ns, design=independent(12), seed=0)

    batched = measured(slowed)
    alone = measured([record.model_copy(update={"forward_group": None}) for record in slowed])
    assert batched is not None and alone is not None
    assert batched.value == alone.value and batched.n_pairs == alone.n_pairs == 12
    assert batched.low is not None and alone.low is not None and batched.low < alone.low


def test_a_batch_is_one_row_of_drift() -> None:
    arms = {arm: records(arm, size=4) for arm in ("ar:batch=4", "selfspec:batch=4")}
    units = [
        Unit(sample_id=f"{i:03}", rep=0, task="text", records={arm: own[i] for arm, own in arms.items()})
        for i in range(12)
    ]
    slots, costs = cost_per_forward(units, "ar:batch=4", "selfspec:batch=4")
    assert slots.tolist() == [1.5, 5.5, 9.5] and costs.shape == (3, 2)
    alone = [
        Unit(sample_id=f"{i:03}", rep=0, task="text", records={"ar": record, "selfspec": record})
        for i, record in enumerate(records("selfspec", size=1))
    ]
    assert len(cost_per_forward(alone, "ar", "selfspec")[0]) == 12


def test_a_batched_run_is_analysed_in_batches(tmp_path: Path) -> None:
    from verdict_support import make_run

    run = make_run(tmp_path / "r", strategies=("ar", "selfspec", "ar:batch=5", "selfspec:batch=5"))
    found = {arm.arm: arm for arm in analyse_run(run, AnalysisOptions(resamples=200)).arms}
    plain, batched = found["selfspec"].decode, found["selfspec:batch=5"].decode
    assert plain is not None and batched is not None
    assert (plain.n_clusters, batched.n_clusters) == (24, 5)
    assert plain.value == batched.value


def served(spans: list[tuple[int, int]], *, batch: int) -> list[GenRecord]:
    """Answers of three tokens to requests of one loop, sent and answered at these seconds."""
    return [
        gen_record(sample_id=f"text-{n}", arm="ar" if batch == 1 else f"ar:batch={batch}").model_copy(
            update={
                "slot": n,
                "submit_ns": sent * 10**9,
                "done_ns": back * 10**9,
                "forward_group": None if batch == 1 else 1,
            }
        )
        for n, (sent, back) in enumerate(spans)
    ]


def test_load_is_counted_while_every_place_of_a_loop_is_taken() -> None:
    loop = served([(0, 4), (0, 5), (4, 8), (5, 9), (8, 12), (9, 19)], batch=2)
    load = load_of(loop)
    assert load is not None
    assert (load.concurrency, load.seconds, load.completed, load.cut) == (2, 5, 3, 3)  # from 4 to 9
    assert load.requests_per_s == 3 / 5 and load.tokens_per_s == 9 / 5
    assert (load.latency_p50_s, load.latency_p99_s) == (4, pytest.approx(9.82))
    assert load_of(loop[:2]) is None  # never refilled


def test_load_of_one_request_after_another_cuts_nothing() -> None:
    load = load_of(served([(0, 2), (3, 6)], batch=1))
    assert load is not None and (load.seconds, load.completed, load.cut) == (5, 2, 0)
    assert load.requests_per_s == 2 / 5
