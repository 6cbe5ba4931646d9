"""How an arm is written, and which arm it is measured against."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.arms import (
    batch_of,
    canonical,
    identity_base,
    is_ar,
    parse_arm,
    speed_base,
    with_batch,
    without_batch,
)
from gravbench.errors import UsageError

ARMS = st.sampled_from(["ar", "selfspec", "selfspec:block=4", "selfspec:block=4,legacy=1"])


def test_an_arm_is_an_id_and_options() -> None:
    arm = parse_arm("selfspec:block=4,batch=2")
    assert (arm.strategy, arm.block, arm.batch, arm.is_ar) == ("selfspec", 4, 2, False)
    assert arm.options == (("block", "4"), ("batch", "2"))
    plain = parse_arm("ar")
    assert (plain.strategy, plain.block, plain.batch, plain.options, plain.is_ar) == ("ar", None, 1, (), True)


def test_a_name_that_only_holds_the_word_asks_for_no_block() -> None:
    assert parse_arm("lookup:subblock=4").block is None
    assert parse_arm("selfspec-block=4").block is None


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
        parse_arm(arm)


EVERY = ("ar", "selfspec", "ar:batch=4", "selfspec:batch=4", "selfspec:batch=8")


def test_speed_is_held_against_ar_at_the_same_batch_size_or_not_at_all() -> None:
    assert [speed_base(arm, EVERY) for arm in EVERY] == [None, "ar", "ar", "ar:batch=4", None]
    assert speed_base("selfspec", ("selfspec", "ar:batch=4")) is None


def test_the_gain_of_batching_is_over_plain_ar_alone() -> None:
    assert speed_base("ar:batch=4", ("ar:batch=4", "ar")) == "ar"
    assert speed_base("ar:batch=4", ("ar:batch=2", "ar:batch=4")) is None


def test_text_is_held_against_ar_at_the_same_batch_size_or_another() -> None:
    assert [identity_base(arm, EVERY) for arm in EVERY] == [None, "ar", "ar", "ar:batch=4", "ar"]
    arms = ("selfspec", "ar:batch=8", "ar:batch=4")
    assert [identity_base(arm, arms) for arm in arms] == ["ar:batch=4", "ar:batch=4", None]


@given(arms=st.lists(st.builds(with_batch, ARMS, st.integers(1, 4)), unique=True))
def test_no_arm_is_its_own_base_and_some_arm_has_none(arms: list[str]) -> None:
    for base in (identity_base, speed_base):
        found = {arm: base(arm, arms) for arm in arms}
        assert all(other != arm and (other is None or is_ar(other)) for arm, other in found.items())
        assert None in found.values() or not arms


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("ar:batch=1", "ar"),
        ("ar:batch=04", "ar:batch=4"),
        ("selfspec:batch=4,block=08", "selfspec:block=8,batch=4"),
        ("selfspec:legacy=1,block=4", "selfspec:block=4,legacy=1"),
        ("selfspec:legacy=00", "selfspec:legacy=0"),
    ],
)
def test_an_arm_has_one_spelling(written: str, expected: str) -> None:
    assert canonical(written) == expected == canonical(expected)


@given(arm=ARMS, size=st.integers(1, 1024))
def test_the_canonical_spelling_stays_as_it_is(arm: str, size: int) -> None:
    assert canonical(with_batch(arm, size)) == with_batch(arm, size)
