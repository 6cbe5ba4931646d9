import pytest

from gravbench.errors import UsageError
from gravbench.runner.options import DEFAULT_STRATEGIES, check_strategies, parse_error_limit


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
