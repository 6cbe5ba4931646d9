"""A rendered equation (canonical MathML, boxes of its characters), and the file that keeps renderings."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import platformdirs
from lxml import etree
from lxml.etree import _Element

KATEX_VERSION = "0.16.21"
"""The version in `data/`; another one changes MathML and so verdicts."""
_SPACE_ONLY = re.compile("<mtext>([\u2002-\u200a\u205f\u2063]+)</mtext>")
_ANNOTATION = re.compile(r"<annotation\b.*</annotation>", re.DOTALL)
ZERO_WIDTH = "\u200b"
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ATTRIBUTE_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})


@dataclass(frozen=True, slots=True)
class Span:
    """Text of an innermost span (untrimmed), the centre and the width of its box in pixels."""

    text: str
    x: float
    y: float
    width: float


@dataclass(frozen=True, slots=True)
class Rendered:
    """An equation that KaTeX accepts. `mathml`: canonical content of `<semantics>`, white space included."""

    mathml: str
    spans: tuple[Span, ...]

    def to_record(self) -> dict[str, Any]:
        spans = [[span.text, span.x, span.y, span.width] for span in self.spans]
        return {"mathml": self.mathml, "spans": spans}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Rendered:
        return cls(record["mathml"], tuple(Span(*span) for span in record["spans"]))


@dataclass(frozen=True, slots=True)
class Rejected:
    """An equation without a rendering: KaTeX refuses it, or (`limit`) we do, by count."""

    reason: str
    limit: bool = False


Rendering = Rendered | Rejected


class Renderer(Protocol):
    """A way to render equations; `signature` names the tools and their versions."""

    @property
    def signature(self) -> str: ...

    def render(self, equations: Sequence[str]) -> list[Rendering]:
        """One rendering per equation, in order; raises UnscoredError if the tool is not here or breaks."""
        ...

    def close(self) -> None: ...


def semantics_of(markup: str) -> str:
    """Inner content of `<semantics>` in what `katex.renderToString` gives."""
    middle = markup.index('<span class="katex-html"')
    return markup[markup.index("<semantics>") + 11 : markup.rindex("</semantics>", 0, middle)]


def canonical_mathml(semantics: str) -> str:
    """Inner content of `<semantics>` without annotation: attributes sorted, empty elements closed.

    KaTeX's spaces stand bare in a browser's document and inside `<mtext>` in its text output; they are made
    bare.
    """
    inner = _SPACE_ONLY.sub(r"\1", _ANNOTATION.sub("", semantics))
    parts: list[str] = []
    root = etree.fromstring(f"<m>{inner}</m>", etree.XMLParser(huge_tree=True))
    _write_children(root, parts)
    return "".join(parts)


def _write_children(element: _Element, parts: list[str]) -> None:
    if element.text:
        parts.append(element.text.translate(_ESCAPES))
    for child in element:
        name = etree.QName(child).localname
        attributes = "".join(
            f' {key}="{value.translate(_ATTRIBUTE_ESCAPES)}"'
            for key, value in sorted((str(k), str(v)) for k, v in child.attrib.items())
        )
        if len(child) or child.text:
            parts.append(f"<{name}{attributes}>")
            _write_children(child, parts)
            parts.append(f"</{name}>")
        else:
            parts.append(f"<{name}{attributes}/>")
        if child.tail:
            parts.append(child.tail.translate(_ESCAPES))


BUSY_S = 5.0
"""How long another process' write is waited for; then this run goes without the cache."""
MAX_BYTES = 512 * 1024 * 1024
"""A larger file is begun anew."""
CHUNK = 500


def default_cache_file() -> Path:
    """Where renderings are kept unless told otherwise."""
    return Path(platformdirs.user_cache_dir("gravbench")) / "olmocr" / "equations.sqlite"


class CachedRenderer:
    """A renderer that looks into a file first. A file that cannot be used is left alone."""

    def __init__(self, renderer: Renderer, path: Path) -> None:
        self._renderer, self._path = renderer, path
        self._known_signature: str | None = None
        self.hits = 0

    @property
    def signature(self) -> str:
        if self._known_signature is None:
            self._known_signature = self._renderer.signature
        return self._known_signature

    def render(self, equations: Sequence[str]) -> list[Rendering]:
        found = self._look_up(equations)
        self.hits += len(found)
        lost = [equation for equation in dict.fromkeys(equations) if equation not in found]
        if lost:
            rendered = dict(zip(lost, self._renderer.render(lost), strict=True))
            self._keep(rendered)
            found.update(rendered)
        return [found[equation] for equation in equations]

    def close(self) -> None:
        self._renderer.close()

    def _key(self, equation: str) -> bytes:
        text = f"{self.signature}\0{equation}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def _look_up(self, equations: Sequence[str]) -> dict[str, Rendering]:
        keys = {self._key(equation): equation for equation in equations}
        found: dict[str, Rendering] = {}
        if not self._path.is_file():
            return found
        try:
            with self._open() as database:
                asked = list(keys)
                for start in range(0, len(asked), CHUNK):
                    part = asked[start : start + CHUNK]
                    marks = ",".join("?" * len(part))
                    query = f"SELECT key, value FROM renderings WHERE key IN ({marks})"
                    for key, value in database.execute(query, part):
                        found[keys[key]] = Rendered.from_record(json.loads(value))
        except (sqlite3.Error, OSError, ValueError, KeyError, TypeError):
            return {}
        return found

    def _keep(self, rendered: dict[str, Rendering]) -> None:
        rows = [
            (self._key(equation), json.dumps(rendering.to_record()))
            for equation, rendering in rendered.items()
            if not isinstance(rendering, Rejected)
        ]
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_file() and self._path.stat().st_size > MAX_BYTES:
                self._path.unlink()
            with self._open() as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS renderings (key BLOB PRIMARY KEY, value TEXT)")
                database.executemany("INSERT OR REPLACE INTO renderings VALUES (?, ?)", rows)
        except (sqlite3.Error, OSError, UnicodeEncodeError):
            return

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._path, timeout=BUSY_S)) as database:
            yield database
