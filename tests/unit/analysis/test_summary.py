from pathlib import Path

import pytest
from run_support import fake_samples, gen_record, run_fake

from gravbench.analysis.bootstrap import Interval
from gravbench.analysis.counters import at_acceptance_floor, summarise_counters
from gravbench.analysis.loaded import facts_of, load_run
from gravbench.analysis.run_analysis import AnalysisOptions, analyse_run
from gravbench.runner.run import write_results
from gravbench.scorers.scoring import open_scorers
from gravbench.store.rundir import RunDirectory, finished_pairs

LONG = (*range(1, 61), 0)


@pytest.mark.parametrize(
    ("block", "accepted", "floor"), [(8, 0, True), (32, 0, True), (8, 1, False), (4, 1, False), (0, 0, False)]
)
def test_floor_is_drafting_without_being_accepted(block: int, accepted: int, floor: bool) -> None:
    counters = summarise_counters([gen_record(token_ids=LONG, block=block, accepted=accepted)])
    assert counters.rounds >= 20
    assert at_acceptance_floor(counters) is floor


def test_few_rounds_prove_nothing() -> None:
    counters = summarise_counters([gen_record(token_ids=(*LONG[:10], 0), block=8, accepted=0)])
    assert not at_acceptance_floor(counters)


def limits(found: Interval | None) -> tuple[float, float | None, float | None]:
    assert found is not None
    return found.value, found.low, found.high


def test_summary_and_comparison_give_a_speedup_one_interval(tmp_path: Path) -> None:
    """To the digit, over all samples and by task, for crops that share pages in two subsets."""
    run_fake(tmp_path / "r", samples=60)
    samples = [
        sample.model_copy(update={"attributes": {"page": f"p{i // 3}", "subset": str(i < 24)}})
        for i, sample in enumerate(fake_samples(60))
    ]
    folder = RunDirectory(tmp_path / "r")
    manifest = folder.manifest()
    summary = write_results(
        folder,
        manifest,
        finished_pairs(folder, manifest),
        samples,
        scorers=open_scorers(["crops"]),
        reuse=False,
    )
    run = load_run(tmp_path / "r", facts=facts_of(samples))
    arm = analyse_run(run, AnalysisOptions(seed=summary.bootstrap.seed)).arms[1]
    assert run.design().n_clusters == 20
    found = summary.strategies["selfspec"]
    assert found.speedup is not None
    assert limits(found.speedup.decode) == limits(arm.decode)
    assert limits(found.speedup.request) == limits(arm.request)
    assert arm.decode is not None and arm.decode.low is not None
    for row in arm.groups:
        if row.kind == "task":
            speedup = found.by_task[row.label].speedup  # type: ignore[index]
            assert speedup is not None and limits(speedup.decode) == limits(row.decode)
