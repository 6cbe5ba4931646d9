import pytest

from gravbench.errors import UsageError
from gravbench.options import DEFAULT_STRATEGIES, parse_error_limit
from gravbench.runner.engine import check_strategies


@pytest.mark.parametrize(
    ("text", "failed", "exceeded"),
    [
        ("1%", 1, False),
        ("1%", 2, True),
        ("0.01", 2, True),
        ("3", 3, False),
        ("3", 4, True),
        ("0", 1, True),
        ("100%", 100, False),
    ],
)
def test_error_limit(text: str, failed: int, exceeded: bool) -> None:
    assert parse_error_limit(text).exceeded(failed, 100) is exceeded


@pytest.mark.parametrize("text", ["", "many", "-1", "101%", "1.5", "nan"])
def test_bad_error_limit_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--max-errors"):
        parse_error_limit(text)


def test_no_strategy_means_both_arms() -> None:
    assert check_strategies(()) == DEFAULT_STRATEGIES == ("ar", "selfspec")


@pytest.mark.parametrize("strategies", [("ar", "ar"), ("selfspek",), ("selfspec:block=0",), ("",)])
def test_strategy_twice_or_unknown_is_a_usage_error(strategies: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        check_strategies(strategies)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ("ar:batch=1", "ar"),
        ("ar:batch=04", "ar:batch=4"),
        ("selfspec:block=08", "selfspec:block=8"),
        ("selfspec:batch=4,block=4", "selfspec:block=4,batch=4"),
        ("selfspec:legacy=1,block=4", "selfspec:block=4,legacy=1"),
    ],
)
def test_another_spelling_of_a_strategy_is_refused_with_the_right_one(given: str, canonical: str) -> None:
    with pytest.raises(UsageError) as error:
        check_strategies([given])
    assert f"Write {canonical} " in (error.value.hint or "")
    assert check_strategies([canonical]) == (canonical,)


@pytest.mark.parametrize(
    ("strategies", "batch_size", "message"),
    [
        (("ar", "ar"), 4, "given twice"),
        (("ar", "ar:batch=4"), 4, "given twice"),
        (("selfspec", "selfspec:legacy=0"), 1, "'selfspec:legacy=0' is the same as 'selfspec'"),
        (("selfspec:batch=4", "selfspec:legacy=0"), 4, "is the same as 'selfspec:batch=4'"),
    ],
)
def test_strategies_that_mean_the_same_are_refused(
    strategies: tuple[str, ...], batch_size: int, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        check_strategies(strategies, batch_size=batch_size)


def test_a_batch_size_goes_to_strategies_that_name_none() -> None:
    given = ("ar", "selfspec:block=4", "selfspec:block=4,batch=2")
    expected = ("ar:batch=8", "selfspec:block=4,batch=8", "selfspec:block=4,batch=2")
    assert check_strategies(given, batch_size=8) == expected
