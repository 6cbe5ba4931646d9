"""Equations without a browser: KaTeX in an embedded V8, boxes by `layout`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import TYPE_CHECKING

from lxml import etree

from gravbench.olmocr.layout import lay_out, measured_advances
from gravbench.olmocr.rendering import (
    KATEX_VERSION,
    Rejected,
    Rendered,
    Rendering,
    Span,
    canonical_mathml,
    semantics_of,
)
from gravbench.olmocr.verdict import OverLimitError, UnscoredError

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


def refused(equation: str) -> Rejected | None:
    """Equations that no renderer is asked for."""
    if len(equation) <= MAX_EQUATION_CHARS:
        return None
    return Rejected(f"{len(equation)} characters, more than {MAX_EQUATION_CHARS}", limit=True)


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
        found: dict[str, Rendering] = {}
        asked = []
        for equation in dict.fromkeys(equations):
            if (limit := refused(equation)) is not None:
                found[equation] = limit
            else:
                asked.append(equation)
        for start in range(0, len(asked), BATCH):
            batch = asked[start : start + BATCH]
            found.update(zip(batch, self._render_batch(batch), strict=True))
        return [found[equation] for equation in equations]

    def _render_batch(self, batch: Sequence[str]) -> list[Rendering]:
        engine = self._start()
        answer = engine.call("renderAll", json.dumps(batch))
        return [_read(item) for item in json.loads(str(answer))]

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _read(answer: dict[str, str]) -> Rendering:
    if "error" in answer:
        return Rejected(answer["error"])
    if "limit" in answer:
        return Rejected(f"{answer['limit']} characters of markup", limit=True)
    try:
        return read_markup(answer["markup"])
    except OverLimitError as error:
        return Rejected(str(error), limit=True)
    except (etree.XMLSyntaxError, RecursionError, ValueError) as error:
        return Rejected(f"markup cannot be read: {error}", limit=True)


def read_markup(markup: str) -> Rendered:
    """What `katex.renderToString` gives, with boxes."""
    middle = markup.index('<span class="katex-html"')
    end = len(markup) - len("</span></span>")
    html = etree.fromstring(markup[middle:end], etree.XMLParser(huge_tree=True))
    leaves = lay_out(html, measured_advances())
    spans = tuple(Span(leaf.text, leaf.x, leaf.y, leaf.width) for leaf in leaves)
    return Rendered(canonical_mathml(semantics_of(markup)), spans)
