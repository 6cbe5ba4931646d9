"""How an arm is written, and which arm it is measured against."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.arms import base_of, batch_of, is_ar, split_arm, with_batch, without_batch
from gravbench.errors import UsageError

ARMS = st.sampled_from(["ar", "selfspec", "selfspec:block=4", "selfspec:block=4,legacy=1"])


def test_an_arm_is_an_id_and_options() -> None:
    assert split_arm("selfspec:block=4,batch=2") == ("selfspec", {"block": "4", "batch": "2"})
    assert split_arm("ar") == ("ar", {})


@given(arm=ARMS, size=st.integers(1, 1024))
def test_a_batch_size_can_be_written_and_taken_away(arm: str, size: int) -> None:
    written = with_batch(arm, size)
    assert batch_of(written) == size
    assert without_batch(written) == arm
    assert with_batch(written, 7) == (with_batch(arm, 7) if size == 1 else written)
    assert is_ar(written) == is_ar(arm)


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "٣", "1e3", "1025", "9" * 30, " 4"])
def test_a_batch_size_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="batch is"):
        batch_of(f"ar:batch={value}")


@pytest.mark.parametrize("arm", ["ar:", "ar:batch", "ar:batch=", "ar:=4", "ar:batch=4,batch=8", "ar:,"])
def test_malformed_arms_are_refused(arm: str) -> None:
    with pytest.raises(UsageError):
        split_arm(arm)


def test_speed_is_held_against_ar_at_the_same_batch_size() -> None:
    arms = ("ar", "selfspec", "ar:batch=4", "selfspec:batch=4", "selfspec:batch=8")
    assert [base_of(arm, arms) for arm in arms] == [None, "ar", "ar", "ar:batch=4", "ar"]
    assert base_of("selfspec", ("selfspec", "ar:batch=4")) is None
