"""LaTeX tables and Markdown pipe tables as HTML (OmniDocBench v1.6, "LaTeX tables" and "Pipe tables").

LaTeX goes by way of LaTeXML, a program of its own; a table that cannot be converted counts as empty, and says
why. The official rules for pipe tables are line-based and lose text; each loss is kept, because published
digits hold it:

* the shortest match decides what a table is, so each Markdown row becomes its own one-row table;
* a line with a colon or three dashes counts as a delimiter row, so a cell such as `12:30` disappears;
* the line directly above the first table joins the block and is lost.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gravbench.metrics.table_html import normalize_html_table
from gravbench.omnidocbench.result_cache import Cache, digest_key
from gravbench.omnidocbench.text import is_broken_latex

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 60

MAX_MEMORY_BYTES = 2 * 1024 * 1024 * 1024

# LaTeXML reads any file it may: sources that name a command which reads or writes files are not converted.
# The template takes the same commands away, so that a name put together by TeX finds nothing either.
_FILE_COMMANDS = re.compile(
    r"\\(?:\w*input\w*|include|openin|openout|read|readline|write|bibliography|directlua)(?![A-Za-z])"
)
_TAKEN_AWAY = ("input", "include", "openin", "openout", "read", "readline", "write", "InputIfFileExists")
_TAKEN_AWAY_INTERNAL = ("@@input", "@input", "@iinput", "@include")
_TABLE_BODY = re.compile(r"<table\b[^>]*>(.*)</table>", re.DOTALL | re.IGNORECASE)
# The packages the official template loads, no others: a macro that none of them defines fails there as well.
_PACKAGES = (
    *("subcaption", "url", "graphicx", "caption", "multirow", "booktabs", "color", "colortbl", "xcolor"),
    *("soul", "framed", "fontspec", "amsmath", "amssymb", "mathtools", "bm", "mathrsfs", "textcomp"),
)
_TEMPLATE = "\n".join(
    (
        r"\documentclass[border=20pt]{article}",
        *(rf"\usepackage{{{name}}}" for name in _PACKAGES),
        r"\setlength{\parindent}{0pt}",
        "".join(rf"\let\{name}\relax" for name in _TAKEN_AWAY),
        r"\makeatletter" + "".join(rf"\let\{name}\relax" for name in _TAKEN_AWAY_INTERNAL) + r"\makeatother",
        r"\begin{document}",
        "%s",
        r"\end{document}",
        "",
    )
)


def latexml_available() -> bool:
    """Whether LaTeXML's converter is on the path."""
    return shutil.which("latexmlc") is not None


@dataclass(frozen=True, slots=True)
class Conversion:
    """HTML of a LaTeX table in normal form, or why there is none. `final`: another try gives the same."""

    html: str
    reason: str | None = None
    next_step: str = ""
    final: bool = True


MAX_KNOWN = 4096


