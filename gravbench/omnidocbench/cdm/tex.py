"""pdflatex runs: many formulas in one document, or one formula in a folder of its own.

What a batch run says about each formula is read from the log between its two marks. A formula is trusted only
when both marks are there and the group level is the one the document began with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gravbench.omnidocbench.cdm.tokenise import Template
from gravbench.omnidocbench.cdm.tools import Finished, Limits, run_limited
from gravbench.omnidocbench.text import environments_balance

_UNTRUSTED = (
    "File ended while scanning",
    "Runaway argument",
    "Paragraph ended",
    "Emergency stop",
    "Too many math alphabets",
)
"""What happens after one of these differs from what the official document shows."""
_OVERFULL = ("Overfull \\hbox", "Overfull \\vbox")
_INSTALLATION_FAULTS = ("pdfTeX error", "mktexpk", "mktextfm", "kpathsea", "can't find", "I can't find file")
NO_SPACE = "no space left for pdflatex"


@dataclass(frozen=True)
class PageSpan:
    """What the log says of one formula: its pages (from 0, end exclusive), and may they be used."""

    first: int
    end: int
    trusted: bool
    overfull: bool


@dataclass(frozen=True)
class BatchRun:
    """One batch. `pdf` is `None` after a fatal stop; then `culprit` may name the formula that did it."""

    pdf: Path | None
    spans: Mapping[int, PageSpan]
    culprit: int | None
    stopped: str | None


@dataclass(frozen=True)
class SoloRun:
    """One formula alone on one paper size. Without a `pdf`, `problem` says why."""

    pdf: Path | None
    overfull: bool
    problem: str | None
    stopped: str | None
    lasting: bool = True
    """Not an accident of the machine (killed, disk full)."""


def environment(folder: Path, program: Path) -> dict[str, str]:
    """What TeX and Ghostscript see: no shell escape, no file outside `folder` by name.

    The home folder stands beside `folder`: bitmap fonts that TeX has made for one run (for `\\textcircled`,
    say) serve all runs of a job.
    """
    return {
        "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder.parent / "home"),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        "openin_any": "p",
        "openout_any": "p",
        "shell_escape": "f",
        "max_print_line": "1000",
    }


def run_batch(
    bodies: Sequence[str],
    *,
    template: Template,
    paper: int,
    folder: Path,
    pdflatex: Path,
    limits: Limits,
    mark: str,
) -> BatchRun:
    """Typeset `bodies`, numbered from 0, in the empty `folder`."""
    files = []
    for number, body in enumerate(bodies):
        name = f"f{number}.tex"
        (folder / name).write_text(body + "\n", encoding="utf-8")
        files.append((number, name))
    (folder / "batch.tex").write_text(batch_document(files, template, paper, mark=mark), encoding="utf-8")
    finished = _pdflatex("batch", folder, pdflatex, limits, cpu_s=limits.batch_cpu(len(bodies)))
    pdf = _complete_pdf(folder / "batch.pdf")
    if pdf is None:
        return BatchRun(None, {}, _last_opened(finished.output()), finished.stopped)
    return BatchRun(pdf, read_spans(_text(folder / "batch.log"), mark), None, None)


def run_solo(
    body: str, *, template: Template, paper: int, folder: Path, pdflatex: Path, limits: Limits
) -> SoloRun:
    """Typeset one formula in the official document; `folder` is empty and its own."""
    (folder / "solo.tex").write_text(single_document(body, template, paper), encoding="utf-8")
    finished = _pdflatex("solo", folder, pdflatex, limits, cpu_s=limits.solo_cpu_s)
    log = _text(folder / "solo.log")
    pdf = _complete_pdf(folder / "solo.pdf")
    overfull = any(sign in log for sign in _OVERFULL)
    problem = None if pdf else _why_no_pdf(log, finished)
    accident = finished.stopped is not None or problem == NO_SPACE or _is_installation_fault(problem)
    return SoloRun(pdf, overfull, problem, finished.stopped, lasting=not accident)


def read_spans(log: str, mark: str) -> dict[int, PageSpan]:
    """Page spans by formula number. Everything behind a change of group level is left out as unseen."""
    pattern = re.compile(rf"^{re.escape(mark)} (start|begin|end) (\d+) (-?\d+) (-?\d+)\s*$", re.MULTILINE)
    marks = list(pattern.finditer(log))
    if not marks or marks[0][1] != "start":
        return {}
    level, first_page = marks[0][3], int(marks[0][4])
    spans: dict[int, PageSpan] = {}
    for begin, end in zip(marks[1::2], marks[2::2], strict=False):
        if (begin[1], end[1]) != ("begin", "end") or begin[2] != end[2] or begin[3] != level:
            break
        segment = log[begin.end() : end.start()]
        first, last = int(begin[4]) - first_page, int(end[4]) - first_page
        clean = end[3] == level and not any(sign in segment for sign in _UNTRUSTED)
        spans[int(begin[2])] = PageSpan(
            first, last, clean and last > first, any(sign in segment for sign in _OVERFULL)
        )
        if end[3] != level:
            break
    return spans


def _pdflatex(job: str, folder: Path, pdflatex: Path, limits: Limits, *, cpu_s: int) -> Finished:
    return run_limited(
        [str(pdflatex), "-no-shell-escape", "-interaction=nonstopmode", f"{job}.tex"],
        cwd=folder,
        env=environment(folder, pdflatex),
        cpu_s=cpu_s,
        file_bytes=limits.file_bytes,
        memory_kbytes=limits.memory_kbytes,
        wall_s=10 + limits.wall_factor * cpu_s,
        name=job,
    )


def _complete_pdf(path: Path) -> Path | None:
    """The PDF if TeX finished it; a run that was killed leaves none or a truncated one."""
    if not path.is_file():
        return None
    with path.open("rb") as stream:
        head = stream.read(5)
        stream.seek(max(0, path.stat().st_size - 32))
        tail = stream.read()
    return path if head == b"%PDF-" and b"%%EOF" in tail else None


def _last_opened(terminal: str) -> int | None:
    """Number of the last formula file TeX opened: the terminal is flushed at every opening."""
    opened = re.findall(r"\((?:\./)?f(\d+)\.tex", terminal)
    return int(opened[-1]) if opened else None


def _why_no_pdf(log: str, finished: Finished) -> str:
    if finished.stopped:
        return f"pdflatex ended by {finished.stopped}"
    if "No space left" in log or "No space left" in finished.errors(65536):
        return NO_SPACE
    said = finished.output().splitlines() + finished.errors(65536).splitlines() + log.splitlines()
    fault = next((line.strip() for line in said if _is_installation_fault(line)), None)
    if fault:
        return f"the TeX installation failed: {fault}"
    errors = [line for line in log.splitlines() if line.startswith("! ")]
    spoken = [
        *errors[:1],
        *finished.errors(65536).strip().splitlines()[-1:],
        f"exit status {finished.returncode}",
    ]
    return f"pdflatex made no page: {spoken[0]}"


def _is_installation_fault(problem: str | None) -> bool:
    """pdfTeX's own errors are of files and fonts that are not there; those of a formula begin with `! `."""
    return problem is not None and any(sign in problem for sign in _INSTALLATION_FAULTS)


