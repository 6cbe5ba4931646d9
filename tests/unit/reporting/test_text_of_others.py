"""Model and file text made visible, compared and split into rounds."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_support import rounds_of

from gravbench.reporting.gallery_pack import strip_rounds, visible
from gravbench.reporting.word_diff import MAX_CELLS, word_diff

BIDI_CONTROLS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text())
def test_no_direction_mark_or_control_survives(text: str) -> None:
    shown = visible(text)
    assert not {unicodedata.bidirectional(c) for c in shown} & BIDI_CONTROLS
    assert {c for c in shown if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}} <= {"\t", "\n"}


def test_an_override_is_written_out() -> None:
    assert visible("a\u202egnp.exe") == "a⟨U+202E⟩gnp.exe"
    assert visible("tab\tline\n") == "tab\tline\n"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert visible("👩\u200d💻") == "👩\u200d💻"


@given(st.text(alphabet="ab .\n#*中文", max_size=40), st.text(alphabet="ab .\n#*中文", max_size=40))
def test_a_diff_spells_both_sides(reference: str, prediction: str) -> None:
    parts = word_diff(reference, prediction)
    assert "".join(text for kind, text in parts if kind in "=-<") == reference
    assert "".join(text for kind, text in parts if kind in "=+>") == prediction
    assert all(text for _, text in parts)
    assert all(a[0] != b[0] for a, b in pairwise(parts))


def test_a_diff_keeps_equal_words() -> None:
    assert word_diff("one two three", "one 2 three") == (
        ("=", "one "),
        ("-", "two"),
        ("+", "2"),
        ("=", " three"),
    )
    assert word_diff("", "") == ()


@pytest.mark.parametrize(
    ("reference", "prediction", "words"),
    [
        ("# A title\n\nsome\ntext", "A title\nsome text", ""),
        ("**bold** and plain", "bold and **plain**", ""),
        ("3 * 4 # five", "3 4 five", "*#"),
        ("a\nb c", "a\nc", "b"),
        ("one\ntwo", "one 2", "two2"),
        ("end", "end\n", ""),
    ],
)
def test_line_breaks_and_marks_of_titles_are_told_apart_from_words(
    reference: str, prediction: str, words: str
) -> None:
    parts = word_diff(reference, prediction)
    assert "".join(text.strip() for kind, text in parts if kind in "-+") == words
    assert ("<" in {kind for kind, _ in parts} or ">" in {kind for kind, _ in parts}) == (
        not words or words == "two2"
    )


def test_a_diff_of_monsters_needs_no_alignment() -> None:
    many = int(MAX_CELLS**0.5) + 2
    reference, prediction = "x " * many + "end", "y " * many + "end"
    parts = word_diff(reference, prediction)
    assert [kind for kind, _ in parts] == ["-", "+", "="]
    assert len(parts[0][1]) == 2 * many - 1


def test_a_megabyte_line_is_compared() -> None:
    line = "a" * 1_000_000
    assert word_diff(line, line) == (("=", line),)
    assert word_diff("b", line) == (("-", "b"), ("+", line))


def test_rounds_name_seed_accepted_and_correction() -> None:
    rounds = rounds_of((8, 8, 8), (3, 8, 3), (5, 10, 3))
    first, full, cut = strip_rounds(rounds)
    assert first == ("saaac", 8, 5, 0)
    assert full == ("saaaaaaaab", 8, 0, 0)
    assert cut == ("saa", 8, 5, 1)


@pytest.mark.parametrize(("seeds", "kinds"), [(0, "aac"), (1, "saac"), (3, "sssaac")])
def test_a_round_shows_the_seeds_it_says_it_has(seeds: int, kinds: str) -> None:
    (only,) = strip_rounds(rounds_of((4,), (2,), (3 + seeds,), seeds=seeds))
    assert only.kinds == kinds


def test_plain_decoding_is_plain() -> None:
    rounds = rounds_of((0, 0), (0, 0), (1, 1))
    assert [r.kinds for r in strip_rounds(rounds)] == ["g", "g"]


@pytest.mark.parametrize("committed", range(6))
def test_a_cut_round_shows_as_many_letters_as_tokens(committed: int) -> None:
    rounds = rounds_of((8,), (4,), (committed,))
    (only,) = strip_rounds(rounds)
    assert len(only.kinds) == committed
    assert only.kinds.count("a") + only.dropped == 4