class LatexTables:
    """Converts LaTeX tables and remembers them, with a folder also from run to run.

    Only HTML is kept on disk, named by the table, the template and the installed program.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._known: dict[str, Conversion] = {}
        self._disk = None if folder is None else Cache(folder)

    def convert(self, source: str) -> Conversion:
        """The table of a LaTeX `source` in normal form, or the reason why it counts as an empty table.

        Refused are more than 8,000 characters, unbalanced braces and badly nested environments (as
        officially), and commands that read or write files. What a missing program or a time limit prevents
        is tried again.
        """
        if source not in self._known:
            found = self._stored(source.strip())
            if not found.final:
                return found
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[source] = found
        return self._known[source]

    def html(self, source: str) -> str:
        """HTML of `convert`; empty without."""
        return self.convert(source).html

    def _stored(self, source: str) -> Conversion:
        program = shutil.which("latexmlc")
        if self._disk is None or program is None:
            return _convert(source)
        found = Path(program).resolve().stat()
        key = digest_key("latexml", f"{program} {found.st_size} {found.st_mtime_ns}", _TEMPLATE, source)
        if (content := self._disk.get(key)) is not None:
            return Conversion(content.decode())
        made = _convert(source)
        if made.html:
            self._disk.put(key, made.html.encode("utf-8", "replace"))
        return made


def _convert(source: str) -> Conversion:
    if is_broken_latex(source, table=True):
        return Conversion("", "longer than 8,000 characters, or braces or environments do not match")
    if found := _FILE_COMMANDS.search(source):
        return Conversion(
            "",
            f"{found[0]} can read or write files and is refused here; the official program runs it",
            "Remove the command from the prediction.",
        )
    if not latexml_available():
        return Conversion(
            "", "LaTeX tables need latexmlc, which is not installed", "apt-get install latexml", final=False
        )
    output = _run_latexml(_TEMPLATE % source)
    if output is None:
        return Conversion("", f"latexmlc ended without a result within {TIMEOUT_S} s", final=False)
    body = _TABLE_BODY.search(output)
    if body is None:
        return Conversion("", "LaTeXML finds no table in it")
    return Conversion(normalize_html_table(f"<table>{body.group(1)}</table>"))


def _run_latexml(document: str) -> str | None:
    """HTML that LaTeXML makes of `document`; `None` when it fails or exceeds a limit.

    The source is hostile by assumption: no shell, a scratch folder of its own for every file, no raw
    style files, and the whole process group ends at the time limit.
    """
    program = shutil.which("latexmlc") or "latexmlc"
    with tempfile.TemporaryDirectory(prefix="gravbench-latexml-") as scratch:
        folder = Path(scratch)
        (folder / "table.tex").write_text(document, encoding="utf-8", errors="replace")
        command = [program, "--quiet", "--quiet", "--nocomments", "--format=html5", "--nodefaultresources"]
        command += [f"--timeout={TIMEOUT_S}", "--log=table.log", "--dest=table.html", "table.tex"]
        if not _finishes(command, folder):
            return None
        output = folder / "table.html"
        if not output.is_file() or output.stat().st_size > MAX_OUTPUT_BYTES:
            return None
        return output.read_text(encoding="utf-8", errors="replace")


def _finishes(command: list[str], folder: Path) -> bool:
    """Run `command` in `folder` with nothing of the caller's environment but the path; False on timeout.

    LaTeXML removes every empty file of its temporary folder when it ends: it gets `folder` for one.
    """
    if limiter := shutil.which("prlimit"):
        command = [limiter, f"--as={MAX_MEMORY_BYTES}", f"--fsize={MAX_OUTPUT_BYTES}", "--core=0", *command]
    own = {name: str(folder) for name in ("HOME", "TMPDIR")}
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", **own}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(timeout=TIMEOUT_S + 5)
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return True


_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_FRAME_TAG = re.compile(r"</?t(?:able|head|body)>")


def pipe_rows(text: str) -> list[str]:
    """Every shortest "bar … bar, newline" piece of `text`, left to right; pieces may span lines."""
    return [text[start:end] for start, end in _row_spans(text)]


def convert_pipe_tables(text: str) -> str:
    """`text` with its pipe tables rewritten as HTML; a newline is appended and carriage returns go."""
    text = text.replace("\r", "") + "\n"
    pieces: list[str] = []
    done = 0
    for start, end in _row_spans(text):
        pieces += (text[done:start], _row_table(text[start:end]))
        done = end
    glued = _glue_tables("".join(pieces) + text[done:])
    return glued.replace("<table>", '<table border="1" >').replace("<td>", '<td colspan="1" rowspan="1">')


def _row_spans(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start = text.find("|")
    while start >= 0 and (bar := text.find("|\n", start + 1)) >= 0:
        spans.append((start, bar + 2))
        start = text.find("|", bar + 2)
    return spans


def _row_table(source: str) -> str:
    """One matched piece as a table: first line th, second line dropped, further lines td."""
    rows = [row.strip() for row in source.strip().split("\n")]
    lines = ["<table>", "  <thead>", "    <tr>"]
    lines += [f"      <th>{cell}</th>" for cell in _cells(rows[0])]
    lines += ["    </tr>", "  </thead>", "  <tbody>"]
    for row in rows[2:]:
        lines += ["    <tr>", *(f"      <td>{cell}</td>" for cell in _cells(row)), "    </tr>"]
    return "\n".join([*lines, "  </tbody>", "</table>", ""])


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def _looks_like_delimiter_row(line: str) -> bool:
    return ":" in line or "---" in line


def _glue_tables(text: str) -> str:
    """Join neighbouring tables: a scanner over lines that always handles the line before the current one."""
    output: list[str] = []
    block: list[str] = []
    inside = False
    previous = ""
    for line in text.split("\n"):
        if "<table>" in line:
            inside = True
            block.append(previous)
        elif inside:
            if not _looks_like_delimiter_row(previous) and "</thead>" not in previous:
                block += ("\n", previous)
            if "</table>" in previous:
                inside = False
                output.append(_merge_block("".join(block)))
                block = []
        else:
            output.append(previous)
        previous = line
    if previous:
        closing = inside or "</table>" in previous
        output.append(_merge_block("".join([*block, "\n", previous])) if closing else previous)
    return "\n".join(output)


def _merge_block(block: str) -> str:
    """All complete tables of a block as one table between blank lines; frames and tiny tables go."""
    block = _sub_closed(_COMMENT, block, closing="-->")
    kept: list[str] = []
    for table in _TABLE.findall(block[: block.rfind("</table>") + len("</table>")]):
        lines = [
            line.replace("<th>", "<td>").replace("</th>", "</td>") if "<th>" in line else line
            for line in table.split("\n")
        ]
        lines = [line for line in lines if not _FRAME_TAG.search(line)]
        if len(lines) > 2:
            kept += lines
    return "\n\n<table>\n" + "\n".join(kept) + "\n</table>\n\n"


def _sub_closed(pattern: re.Pattern[str], text: str, *, closing: str) -> str:
    """Delete `pattern`, looking no further than its last closing, so that open ends cost nothing."""
    end = text.rfind(closing) + len(closing)
    return pattern.sub("", text[:end]) + text[end:] if end >= len(closing) else text


_WHOLE = re.compile(r"(<table\b.*?</table>|\$\$.*?\$\$|\\\[.*?\\\])", re.DOTALL | re.IGNORECASE)


def with_html_tables(text: str) -> str:
    """A page with its pipe tables rewritten before anything else is found; HTML tables and formulas stay.

    The official order finds pipe tables last, and what follows a rewritten one has moved against the rest.
    """
    parts = _WHOLE.split(text)
    return "".join(part if n % 2 else convert_pipe_tables(part) for n, part in enumerate(parts))
