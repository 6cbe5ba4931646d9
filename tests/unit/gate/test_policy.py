from pathlib import Path

import pytest
from verdict_support import quick_policy

from gravbench.errors import UsageError
from gravbench.gate.policy import SHIPPED, CountRule, load_policy


def test_every_shipped_policy_is_complete() -> None:
    for name in SHIPPED:
        assert load_policy([name]).two_sided == pytest.approx(0.9)


def test_layers_replace_single_keys(tmp_path: Path) -> None:
    layer = tmp_path / "tolerances.toml"
    layer.write_text("[rules.loops]\nallowed = 2\n[rules.accuracy.margins]\ntable_teds = 1.5\n")
    policy = load_policy([layer])
    assert (policy.rules.loops.allowed, policy.rules.loops.level) == (2, "fail")
    assert policy.rules.accuracy.margin_of("table_teds") == 1.5
    assert policy.rules.accuracy.margin_of("text_ned") == load_policy().rules.accuracy.margin


def test_new_weights_do_not_ask_for_the_same_tokens() -> None:
    policy = load_policy(["new-weights"])
    assert policy.rules.token_identity.level == "off"
    assert "model_digest" not in policy.must_match


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[rules.loops]\nallow = 2\n", "rules.loops.allow"),
        ("[rules.speed]\nfloor = -1\n", "rules.speed.floor"),
        ('[rules.loops]\nlevel = "maybe"\n', "rules.loops.level"),
        ("[rules.unknown]\nlevel = 1\n", "rules.unknown"),
        ("resamples = 10\n", "resamples"),
        ("not toml", "TOML"),
    ],
)
def test_bad_policy_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load_policy([file])
    assert str(file) in error.value.message
    assert message in error.value.message


def test_unknown_policy_names_the_shipped_ones() -> None:
    with pytest.raises(UsageError) as error:
        load_policy(["nope"])
    assert "new-weights" in (error.value.hint or "")


def test_count_limit_takes_the_larger_allowance() -> None:
    rule = CountRule(level="fail", allowed=1, allowed_share=0.05)
    assert (rule.limit(2, 10), rule.limit(2, 100)) == (3, 7)


def test_level_of_reads_each_rule() -> None:
    assert quick_policy(speed={"level": "off"}).rules.level_of("speed") == "off"
