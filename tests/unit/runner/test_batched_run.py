"""Runs whose arms decode several crops together: same records, fair pairs, no sample lost."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from run_support import FakeBackend, clockless, fake_samples, run_fake

from gravbench.errors import EngineError
from gravbench.runner.plan import order_plan
from gravbench.store.rundir import RunDirectory, finished_pairs
from gravbench.store.schema import GenRecord

ARMS = ("ar", "selfspec", "ar:batch=4", "selfspec:batch=4")


def records(folder: Path) -> dict[tuple[str, str], GenRecord]:
    run = RunDirectory(folder)
    found = finished_pairs(run, run.manifest())
    return {(sample, arm): record for (sample, _), arms in found.items() for arm, record in arms.items()}


def test_every_arm_decodes_the_same_crops_together_and_in_turn() -> None:
    plan = order_plan(fake_samples(10), ARMS, seed=3)
    assert [entry.slot for entry in plan] == list(range(40))
    runs: list[tuple[str, list[str]]] = []
    for entry in plan:
        if not runs or runs[-1][0] != entry.arm or len(runs[-1][1]) == 4:
            runs.append((entry.arm, []))
        runs[-1][1].append(entry.sample_id)
    groups = [runs[i : i + 4] for i in range(0, len(runs), 4)]
    assert [len(group[0][1]) for group in groups] == [4, 4, 2]
    for group in groups:
        assert sorted(arm for arm, _ in group) == sorted(ARMS)
        assert all(samples == group[0][1] for _, samples in group)
    assert [arm for arm, _ in groups[1]] == [arm for arm, _ in groups[0]][::-1]


def test_a_batched_run_gives_the_records_of_a_plain_one(tmp_path: Path) -> None:
    run_fake(tmp_path / "plain", samples=11, strategies=("ar", "selfspec"))
    backend = FakeBackend()
    outcome = run_fake(tmp_path / "batched", samples=11, strategies=ARMS, backend=backend)
    alone, together = records(tmp_path / "plain"), records(tmp_path / "batched")
    for (sample, arm), record in together.items():
        expected = alone[sample, arm.partition(":")[0]]
        assert record.pieces == expected.pieces
    assert Counter(map(len, backend.batches)) == {4: 8 + 2, 3: 4}  # two groups and the rest, two warm-ups
    strategies = outcome.summary.strategies
    assert strategies["selfspec:batch=4"].base == "ar:batch=4" and strategies["selfspec"].base is None
    plain, batched = strategies["selfspec"].speedup, strategies["selfspec:batch=4"].speedup
    assert plain is not None and plain.decode is not None
    assert batched is not None and batched.decode is not None
    assert (batched.decode.value, batched.decode.n_pairs) == (plain.decode.value, plain.decode.n_pairs)
    assert strategies["ar:batch=4"].identical_to_ar is not None


def test_one_bad_sample_costs_no_other_of_its_batch(tmp_path: Path) -> None:
    names = [sample.sample_id for sample in fake_samples(9)]
    backend = FakeBackend(failing=frozenset({names[1]}), broken=frozenset({names[2]}))
    run_fake(tmp_path / "run", samples=9, strategies=("ar:batch=5",), backend=backend, max_errors=_any())
    found = records(tmp_path / "run")
    assert {sample for (sample, _), record in found.items() if record.status != "ok"} == {names[1], names[2]}


def test_a_batched_run_that_breaks_off_anywhere_ends_in_the_same_bytes(tmp_path: Path) -> None:
    run_fake(tmp_path / "calm", samples=12, strategies=ARMS)
    expected = clockless(tmp_path / "calm")
    rng = random.Random(5)
    for trial in range(6):
        folder = tmp_path / f"hunted-{trial}"
        for _ in range(3):
            stops = FakeBackend(raises=EngineError("gone"), raise_at=rng.randint(16, 50))
            with pytest.raises(EngineError):
                run_fake(folder, samples=12, strategies=ARMS, backend=stops)
            cut_records(folder, rng)
        run_fake(folder, samples=12, strategies=ARMS)
        assert clockless(folder) == expected
        run = RunDirectory(folder)
        for arms in finished_pairs(run, run.manifest()).values():
            assert len({record.session_id for record in arms.values()}) == 1


def cut_records(folder: Path, rng: random.Random) -> None:
    """What a kill in the middle of writing a batch leaves: its last lines are missing, the last one torn."""
    shard = folder / "gen" / "000.jsonl"
    lines = shard.read_bytes().splitlines(keepends=True) if shard.exists() else []
    if lines:
        kept = lines[: len(lines) - rng.randint(0, min(3, len(lines) - 1))]
        shard.write_bytes(b"".join(kept)[: -rng.randint(0, 5) or None])


def test_a_resumed_run_keeps_the_groups_of_the_plan(tmp_path: Path) -> None:
    calm, resumed = FakeBackend(), FakeBackend()
    run_fake(tmp_path / "calm", samples=12, strategies=ARMS, backend=calm)
    stops = FakeBackend(raises=EngineError("gone"), raise_at=45)
    with pytest.raises(EngineError):
        run_fake(tmp_path / "run", samples=12, strategies=ARMS, backend=stops)
    run_fake(tmp_path / "run", samples=12, strategies=ARMS, backend=resumed)
    assert set(map(frozenset, resumed.batches)) <= set(map(frozenset, calm.batches))


def test_samples_that_decode_alone_after_a_fault_have_no_times(tmp_path: Path) -> None:
    names = [sample.sample_id for sample in fake_samples(8)]
    arms = ("ar:batch=4", "selfspec:batch=4")
    backend = FakeBackend(broken=frozenset({names[2]}))
    outcome = run_fake(tmp_path / "run", samples=8, strategies=arms, backend=backend, max_errors=_any())
    found = records(tmp_path / "run")
    timed = {name for (name, _), r in found.items() if r.times is not None and r.times.total_ns}
    ok = {name for (name, _), r in found.items() if r.status == "ok"}
    assert (len(ok), len(timed)) == (7, 4)  # the other batch was not touched
    speed = outcome.summary.strategies["selfspec:batch=4"].speedup
    assert speed is not None and speed.decode is not None and speed.decode.n_pairs == 4


def _any():  # type: ignore[no-untyped-def]
    from gravbench.options import ErrorLimit

    return ErrorLimit(share=1.0)
