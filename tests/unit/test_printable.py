import pytest
from hypothesis import given
from hypothesis import strategies as st

from gravbench.errors import has_controls, printable, shortened


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain Ünïcode 页 \U0001f600", "plain Ünïcode 页 \U0001f600"),
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("\x9b2J", r"\x9b2J"),
        ("two\nlines", r"two\nlines"),
        ("half \ud800 pair", r"half \ud800 pair"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
    ],
)
def test_what_could_move_a_terminal_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_printable_text_is_unicode_without_controls_and_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not has_controls(shown)
    assert printable(shown) == shown


def test_a_long_message_ends_with_a_sentence_or_says_that_it_goes_on() -> None:
    assert shortened("One\n two.  Three four five.", 15) == "One two."
    assert shortened("no sentence ends in here", 15) == "no sentence..."
    assert shortened("short", 15) == "short"


@given(st.text(), st.integers(10, 60))
def test_a_shortened_message_is_no_longer_than_asked(text: str, limit: int) -> None:
    assert len(shortened(text, limit)) <= limit
