"""Equations in the system's Chromium, many in one page: the check mode for `katex`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html import unescape
from pathlib import Path

from lxml import etree

from gravbench.olmocr.katex import MAX_MARKUP_CHARS, refused, vendored
from gravbench.olmocr.rendering import (
    KATEX_VERSION,
    Rejected,
    Rendered,
    Rendering,
    Span,
    canonical_mathml,
    semantics_of,
)
from gravbench.olmocr.verdict import UnscoredError

NAMES = ("chromium", "chromium-browser", "google-chrome")
PAGE = 1000
"""Equations a page renders one after the other."""
PATIENCE_S = 300.0
"""A browser that has not answered for a page by then is ended, and the equations are unscored."""
FLAGS = (
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--window-size=800,400",
    "--dump-dom",
)
_PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><style>%(css)s
body { margin: 0 } .box { position: absolute; left: 0; top: 0; font-size: 24px }</style>
<script>%(katex)s</script></head><body><pre id="answers"></pre>
<script type="application/json" id="equations">%(equations)s</script>
<script>
const answers = JSON.parse(document.getElementById("equations").textContent).map((equation) => {
  const box = document.createElement("div");
  box.className = "box";
  try {
    const markup = katex.renderToString(equation, { displayMode: true, throwOnError: true });
    if (markup.length > %(limit)d) return { limit: markup.length };
    box.innerHTML = markup;
    document.body.appendChild(box);
    const spans = [];
    for (const span of box.querySelectorAll("span")) {
      if (span.children.length || !span.textContent.trim()) continue;
      const place = span.getBoundingClientRect();
      spans.push([span.textContent, place.x + place.width / 2, place.y + place.height / 2, place.width]);
    }
    return { markup, spans };
  } catch (error) {
    return { error: String(error && error.message || error).slice(0, 300) };
  } finally {
    box.remove();
  }
});
document.getElementById("answers").textContent = JSON.stringify(answers);
document.getElementById("equations").remove();
</script></body></html>
"""
_ANSWERS = re.compile(r'<pre id="answers">(.*?)</pre>', re.DOTALL)


def find_chromium() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class ChromiumRenderer:
    """One headless browser per page of equations, ended before the answer is given."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program or find_chromium()
        self._version: str | None = None

    @property
    def signature(self) -> str:
        return f"katex:{KATEX_VERSION};engine:{self._browser_version()};layout:browser"

    def _browser_version(self) -> str:
        if self._version is None:
            program = self._need()
            try:
                done = subprocess.run([program, "--version"], capture_output=True, timeout=60, check=True)
            except (OSError, subprocess.SubprocessError) as error:
                raise UnscoredError(f"{program} does not run: {error}") from error
            numbers = re.search(rb"\d+(\.\d+)+", done.stdout)
            self._version = f"chromium-{numbers.group().decode() if numbers else 'unknown'}"
        return self._version

    def _need(self) -> str:
        if self._program is None:
            raise UnscoredError(f"no Chromium on this machine (looked for {', '.join(NAMES)})")
        return self._program

    def render(self, equations: Sequence[str]) -> list[Rendering]:
        found: dict[str, Rendering] = {}
        asked = []
        for equation in dict.fromkeys(equations):
            if (limit := refused(equation)) is not None:
                found[equation] = limit
            else:
                asked.append(equation)
        for start in range(0, len(asked), PAGE):
            page = asked[start : start + PAGE]
            found.update(zip(page, self._render_page(page), strict=True))
        return [found[equation] for equation in equations]

    def _render_page(self, equations: Sequence[str]) -> list[Rendering]:
        escaped = json.dumps(equations).replace("<", "\\u003c")
        parts = {
            "css": vendored("katex.min.css"),
            "katex": vendored("katex.min.js"),
            "equations": escaped,
            "limit": MAX_MARKUP_CHARS,
        }
        with tempfile.TemporaryDirectory(prefix="gravbench-olmocr-") as folder:
            page = Path(folder) / "equations.html"
            page.write_text(_PAGE % parts, encoding="utf-8")
            answers = self._run(page, Path(folder) / "profile")
        if len(answers) != len(equations):
            raise UnscoredError(f"Chromium answered for {len(answers)} of {len(equations)} equations")
        return [_read(answer) for answer in answers]

    def _run(self, page: Path, profile: Path) -> list[dict[str, object]]:
        root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        command = [self._need(), *FLAGS, *root, f"--user-data-dir={profile}", page.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            raise UnscoredError(f"Chromium did not render: {error}") from error
        match = _ANSWERS.search(done.stdout.decode("utf-8", "replace"))
        try:
            answers = json.loads(unescape(match.group(1))) if match else None
        except ValueError:
            answers = None
        if not isinstance(answers, list):
            raise UnscoredError("Chromium gave no answer that can be read")
        return answers

    def close(self) -> None:
        """Nothing stays open between pages."""


def _read(answer: dict[str, object]) -> Rendering:
    if "error" in answer:
        return Rejected(str(answer["error"]))
    if "limit" in answer:
        return Rejected(f"{answer['limit']} characters of markup", limit=True)
    spans = answer["spans"]
    assert isinstance(spans, list)
    try:
        mathml = canonical_mathml(semantics_of(str(answer["markup"])))
    except (etree.XMLSyntaxError, RecursionError, ValueError) as error:
        return Rejected(f"markup cannot be read: {error}", limit=True)
    return Rendered(mathml, tuple(Span(*span) for span in spans))
