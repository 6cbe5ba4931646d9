"""LaTeX table -> table in normal form, by way of LaTeXML (OmniDocBench v1.6, section "LaTeX tables").

LaTeXML is a program of its own. A table that cannot be converted counts as empty, and says why.
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
    """Run `command` in `folder` with nothing of the caller's environment but the path; False on timeout."""
    if limiter := shutil.which("prlimit"):
        command = [limiter, f"--as={MAX_MEMORY_BYTES}", f"--fsize={MAX_OUTPUT_BYTES}", "--core=0", *command]
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LC_ALL": "C.UTF-8"}
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
