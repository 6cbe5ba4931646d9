"""Strategy strings."""

import subprocess
import sys
from pathlib import Path

import pytest

from gravbench.decoding.ar import Autoregressive
from gravbench.decoding.protocols import ModelInfo
from gravbench.decoding.selfspec import SelfSpeculative
from gravbench.decoding.strategies import parse_strategy
from gravbench.errors import UsageError


def info(*, block_size: int | None = 8, mask: int | None = 1, positions: int = 64) -> ModelInfo:
    return ModelInfo(
        eos_token_ids=(0,), vocab_size=9, max_positions=positions, mask_token_id=mask, block_size=block_size
    )


def test_known_strings_parse() -> None:
    assert isinstance(parse_strategy("ar"), Autoregressive)
    assert parse_strategy("selfspec") == SelfSpeculative()
    assert parse_strategy("selfspec:block=16") == SelfSpeculative(block=16)
    assert parse_strategy("selfspec:legacy=1,block=16") == SelfSpeculative(block=16, legacy=True)
    assert parse_strategy("selfspec:legacy=0") == SelfSpeculative()


@pytest.mark.parametrize(
    ("text", "nearest"), [("selfspek", "selfspec"), ("AR", "ar"), ("self-spec:block=4", "selfspec")]
)
def test_an_unknown_id_suggests_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_strategy(text)
    assert nearest in (caught.value.hint or "")


def test_an_unknown_option_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown option 'blok'") as caught:
        parse_strategy("selfspec:blok=4")
    assert "did you mean 'block'" in (caught.value.hint or "")


def test_ar_takes_no_options() -> None:
    with pytest.raises(UsageError, match="unknown option"):
        parse_strategy("ar:block=4")


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "x", "٣", "1e3", "0x10", " 4", "9" * 30])
def test_a_block_that_is_not_a_positive_integer_is_refused(value: str) -> None:
    with pytest.raises(UsageError, match="block is"):
        parse_strategy(f"selfspec:block={value}")


@pytest.mark.parametrize("text", ["", "selfspec:", "selfspec:block", "selfspec:block=", "selfspec:=4", "selfspec:,", "selfspec:block=4,block=8", "selfspec:legacy=yes"])  # fmt: skip  # noqa: E501
def test_malformed_strings_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        parse_strategy(text)


def test_the_default_block_is_the_trained_one() -> None:
    assert parse_strategy("selfspec").needs(info(block_size=8)).rows_max == 9


def test_a_checkpoint_without_a_mask_token_cannot_draft() -> None:
    with pytest.raises(UsageError, match=r"block_diffusion\.json"):
        parse_strategy("selfspec:block=4").needs(info(block_size=None, mask=None))


def test_a_block_larger_than_the_cache_is_refused() -> None:
    assert parse_strategy("selfspec:block=63").needs(info()).rows_max == 64
    with pytest.raises(UsageError, match="exceeds the cache of 64"):
        parse_strategy("selfspec:block=64").needs(info())


def test_parsing_a_strategy_loads_no_tensor_library() -> None:
    code = (
        "import sys; from gravbench.decoding.strategies import parse_strategy; parse_strategy('selfspec'); "
        "from gravbench.backends import registry; assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
