"""LaTeX table -> table in normal form, by way of LaTeXML (OmniDocBench v1.6, section "LaTeX tables").

LaTeXML is a program of its own. Where it is absent every conversion gives the empty string, as a failed
one does; `latexml_available` tells the two apart so that a report can say which it was.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from gravbench.metrics.table_html import normalize_html_table
from gravbench.omnidocbench.text import braces_balanced, environments_balanced

MAX_SOURCE_CHARS = 8000
MAX_OUTPUT_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 60

MAX_MEMORY_BYTES = 2 * 1024 * 1024 * 1024

# LaTeXML reads any file it may: sources that could name one, or spell such a command, are not converted.
_REFUSED = re.compile(
    r"\\(?:input|include|openin|openout|read|write|immediate|usepackage|RequirePackage|documentclass|csname"
    r"|catcode|scantokens|\w*input\w*|directlua|special|bibliography|newread|newwrite)(?![A-Za-z])|\^\^"
)
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
        r"\begin{document}",
        "%s",
        r"\end{document}",
        "",
    )
)


def latexml_available() -> bool:
    """Whether LaTeXML's converter is on the path."""
    return shutil.which("latexmlc") is not None


@lru_cache(maxsize=4096)
def latex_to_html(source: str) -> str:
    """The table of a LaTeX `source` in normal form; empty when it is refused or cannot be converted.

    Refused: more than 8,000 characters, unbalanced braces, badly nested environments (as officially), and
    commands that read or write files.
    """
    source = source.strip()
    if len(source) > MAX_SOURCE_CHARS or not braces_balanced(source) or not environments_balanced(source):
        return ""
    if _REFUSED.search(source):
        return ""
    body = _TABLE_BODY.search(_run_latexml(_TEMPLATE % source))
    return normalize_html_table(f"<table>{body.group(1)}</table>") if body else ""


def _run_latexml(document: str) -> str:
    """HTML that LaTeXML makes of `document`; empty when it is absent, fails, or exceeds a limit.

    The source is hostile by assumption: no shell, a scratch folder of its own for every file, no raw
    style files, and the whole process group ends at the time limit.
    """
    program = shutil.which("latexmlc")
    if program is None:
        return ""
    with tempfile.TemporaryDirectory(prefix="gravbench-latexml-") as scratch:
        folder = Path(scratch)
        (folder / "table.tex").write_text(document, encoding="utf-8", errors="replace")
        command = [program, "--quiet", "--quiet", "--nocomments", "--format=html5", "--nodefaultresources"]
        command += [f"--timeout={TIMEOUT_S}", "--log=table.log", "--dest=table.html", "table.tex"]
        if not _finishes(command, folder):
            return ""
        output = folder / "table.html"
        if not output.is_file() or output.stat().st_size > MAX_OUTPUT_BYTES:
            return ""
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
