"""Equations to renderings: KaTeX in an embedded V8 with boxes by `layout`, and Chromium as the check."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import unescape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lxml import etree

from gravbench.olmocr.layout import lay_out, measured_advances
from gravbench.olmocr.page import OverLimitError, UnscoredError
from gravbench.olmocr.rendering import (
    KATEX_VERSION,
    CachedRenderer,
    Rejected,
    Rendered,
    Renderer,
    Rendering,
    Span,
    canonical_mathml,
    semantics_of,
)

if TYPE_CHECKING:
    from py_mini_racer import MiniRacer


LAYOUT_VERSION = 1
"""Raised when `layout` may give other boxes."""
MAX_EQUATION_CHARS = 20_000
"""Longer text between delimiters is refused, by count: KaTeX's own work grows faster than its input."""
MAX_MARKUP_CHARS = 8_000_000
"""Larger output (a macro may multiply) is refused, by count."""
BATCH = 200
ENGINE = "mini-racer"

Answer = dict[str, object]
"""What a script says of one equation: `error`, `limit`, or `markup` (and `spans` in a browser)."""

_RENDER_ALL = """
globalThis.renderAll = (equations) => JSON.stringify(JSON.parse(equations).map((equation) => {
  try {
    const markup = katex.renderToString(equation, { displayMode: true, throwOnError: true });
    return markup.length > %d ? { limit: markup.length } : { markup };
  } catch (error) {
    return { error: String(error && error.message || error).slice(0, 300) };
  }
}));
"""


def engine_missing() -> str | None:
    """Why equations cannot be rendered without a browser, or None."""
    try:
        version(ENGINE)
    except PackageNotFoundError:
        return f"the JavaScript engine {ENGINE} is not installed (pip install 'gravbench[olmocr]')"
    return None


def vendored(name: str) -> str:
    """A file of KaTeX that ships with the package."""
    return files("gravbench.olmocr").joinpath("data").joinpath(name).read_text(encoding="utf-8")


def _in_parts(
    equations: Sequence[str], size: int, render: Callable[[Sequence[str]], list[Rendering]]
) -> list[Rendering]:
    """One rendering per equation, in order; `render` is asked for `size` different ones at a time.

    Equations that are too long are refused and not asked for.
    """
    found: dict[str, Rendering] = {}
    asked = []
    for equation in dict.fromkeys(equations):
        if len(equation) > MAX_EQUATION_CHARS:
            found[equation] = Rejected(
                f"{len(equation)} characters, more than {MAX_EQUATION_CHARS}", limit=True
            )
        else:
            asked.append(equation)
    for start in range(0, len(asked), size):
        part = asked[start : start + size]
        found.update(zip(part, render(part), strict=True))
    return [found[equation] for equation in equations]


def _read(answer: Answer, boxes: Callable[[Answer], Iterable[Span]]) -> Rendering:
    """The rendering of what a script answered: an error of KaTeX, a limit, or markup with `boxes`."""
    if "error" in answer:
        return Rejected(str(answer["error"]))
    if "limit" in answer:
        return Rejected(f"{answer['limit']} characters of markup", limit=True)
    try:
        mathml = canonical_mathml(semantics_of(str(answer["markup"])))
        return Rendered(mathml, tuple(boxes(answer)))
    except OverLimitError as error:
        return Rejected(str(error), limit=True)
    except (etree.XMLSyntaxError, RecursionError, ValueError) as error:
        return Rejected(f"markup cannot be read: {error}", limit=True)


class KatexRenderer:
    """KaTeX in one V8 that starts with the first equation."""

    def __init__(self) -> None:
        self._engine: MiniRacer | None = None

    @property
    def signature(self) -> str:
        engine = "none" if engine_missing() else version(ENGINE)
        return f"katex:{KATEX_VERSION};engine:{ENGINE}-{engine};layout:{LAYOUT_VERSION}"

    def _start(self) -> MiniRacer:
        if self._engine is None:
            if missing := engine_missing():
                raise UnscoredError(missing)
            from py_mini_racer import MiniRacer

            self._engine = MiniRacer()
            self._engine.eval(vendored("katex.min.js"))
            self._engine.eval(_RENDER_ALL % MAX_MARKUP_CHARS)
        return self._engine

    def render(self, equations: Sequence[str]) -> list[Rendering]:
        return _in_parts(equations, BATCH, self._render_batch)

    def _render_batch(self, batch: Sequence[str]) -> list[Rendering]:
        engine = self._start()
        answer = engine.call("renderAll", json.dumps(batch))
        return [_read(item, _laid_out) for item in json.loads(str(answer))]

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _laid_out(answer: Answer) -> Iterator[Span]:
    """Boxes of the markup by `layout`."""
    markup = str(answer["markup"])
    middle = markup.index('<span class="katex-html"')
    end = len(markup) - len("</span></span>")
    html = etree.fromstring(markup[middle:end], etree.XMLParser(huge_tree=True))
    for leaf in lay_out(html, measured_advances()):
        yield Span(leaf.text, leaf.x, leaf.y, leaf.width)


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


def chromium_command(program: str, page: Path, *asked: str, profile: Path) -> list[str]:
    """A headless Chromium that opens `page`, does what is asked, and keeps nothing outside `profile`."""
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [program, *FLAGS, *asked, *root, f"--user-data-dir={profile}", page.as_uri()]


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
        return _in_parts(equations, PAGE, self._render_page)

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
        return [_read(answer, _seen) for answer in answers]

    def _run(self, page: Path, profile: Path) -> list[Answer]:
        asked = ("--window-size=800,400", "--dump-dom")
        command = chromium_command(self._need(), page, *asked, profile=profile)
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


def _seen(answer: Answer) -> Iterator[Span]:
    """Boxes as the browser measured them."""
    spans = answer["spans"]
    assert isinstance(spans, list)
    return (Span(*span) for span in spans)


def open_renderer(*, chromium: bool, cache: Path | None) -> Renderer:
    """The renderer of math tests; what it lacks shows when it is asked."""
    renderer: Renderer = ChromiumRenderer() if chromium else KatexRenderer()
    return CachedRenderer(renderer, cache) if cache is not None else renderer
