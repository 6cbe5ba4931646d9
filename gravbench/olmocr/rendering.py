"""A rendered equation, however it was rendered: canonical MathML and the boxes of its characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
    """An equation that KaTeX accepts. `mathml`.

    Canonical inner content of `<semantics>`, with its white space.
    """

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
