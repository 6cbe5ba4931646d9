import re
from pathlib import Path

import pytest
from verdict_support import quick_policy

from gravbench.errors import UsageError
from gravbench.gate import policy
from gravbench.gate.policy import SHIPPED, CountRule, load_policy


def test_every_shipped_policy_is_complete() -> None:
    for name in SHIPPED:
        assert load_policy([name]).two_sided == pytest.approx(0.9)


def test_layers_replace_single_keys(tmp_path: Path) -> None:
    layer = tmp_path / "tolerances.toml"
    layer.write_text("[rules.loops]\nallowed = 2\n[rules.accuracy.margins]\ntable_teds = 1.5\n")
    found = load_policy([layer])
    assert (found.rules.loops.allowed, found.rules.loops.level) == (2, "fail")
    assert found.rules.accuracy.margin_of("table_teds") == 1.5
    assert found.rules.accuracy.margin_of("text_ned") == load_policy().rules.accuracy.margin


def test_new_weights_do_not_ask_for_the_same_tokens() -> None:
    found = load_policy(["new-weights"])
    assert found.rules.token_identity.level == "off"
    assert "model_digest" not in found.must_match


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[rules.loops]\nallow = 2\n", "rules.loops: no field 'allow'"),
        ("[rules.speed]\nfloor = -1\n", "rules.speed.floor"),
        ('[rules.loops]\nlevel = "maybe"\n', "rules.loops.level"),
        ("[rules.unknown]\nlevel = 1\n", "rules: no field 'unknown'"),
        ("confidance = 0.9\n", "no field 'confidance'"),
        (
            'must_match = ["suite", "modle_digest"]\n',
            "no field of a run's identity 'modle_digest'",
        ),
        ("[rules.accuracy.margins]\ntable_ted = 1.5\n", "rules.accuracy.margins: no metric 'table_ted'"),
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


@pytest.mark.parametrize(
    ("text", "near", "known"),
    [
        ("[rules.loops]\nallow = 2\n", "allowed", "level, allowed, allowed_share"),
        ('must_match = ["modle_digest"]\n', "model_digest", "suite_sha"),
        ("[rules.accuracy.margins]\ntable_ted = 1.5\n", "table_teds", "display_formula_CDM"),
        ("[rules.tokens_per_forward]\nmargin = 0.1\n", "tpf_all", "accepted_draft"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_all_there_are(
    tmp_path: Path, text: str, near: str, known: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    with pytest.raises(UsageError) as error:
        load_policy([file])
    assert f"Did you mean {near}?" in (error.value.hint or "")
    assert known in (error.value.hint or "")
    assert error.value.exit_code == 2


def test_every_field_of_a_policy_is_explained_in_the_shipped_one() -> None:
    """Of every rule all fields with a value, and every name that `must_match` may hold."""
    shipped = (Path(policy.__file__).parent / "default.toml").read_text()
    for name in policy.Rules.model_fields:
        assert f"[rules.{name}]" in shipped
    fields = {field for rule in load_policy().rules for field in type(rule[1]).model_fields}
    for name in [*policy.IDENTITY_FIELDS, *fields]:
        assert re.search(rf"\b{name}\b", shipped), name


def test_new_weights_hold_drafting_on_all_samples_to_nine_tenths() -> None:
    rules = load_policy(["new-weights"]).rules
    for rule in (rules.tpf_all, rules.accepted_draft):
        assert (rule.level, rule.basis, rule.margin) == ("fail", "all", 0.1)