def _text(path: Path, limit: int = 16_000_000) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(limit).decode("utf-8", "replace")


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


# Errors stay inside their page of a batch, but definitions, assignments, counters, files and page breaks
# could change what comes after. A formula with one of these control words runs alone; hardly any has one.
_WORDS = (
    # definitions
    r"[egx]?def|let|futurelet|long|outer|protected|globaldefs|global|csname|aftergroup|afterassignment|newif"
    r"|(?:re)?newcommand|providecommand|(?:re)?newenvironment|DeclareMath\w*|DeclareRobustCommand|newtheorem"
    r"|new(?:count|dimen|skip|muskip|box|toks|read|write|length|savebox|counter|font|fam|language|insert)"
    r"|usepackage|RequirePackage|documentclass|At(?:Begin|End)\w*|AddToHook|NewHook\w*|makeat(?:letter|other)"
    # assignments
    r"|(?:cat|lc|uc|math|del|sf)code|chardef|mathchardef|countdef|dimendef|skipdef|toksdef|font|fontdimen"
    r"|hyphen(?:ation|char)|skewchar|patterns|every\w+|count|dimen|skip|muskip|toks|box|copy|setbox|sbox|savebox"
    r"|advance|multiply|divide|set(?:length|counter)|addto(?:length|counter)|(?:ref)?stepcounter|counterwithin"
    r"|(?:batch|scroll|nonstop|errorstop)mode|output|interactionmode|tracing\w+|show\w*"
    # loops, files, terminal
    r"|loop|repeat|input|@@input|include|openin|openout|closein|closeout|read|readline|write|immediate|message"
    r"|typeout|typein|errmessage|scantokens|jobname|endinput|enddocument|dump"
    # the engine and the page
    r"|pdf\w+|special|shipout|(?:new|clear|cleardouble)page|pagebreak|eject|supereject|twocolumn|onecolumn"
    r"|marginpar|(?:this)?pagestyle|pagenumbering|vsplit|insert|vadjust|mark\w*"
    # counters of the document
    r"|footnote\w*|thanks|caption|item|label|ref|tag|(?:sub)*section|chapter|part|paragraph|bibitem|cite"
)
_ENVIRONMENTS = (
    r"(?:sub)?equations?|align(?:at)?|x?x?flalign|gather|multline|eqnarray|figure|table|document|minipage"
    r"|enumerate|itemize|description|thebibliography|filecontents|verbatim"
)
_HAZARD = re.compile(
    rf"\\(?:{_WORDS})(?![A-Za-z@])(?!\{{(?:array|tabular)\}})"
    rf"|\\begin\s*\{{\s*(?:{_ENVIRONMENTS})\*?\s*\}}|\^\^|\\csname|\\end\s*\{{\s*document"
)


def must_run_alone(body: str) -> bool:
    """True when the coloured source could reach beyond its own page: by a control word, or by an open group.

    Open groups do no harm in a batch, but nothing behind them would be trusted and so the batch run be lost.
    """
    return _HAZARD.search(body) is not None or not _closes_its_groups(body)


def _closes_its_groups(body: str) -> bool:
    """Braces and environments match as TeX sees them: a backslash takes the next character along."""
    depth = 0
    for brace in re.findall(r"[{}]", re.sub(r"\\.", "", body, flags=re.DOTALL)):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0 and environments_balance(body)
