"""Shards of a plan and the run that they make: the answers of one process, never times of two machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_support import clockless, fake_samples, fake_suite, run_fake

from gravbench.analysis.loaded import load_run
from gravbench.analysis.summary import Summary
from gravbench.errors import DataError, GravbenchError, NotComparableError, UsageError
from gravbench.gate.bless import check_blessable
from gravbench.runner.merge import finish_merge, merge_shards, read_shards
from gravbench.runner.plan import order_plan, planned_groups
from gravbench.runner.run import rescore
from gravbench.store.schema import sha256_of

SAMPLES = 21
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def shards_of(folder: Path, count: int = 4, **options: object) -> list[Path]:
    paths = [folder / f"part-{n + 1}" for n in range(count)]
    for n, path in enumerate(paths):
        run_fake(path, samples=SAMPLES, shard=f"{n + 1}/{count}", **options)
    return paths


def merged(paths: Sequence[Path], out: Path) -> Summary:
    run, pairs = merge_shards(read_shards(paths), out, now=NOW)
    summary = rescore(out, fake_suite(), fake_samples(SAMPLES), reuse=True)
    finish_merge(run, pairs, now=NOW)
    return summary


def elsewhere(shard: Path) -> None:
    """Let a shard say that it ran on another machine."""
    changed(shard, lambda manifest: manifest["environment"].update(host_sha="another"))


def on_a_gpu(shard: Path) -> None:
    """Let a shard say that it ran on a GPU."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["identity"]["device"] = "cuda"
        manifest["identity_sha"] = sha256_of(manifest["identity"])

    changed(shard, change)


