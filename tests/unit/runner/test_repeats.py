"""Repeats: every strategy answers every sample N times; times count once a sample."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_support import FakeBackend, clockless, fake_samples, run_fake

from gravbench.analysis.loaded import load_run
from gravbench.analysis.speed import decode_ns, timed_rows
from gravbench.protocols import Backend
from gravbench.records import DecodeConfig, Generation, Request
from gravbench.runner.plan import order_plan, planned_groups
from gravbench.store.rundir import RunDirectory

TASK_OF = {sample.sample_id: sample.task for sample in fake_samples(50)}


@given(
    count=st.integers(1, 40), repeats=st.integers(1, 4), seed=st.integers(0, 99),
    arms=st.sampled_from([("ar",), ("ar", "selfspec"), ("ar", "ar:batch=3", "selfspec:batch=3")]),
)  # fmt: skip
def test_a_plan_has_every_answer_once_and_its_groups_are_found_again(
    count: int, repeats: int, seed: int, arms: tuple[str, ...]
) -> None:
    samples = fake_samples(count)
    plan = order_plan(samples, arms, seed=seed, repeats=repeats)
    assert [entry.slot for entry in plan] == list(range(len(plan)))
    wanted = {(s.sample_id, arm, rep) for s in samples for arm in arms for rep in range(repeats)}
    assert Counter((e.sample_id, e.arm, e.rep) for e in plan) == Counter(wanted)
    order = [(e.sample_id, e.arm, e.rep) for e in plan]
    again = []
    for group in planned_groups(plan, TASK_OF.__getitem__, crops=count):
        slots = {(e.sample_id, e.rep): e.slot for e in plan if (e.sample_id, e.rep) in group}
        assert max(slots.values()) - min(slots.values()) < len(group) * len(arms)
        again += group
    assert again == list(dict.fromkeys((sample, rep) for sample, _, rep in order))


def test_one_repeat_is_the_plan_of_a_run_without_repeats() -> None:
    samples, arms = fake_samples(9), ("ar", "selfspec")
    plan = order_plan(samples, arms, seed=3, repeats=2)
    assert plan[: 9 * 2] == order_plan(samples, arms, seed=3)


def test_a_run_with_repeats_counts_samples_once_and_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    summary = run_fake(tmp_path / "a", samples=6, repeats=3).summary
    arm = summary.strategies["selfspec"]
    assert (summary.n_samples, arm.n_samples, arm.differing_repeats) == (6, 6, 0)
    assert arm.identical_to_ar is not None and arm.identical_to_ar.of == 18
    assert arm.speedup is not None and arm.speedup.decode is not None and arm.speedup.decode.n_pairs == 6
    shard = tmp_path / "b" / "gen" / "000.jsonl"
    run_fake(tmp_path / "b", samples=6, repeats=3)
    shard.write_bytes(b"".join(shard.read_bytes().splitlines(keepends=True)[:17]))
    (tmp_path / "b" / "summary.json").unlink()
    run_fake(tmp_path / "b", samples=6, repeats=3)
    assert clockless(tmp_path / "a") == clockless(tmp_path / "b")
    assert "differing_repeats" not in (RunDirectory(tmp_path / "b").path / "manifest.json").read_text()


class Fickle(FakeBackend):
    """Says something else the second time it is asked for a sample by `selfspec`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def generate(self, request: Request, decode: DecodeConfig) -> Generation:
        answer = super().generate(request, decode)
        if decode.strategy != "selfspec" or request.sample_id != "text-000":
            return answer
        self.asked[request.sample_id] += 1
        if self.asked[request.sample_id] < 3:
            return answer
        return answer.model_copy(update={"token_ids": (*answer.token_ids[:-1], answer.token_ids[-1] + 1)})


def test_a_sample_that_changes_between_repeats_is_counted_and_said(tmp_path: Path) -> None:
    backend: Backend = Fickle()
    summary = run_fake(tmp_path / "r", backend=backend, samples=6, repeats=3).summary  # type: ignore[arg-type]
    found = {arm: strategy.differing_repeats for arm, strategy in summary.strategies.items()}
    assert found == {"ar": 0, "selfspec": 1}
    assert "selfspec: 1 of 6 samples have other tokens in another repeat" in summary.warnings


def test_the_time_of_a_repeated_sample_is_the_median_of_its_repeats(tmp_path: Path) -> None:
    run_fake(tmp_path / "r", samples=3, repeats=3)
    run = load_run(tmp_path / "r")
    times = {}

    def time_of(record):  # type: ignore[no-untyped-def]
        return times.setdefault((record.sample_id, record.arm, record.rep), 1 + 7 * len(times) ** 2 % 101)

    kept, found = timed_rows(run.units, "ar", "selfspec", time_of)
    assert [run.units[row].sample_id for row in kept] == sorted({unit.sample_id for unit in run.units})
    for row, pair in zip(kept, found, strict=True):
        name = run.units[row].sample_id
        for arm, value in zip(("ar", "selfspec"), pair, strict=True):
            assert value == np.median([times[name, arm, rep] for rep in range(3)])
    assert timed_rows(run.units, "ar", "selfspec", decode_ns)[1].shape == (3, 2)


def test_repeats_are_part_of_what_a_run_is(tmp_path: Path) -> None:
    from gravbench.errors import UsageError

    run_fake(tmp_path / "r", samples=3)
    with pytest.raises(UsageError, match="repeats: 2 here, 1 in the folder"):
        run_fake(tmp_path / "r", samples=3, repeats=2)
