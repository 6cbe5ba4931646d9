import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_support import gen_record

from gravbench.analysis.identity import audit, count_identical
from gravbench.analysis.pieces import first_divergence
from gravbench.cli.compare_command import same_tokens
from gravbench.protocols import Opinion
from gravbench.store.schema import GenError, GenRecord, sha256_text

IDS = (5, 6, 7, 8, 0)


class Judge:
    """A referee with one opinion, which remembers what it was asked."""

    def __init__(self, *, gap: float, ranks: tuple[int, int]) -> None:
        self._opinion = Opinion(gap=gap, top_ids=(1, 2), base_rank=ranks[0], own_rank=ranks[1])
        self.asked: list[tuple[str, tuple[int, ...], int, int]] = []

    def judge(self, sample_id: str, prefix: tuple[int, ...], *, base_id: int, own_id: int) -> Opinion:
        self.asked.append((sample_id, prefix, base_id, own_id))
        return self._opinion


def changed(record: GenRecord, **fields: object) -> GenRecord:
    return GenRecord.model_validate({**record.model_dump(), **fields})


BASE = gen_record(token_ids=IDS, text="abcd")
OTHER = gen_record(token_ids=(5, 6, 9, 8, 0), text="abXd", arm="selfspec")


def test_equal_outputs_are_identical_and_need_no_referee() -> None:
    judge = Judge(gap=0, ranks=(1, 2))
    found = audit([(BASE, BASE)], referee=judge)
    assert (found.identical, found.compared, found.faults, judge.asked) == (1, 1, 0, [])


def test_referee_sees_exactly_the_common_beginning() -> None:
    judge = Judge(gap=5e-5, ranks=(1, 2))
    found = audit([(BASE, OTHER)], referee=judge)
    assert judge.asked == [("text-000", (5, 6), 7, 9)]
    assert found.classes == {"near-tie": 1}
    assert (found.faults, found.excused, found.differences[0].index) == (0, 1, 2)


@pytest.mark.parametrize(("gap", "ranks"), [(2e-4, (1, 2)), (5e-5, (1, 3)), (5e-5, (4, 1))])
def test_wide_gap_or_a_third_candidate_is_a_violation(gap: float, ranks: tuple[int, int]) -> None:
    found = audit([(BASE, OTHER)], referee=Judge(gap=gap, ranks=ranks))
    assert found.classes == {"violation": 1}
    assert found.faults == 1


def test_difference_without_referee_is_unjudged_and_a_fault() -> None:
    found = audit([(BASE, OTHER)])
    assert (found.classes, found.faults, found.refereed) == ({"unjudged": 1}, 1, False)


def test_one_output_beginning_the_other_is_a_stop_rule() -> None:
    longer = gen_record(token_ids=(*IDS, 9), text="abcd")
    assert audit([(BASE, longer)], referee=Judge(gap=0, ranks=(1, 2))).classes == {"stop-rule": 1}


def test_equal_ids_with_another_stop_reason_is_a_stop_rule() -> None:
    assert audit([(BASE, changed(BASE, stop_reason="length"))]).classes == {"stop-rule": 1}


def test_equal_ids_with_another_text_is_assembly() -> None:
    other = changed(BASE, text="abXd", text_sha=sha256_text("abXd"))
    found = audit([(BASE, other)])
    assert (found.classes, found.same_text, found.faults) == ({"assembly": 1}, 0, 1)
    assert (found.identical, found.assembly, found.spotless) == (1, 1, False)
    assert found.identical == count_identical([(BASE, other)]).n
    assert same_tokens(found) == (
        "same tokens on 1 of 1 samples; text differs on 1 with the same tokens (assembly)"
    )
    assert found.differences[0].own_text == "abXd"


def test_one_failed_arm_is_a_fault_and_two_say_nothing() -> None:
    error = GenError(kind="E", message="m", stage="generate")
    failed = changed(BASE, status="error", error=error, stop_reason="error", pieces=())
    found = audit([(BASE, failed), (failed, failed)])
    assert (found.classes, found.compared, found.both_failed, found.faults) == ({"failed": 1}, 1, 1, 1)


def test_nothing_compared_has_no_share() -> None:
    assert audit([]).share is None


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_first_divergence_is_where_prefixes_part(a: list[int], b: list[int]) -> None:
    index = first_divergence(a, b)
    if index is None:
        assert a == b
    else:
        assert a[:index] == b[:index]
        assert a[index : index + 1] != b[index : index + 1]
