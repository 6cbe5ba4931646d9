"""What a batch log says of each formula, and which formulas may share a batch at all."""

from __future__ import annotations

import pytest

from gravbench.omnidocbench.cdm.tex import (
    CROP_PLACEHOLDER,
    PageSpan,
    batch_document,
    must_run_alone,
    read_spans,
    single_document,
    start_paper,
)

MARK = "GRAVBENCH-1234"


def log(*lines: str) -> str:
    return "\n".join(["This is pdfTeX", f"{MARK} start 0 1 1", *lines, "Output written", ""])


def mark(kind: str, number: int, level: int, page: int) -> str:
    return f"{MARK} {kind} {number} {level} {page}"


def test_pages_of_a_formula_lie_between_its_marks() -> None:
    spans = read_spans(
        log(mark("begin", 0, 1, 1), mark("end", 0, 1, 2), mark("begin", 1, 1, 2), mark("end", 1, 1, 5)), MARK
    )
    assert spans == {0: PageSpan(0, 1, True, False), 1: PageSpan(1, 4, True, False)}


def test_overfull_belongs_to_the_formula_it_stands_in() -> None:
    text = log(
        mark("begin", 0, 1, 1),
        mark("end", 0, 1, 2),
        mark("begin", 1, 1, 2),
        "Overfull \\hbox (9pt)",
        mark("end", 1, 1, 3),
    )
    spans = read_spans(text, MARK)
    assert (spans[0].overfull, spans[1].overfull) == (False, True)


@pytest.mark.parametrize(
    "line", ["! File ended while scanning use of \\x.", "Runaway argument?", "! Paragraph ended before \\x"]
)
def test_a_runaway_argument_is_not_trusted(line: str) -> None:
    spans = read_spans(log(mark("begin", 0, 1, 1), line, mark("end", 0, 1, 2)), MARK)
    assert not spans[0].trusted


def test_other_errors_are_trusted() -> None:
    spans = read_spans(
        log(mark("begin", 0, 1, 1), "! Undefined control sequence.", mark("end", 0, 1, 2)), MARK
    )
    assert spans[0].trusted


def test_everything_behind_a_leaked_group_is_unseen() -> None:
    spans = read_spans(
        log(mark("begin", 0, 1, 1), mark("end", 0, 2, 2), mark("begin", 1, 2, 2), mark("end", 1, 2, 3)), MARK
    )
    assert list(spans) == [0] and not spans[0].trusted


def test_a_formula_without_a_page_is_not_trusted() -> None:
    assert not read_spans(log(mark("begin", 0, 1, 1), mark("end", 0, 1, 1)), MARK)[0].trusted


def test_a_lost_mark_leaves_the_rest_unseen() -> None:
    assert read_spans(log(mark("begin", 0, 1, 1), mark("begin", 1, 1, 1), mark("end", 1, 1, 2)), MARK) == {}
    assert read_spans("nothing", MARK) == {}


def test_marks_of_another_run_are_not_read() -> None:
    assert read_spans(log("GRAVBENCH-9999 begin 0 1 1", mark("begin", 0, 1, 1), mark("end", 0, 1, 2)), MARK)[
        0
    ].trusted


@pytest.mark.parametrize(
    "body",
    [
        r"\def\a{b}", r"\gdef\alpha{Z}", r"\global\everymath{x}", r"\catcode`\$=12", r"\input{/etc/x}",
        r"\write18{ls}", r"\openout15=x", r"\csname end\endcsname", r"\end{document}", r"\end {document}",
        r"\special{x}", r"\pdfliteral{x}", r"a^^5cinput", r"\shipout\hbox{}", r"\loop\repeat",
        r"\footnote{x}", r"\begin{equation}x\end{equation}", r"\everymath{x}", r"\eject", r"\begin{align*}x",
        r"\renewcommand{\a}{b}", r"\setcounter{page}{9}", r"\batchmode", r"\read16 to\x", r"\message{x}",
    ],
)  # fmt: skip
def test_what_could_reach_beyond_its_page_runs_alone(body: str) -> None:
    assert must_run_alone(body)


@pytest.mark.parametrize("body", [r"\frac{a", "a}{b", r"\begin{array}{l} x", r"x \end{array}", r"\\{"])
def test_an_open_group_runs_alone(body: str) -> None:
    """Nothing behind it in the batch could be trusted."""
    assert must_run_alone(body)


def test_escaped_braces_open_no_group() -> None:
    assert not must_run_alone(r"\left\{ x \right\} \\{}")


@pytest.mark.parametrize(
    "body",
    [
        r"\frac{a}{b}", r"\begin{array}{l} x \end{array}", r"\left. x \right.", r"\text{a}",
        r"\begin{tabular}{c} x \end{tabular}", r"\definecolorless", r"\inputs", r"\reference",
        r"\begin{aligned} a \end{aligned}", r"\readable", r"\partial", r"\begin{arrdy}\end{arrdy}",
    ],
)  # fmt: skip
def test_ordinary_formulas_share_a_batch(body: str) -> None:
    assert not must_run_alone(body)


def test_paper_grows_with_the_number_of_tokens() -> None:
    assert [start_paper(tokens) for tokens in (0, 600, 601, 1300, 1301)] == [5, 5, 4, 4, 3]


def test_a_batch_reads_every_formula_from_its_own_file() -> None:
    document = batch_document([(0, "f0.tex"), (1, "f1.tex")], "plain", 5, mark=MARK)
    assert document.count(r"\begin{displaymath}") == 2
    assert document.count(r"\clearpage") == 2
    assert document.count(CROP_PLACEHOLDER) == 1


def test_templates_load_what_the_official_ones_load() -> None:
    assert r"\begin{CJK}{UTF8}{gkai}" in single_document("x", "cjk", 4)
    assert r"\usepackage{multirow}" in single_document("x", "tabular", 4)
    assert r"\geometry{a4paper,scale=0.98}" in single_document("x", "plain", 4)