def changed(shard: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = orjson.loads((shard / "manifest.json").read_bytes())
    manifest["identity"] = {k: v for k, v in manifest["identity"].items() if v is not None}
    change(manifest)
    (shard / "manifest.json").write_bytes(orjson.dumps(manifest, option=orjson.OPT_SORT_KEYS))


@given(
    count=st.integers(1, 40), repeats=st.integers(1, 3), parts=st.integers(1, 5), seed=st.integers(0, 99),
    arms=st.sampled_from([("ar",), ("ar", "selfspec"), ("ar", "ar:batch=3", "selfspec:batch=3")]),
)  # fmt: skip
def test_shards_are_the_plan_in_whole_groups(
    count: int, repeats: int, parts: int, seed: int, arms: tuple[str, ...]
) -> None:
    samples = fake_samples(count)
    task_of = {sample.sample_id: sample.task for sample in samples}.__getitem__
    whole = order_plan(samples, arms, seed=seed, repeats=repeats)
    found, groups = [], []
    for part in range(parts):
        try:
            plan = order_plan(samples, arms, seed=seed, repeats=repeats, shard=f"{part + 1}/{parts}")
        except UsageError:
            continue
        found += plan
        groups += planned_groups(plan, task_of, crops=count)
    assert sorted(found, key=lambda entry: entry.slot) == list(whole)
    assert sorted(groups) == sorted(planned_groups(whole, task_of, crops=count))


@pytest.mark.parametrize("strategies", [("ar", "selfspec"), ("ar:batch=2", "selfspec:batch=2")])
def test_four_shards_give_the_bytes_of_one_process(tmp_path: Path, strategies: tuple[str, ...]) -> None:
    alone = run_fake(tmp_path / "alone", samples=SAMPLES, strategies=strategies).summary
    summary = merged(shards_of(tmp_path, strategies=strategies)[::-1], tmp_path / "whole")
    assert clockless(tmp_path / "whole") == clockless(tmp_path / "alone")
    for arm in strategies:
        own, other = summary.strategies[arm], alone.strategies[arm]
        assert (own.counters, own.quality, own.identical_to_ar) == (
            other.counters,
            other.quality,
            other.identical_to_ar,
        )
    own, other = (load_run(tmp_path / name).manifest for name in ("whole", "alone"))
    assert (own.identity_sha, own.plan) == (other.identity_sha, other.plan)
    check_blessable(load_run(tmp_path / "whole"))
    with pytest.raises(NotComparableError, match="shard 1/4 of a plan"):
        check_blessable(load_run(tmp_path / "part-1"))
    assert summary.sessions == 4 and summary.strategies[strategies[1]].speedup is not None
    before = (tmp_path / "whole" / "gen" / "000.jsonl").read_bytes()
    merged([tmp_path / f"part-{n}" for n in (1, 2, 3, 4)], tmp_path / "whole")  # as after a kill
    assert (tmp_path / "whole" / "gen" / "000.jsonl").read_bytes() == before


@pytest.mark.parametrize("gpu", [False, True])
def test_times_of_two_machines_and_of_gpus_stay_in_their_shards(tmp_path: Path, gpu: bool) -> None:
    paths = shards_of(tmp_path, 2)
    for path in paths if gpu else paths[1:]:
        on_a_gpu(path) if gpu else elsewhere(path)
    summary = merged(paths, tmp_path / "whole")
    run_fake(tmp_path / "alone", samples=SAMPLES)
    assert clockless(tmp_path / "whole") == clockless(tmp_path / "alone")
    drafted = summary.strategies["selfspec"].speedup
    assert drafted is None or (drafted.decode, drafted.request) == (None, None)
    assert any("different machines" in warning for warning in summary.warnings)
    assert load_run(paths[0]).units[0].records["ar"].times is not None
    assert all(unit.records["ar"].times is not None and unit.records["ar"].times.total_ns is None
               for unit in load_run(tmp_path / "whole").units)  # fmt: skip


def test_a_shard_that_was_killed_is_refused_until_it_is_done_again(tmp_path: Path) -> None:
    paths = shards_of(tmp_path, 3)
    lines = paths[1] / "gen" / "000.jsonl"
    lines.write_bytes(lines.read_bytes()[:-900])
    (paths[1] / "summary.json").unlink()
    with pytest.raises(NotComparableError, match="incomplete") as caught:
        read_shards(paths)
    assert "--shard 2/3" in str(caught.value.hint)
    run_fake(paths[1], samples=SAMPLES, shard="2/3")
    merged(paths, tmp_path / "whole")
    run_fake(tmp_path / "alone", samples=SAMPLES)
    assert clockless(tmp_path / "whole") == clockless(tmp_path / "alone")


def test_shards_that_are_no_whole_are_refused_in_one_line(tmp_path: Path) -> None:
    one, two, three = shards_of(tmp_path, 3)
    run_fake(tmp_path / "whole", samples=SAMPLES)
    run_fake(tmp_path / "seed", samples=SAMPLES, shard="3/3", seed=1)
    run_fake(tmp_path / "halves", samples=SAMPLES, shard="2/2")
    cases: list[tuple[list[Path], type[GravbenchError], str]] = [
        ([one, two], UsageError, "1 of 3 shards missing: 3/3"),
        ([one, two, three, two], UsageError, "2/3 is given twice"),
        ([one, two, tmp_path / "whole"], UsageError, "no shard, but a whole run"),
        ([one, two, tmp_path / "seed"], NotComparableError, "seed: 1 here, 0 in"),
        ([one, two, tmp_path / "halves"], NotComparableError, "split in 2 and in 3 shards"),
    ]
    for paths, kind, words in cases:
        with pytest.raises(kind, match=words) as caught:
            read_shards(paths)
        assert "\n" not in caught.value.message
    with pytest.raises(UsageError, match="holds another run"):
        merge_shards(read_shards([one, two, three]), tmp_path / "whole", now=NOW)
    lines = three / "gen" / "000.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"run_id":"', b'"run_id":"x'))
    with pytest.raises(DataError, match="of another run"):
        read_shards([one, two, three])


def test_more_shards_than_blocks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the plan has 2 blocks"):
        run_fake(tmp_path / "a", samples=3, shard="3/3")
    with pytest.raises(UsageError, match="only 3 shards"):
        run_fake(tmp_path / "a", samples=3, shard="4/3")
