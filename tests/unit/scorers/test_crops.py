from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.scorers.contract import Answer, open_scorer
from gravbench.scorers.crops import crop_ned, crop_teds

ONE = "<table><tr><td>abcd</td></tr></table>"


def test_ned_by_hand() -> None:
    assert crop_ned("kitten", "sitting") == (3 / 7, {"edits": 3.0, "length": 7.0})
    assert crop_ned("", "") == (0.0, {"edits": 0.0, "length": 0.0})
    assert crop_ned("", "abc")[0] == 1.0


@given(a=st.text(max_size=20), b=st.text(max_size=20))
def test_ned_is_symmetric_and_within_0_and_1(a: str, b: str) -> None:
    assert crop_ned(a, b) == crop_ned(b, a)
    assert 0.0 <= crop_ned(a, b)[0] <= 1.0
    assert crop_ned(a, a)[0] == 0.0


@pytest.mark.parametrize(
    ("prediction", "value"),
    [
        (ONE, 1.0),
        ("<table><tr><td>abcx</td></tr></table>", 1 - 0.25 / 2),
        ("<table><tr><td></td></tr></table>", 1 - 1 / 2),
        ("<table><tr><td colspan='2'>abcd</td></tr></table>", 1 - 1 / 2),
        ("<table><tr><td>abcd</td><td></td></tr></table>", 1 - 1 / 3),
        ("", 0.0),
        ("no table", 0.0),
        ("<table></table>", 1 - 2 / 2),
        ("<table><tr><td colspan='x'>abcd</td></tr></table>", 0.0),
        ("<table><tr><td>abcd", 1.0),
    ],
)
def test_teds_by_hand(prediction: str, value: float) -> None:
    assert crop_teds(prediction, ONE)[0] == pytest.approx(value)


def test_the_quick_scorer_has_its_rates_beside_the_edit_distance() -> None:
    scorer = open_scorer("crops-quick")
    sample = SimpleNamespace(task="text", truth="One two", attributes={})
    good, failed = scorer.score(sample, [Answer("onetwo"), Answer("", failed=True)])
    values = {score.metric: score.value for score in good}
    assert values == {
        "text_ned": 2 / 7, "cer": 2 / 7, "cer_no_space": 1 / 6, "cer_folded": 1 / 7,
        "wer": 1.0, "wer_folded": 1.0,
    }  # fmt: skip
    assert {score.value for score in failed} == {1.0}
    assert len({scorer.signatures()[name] for name in values}) == 6


def test_the_quick_scorer_shares_its_headlines_with_the_full_one() -> None:
    full, quick = open_scorer("crops").signatures(), open_scorer("crops-quick").signatures()
    assert {full[name] == quick[name] for name in ("text_ned", "table_teds", "formula_ned")} == {True}
