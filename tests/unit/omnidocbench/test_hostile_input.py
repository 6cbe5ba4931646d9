"""Input that makes the official search run for minutes or die. No test here looks at a clock: each ends."""

from __future__ import annotations

import pytest
from omnidoc_support import block, page, scored

from gravbench.omnidocbench.page_scores import notes_of

WORDS = ["amber", "river", "stone", "window", "compute", "lantern", "signal", "orbit", "harvest", "copper"]
PARAGRAPHS = [" ".join(WORDS[(i * k) % 10] for i in range(20 + 9 * k)) for k in range(1, 7)]
TRUTH = page(
    *(block("text_block", text, i + 1) for i, text in enumerate(PARAGRAPHS)),
    block("equation_isolated", "$$x_{1}=\\frac{a}{b}$$", 10),
    block("table", "<table><tr><td>a</td><td>b</td></tr></table>", 11),
)
BASE = "\n\n".join(PARAGRAPHS) + "\n\n$$x_{1}=\\frac{a}{b}$$\n\n<table><tr><td>a</td><td>b</td></tr></table>"


@pytest.mark.parametrize(
    "junk",
    [
        "<table><tr><td>" * 300,
        "\\begin{tabular}{ll} a & b " * 300,
        "<div>" * 3000 + "x" + "</div>" * 3000,
        "|" * 20_000,
        "\\(" * 20_000,
        "![" * 20_000,
        "\\text{" * 20_000,
        "\\title{" * 20_000,
        "```py\n" * 5_000,
        "\x00" * 100,
        "\ud800" * 100,
        "\n" * 50_000,
    ],
    ids=lambda junk: repr(junk[:12]),
)
def test_junk_in_front_leaves_the_text_score_alone(junk: str) -> None:
    result = scored(TRUTH, f"{junk}\n\n{BASE}")
    assert result.crash is None
    assert [row.metric["Edit_dist"] for row in result.text] == [0.0] * len(PARAGRAPHS)


def test_eight_hundred_one_word_paragraphs_are_searched_and_reported() -> None:
    words = "\n\n".join(WORDS[(i * 7) % 10] for i in range(800))
    result = scored(TRUTH, words)
    assert len(result.text) == len(PARAGRAPHS)
    limit = next(limit for limit in result.clock_limits if limit.stage == "prediction_merging")
    assert limit.estimated_s > 15


def test_a_loop_of_ten_thousand_lines_ends() -> None:
    result = scored(TRUTH, BASE + "\n\nthe same line again" * 10_000)
    assert [row.metric["Edit_dist"] for row in result.text] == [0.0] * len(PARAGRAPHS)
    assert result.repetition.repeats == 10_000


def test_a_loop_of_formulas_ends() -> None:
    result = scored(TRUTH, BASE + "\n\n$$y=1$$" * 1_500)
    assert result.formulas[0].metric["Edit_dist"] == 0.0


def test_ten_megabytes_end() -> None:
    result = scored(TRUTH, (BASE + "\n\n") * (10_000_000 // len(BASE)))
    assert [row.metric["Edit_dist"] for row in result.text] == [0.0] * len(PARAGRAPHS)


def test_more_unclosed_tables_than_the_official_recursion_bears_score_as_empty() -> None:
    result = scored(TRUTH, "<table><tr><td>" * 2_000 + BASE)
    assert result.crash is not None
    assert "never close" in result.crash
    assert {row.metric["Edit_dist"] for row in result.text} == {1.0}


def test_a_table_of_more_markup_than_is_read_counts_as_empty_and_says_so() -> None:
    markup = "<table><tr>" + "<!a>" * 2_001 + "<td>one</td></tr></table>"
    truth = page(block("table", "<table><tr><td>one</td></tr></table>", 0))
    result = scored(truth, markup)
    (note,) = [note for note in notes_of(result, {}) if note.element == "predicted table 0"]
    assert (note.value, note.reason) == (
        0.0,
        "not read, counts as empty: 2,001 markup declarations, more than 2,000",
    )
    assert not scored(truth, markup.replace("<!a>", "", 2)).oversized


def test_a_plain_table_is_read_however_large_and_has_no_such_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gravbench.metrics.table_markup.MAX_TAGS", 10)
    markup = "<table>" + "<tr><td>two</td></tr>" * 5 + "</table>"
    result = scored(page(block("table", markup, 0)), markup)
    assert result.tables[0].metric["TEDS"] == 1.0
    assert not result.oversized
