import pytest
from run_support import gen_record

from gravbench.analysis.speed import summarise_counters
from gravbench.analysis.summary import at_acceptance_floor

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
