"""The LaTeX documents formulas are set in: the official one for a single formula, and one for a whole batch.

A batch document is the official preamble once and then one formula a page, each from a file of its own, so
that an argument left open ends with the file. Around each formula a mark goes to the log: its number, the
group level, the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from gravbench.omnidocbench.cdm.tokenise import Template

LARGEST_PAPER = 1
"""ISO A1; a formula too wide for it is scored as it came out."""
_CJK_FONT = "gkai"
_PACKAGES: dict[Template, tuple[str, ...]] = {
    "plain": ("booktabs", "amsmath", "upgreek", "amssymb", "xcolor"),
    "cjk": ("booktabs", "amsmath", "upgreek", "CJK", "amssymb", "xcolor"),
    "tabular": ("booktabs", "multirow", "amssymb", "upgreek", "amsmath", "xcolor"),
}
CROP_PLACEHOLDER = "/CropBox [00000 00000 99999.000 99999.000]"
"""Stands in every page dictionary, to be overwritten. A zero-size box would make pages look empty."""


def start_paper(tokens: int) -> int:
    """First paper size to try: A5, A4 above 600 tokens, A3 above 1300."""
    return 3 if tokens > 1300 else 4 if tokens > 600 else 5


def single_document(body: str, template: Template, paper: int) -> str:
    """The official document around one formula."""
    return "\n".join([*_head(template, paper), *_display(template, body), r"\end{document}", ""])


def batch_document(files: Sequence[tuple[int, str]], template: Template, paper: int, *, mark: str) -> str:
    """One page or more for each (number, file name); the file holds the body of that formula.

    `mark` opens every mark line in the log; it should be a word that no formula can guess.
    """
    lines = [*_head(template, paper), *_marking(mark)]
    for number, name in files:
        lines.append(rf"\gravbenchmark{{begin}}{{{number}}}")
        lines += _display(template, rf"\gravbenchinput {name} ")
        lines.append(rf"\clearpage\gravbenchmark{{end}}{{{number}}}")
    return "\n".join([*lines, r"\end{document}", ""])


def _head(template: Template, paper: int) -> list[str]:
    """Preamble and start of the document, with page dictionaries left as plain text for cropping."""
    return [
        r"\pdfobjcompresslevel=0 \pdfpageattr{" + CROP_PLACEHOLDER + "}",
        r"\documentclass[12pt]{article}",
        r"\usepackage[landscape]{geometry}",
        rf"\geometry{{a{paper}paper,scale=0.98}}",
        r"\pagestyle{empty}",
        *(rf"\usepackage{{{package}}}" for package in _PACKAGES[template]),
        r"\begin{document}",
        r"\makeatletter",
        r"\renewcommand*{\@textcolor}[3]{\protect\leavevmode\begingroup\color#1{#2}#3\endgroup}",
        r"\makeatother",
    ]


def _display(template: Template, body: str) -> list[str]:
    display = [r"\begin{displaymath}", body, r"\end{displaymath}"]
    return (
        [rf"\begin{{CJK}}{{UTF8}}{{{_CJK_FONT}}}", *display, r"\end{CJK}"] if template == "cjk" else display
    )


def _marking(mark: str) -> list[str]:
    """Marks go to the log only; files are read by the primitive, past every hook of LaTeX's `\\input`."""
    return [
        r"\makeatletter",
        r"\let\gravbenchinput\@@input",
        r"\def\gravbenchmark#1#2{\immediate\write-1{"
        + mark
        + r" #1 #2 \the\currentgrouplevel\space\the\count0}}",
        r"\gravbenchmark{start}{0}",
        r"\makeatother",
    ]
