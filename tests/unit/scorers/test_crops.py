import pytest
from hypothesis import given
from hypothesis import strategies as st

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
