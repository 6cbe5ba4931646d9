"""`format` and `footnote`, which only the newer rules know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from gravbench.olmocr.page import PageText
from gravbench.olmocr.records import FootnoteTest, FormatTest
from gravbench.olmocr.rules import normalize
from gravbench.olmocr.text_tests import partial_ratio, threshold_of
from gravbench.olmocr.verdict import OverLimitError, Verdict, shorten

MAX_PIECES = 200_000
"""Formatted pieces, or footnote markers, that are looked at on one page."""
REACH = 200
"""Characters in front of and behind a footnote marker that are read."""

_SUP = re.compile("<sup", re.IGNORECASE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)$", re.MULTILINE)
_TAGS = {"heading": ("h[1-6]",), "bold": ("b", "strong"), "italic": ("i", "em")}
_MARKS = {"heading": (), "bold": ("**", "__"), "italic": ("*", "_")}
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _between_doubles(raw: str, mark: str) -> Iterator[str]:
    """Shortest pieces between double marks, over lines."""
    position = 0
    while (start := raw.find(mark, position)) >= 0:
        end = raw.find(mark, start + 2)
        if end < 0:
            return
        yield raw[start + 2 : end]
        position = end + 2


def _between_singles(raw: str, mark: str) -> Iterator[str]:
    """Pieces between single marks that do not touch another one."""
    alone = re.compile(rf"(?<!{re.escape(mark)}){re.escape(mark)}(?!{re.escape(mark)})")
    start: int | None = None
    for match in alone.finditer(raw):
        if start is None:
            start = match.end()
        else:
            yield raw[start : match.start()]
            start = None


def _between_tags(raw: str, name: str) -> Iterator[str]:
    """Shortest contents of elements. The opening tag is any text that begins with the name, as officially."""
    opening = re.compile(rf"<{name}[^>]*>", re.IGNORECASE)
    closing = re.compile(rf"</{name}>", re.IGNORECASE)
    position = 0
    last = raw.rfind(">")
    while position <= last and (start := opening.search(raw, position, last + 1)):
        end = closing.search(raw, start.end())
        if end is None:
            return
        yield raw[start.end() : end.start()]
        position = end.end()


def formatted_pieces(raw: str, kind: str) -> Iterator[str]:
    """Raw texts of a page that are headings, bold or italic, by Markdown and by HTML."""
    if kind == "heading":
        yield from (match.group(1) for match in _HEADING.finditer(raw))
    for mark in _MARKS[kind]:
        yield from _between_singles(raw, mark) if len(mark) == 1 else _between_doubles(raw, mark)
    for name in _TAGS[kind]:
        yield from _between_tags(raw, name)


def run_format(test: FormatTest, page: PageText) -> Verdict:
    """The text is within a piece of that format."""
    query = test.text if test.case_sensitive else test.text.lower()
    threshold = threshold_of(test.max_diffs, len(query))
    best, nearest = 0.0, ""
    for number, piece in enumerate(formatted_pieces(page.raw, test.format)):
        if number >= MAX_PIECES:
            raise OverLimitError(f"more than {MAX_PIECES} pieces of format {test.format}")
        text = normalize(piece, page.rules)
        ratio = partial_ratio(query, text if test.case_sensitive else text.lower())
        if ratio >= threshold:
            return Verdict(True, facts={"ratio": ratio, "threshold": threshold})
        if ratio > best:
            best, nearest = ratio, text
    detail = f"{shorten(query)} not found as {test.format}; nearest {shorten(nearest)} has {best:.4f}"
    return Verdict(False, "below-threshold", detail, {"ratio": best, "threshold": threshold})


def _superscript_tags(raw: str, marker: str) -> Iterator[tuple[int, int]]:
    """`<sup ...>marker</sup>` in any case; looked for from its end, so that unclosed tags cost nothing."""
    taken = 0
    for match in re.finditer(rf">{re.escape(marker)}</sup>", raw, re.IGNORECASE):
        first = max(taken, raw.rfind(">", 0, match.start()) + 1)
        opening = _SUP.search(raw, first, match.start())
        if opening:
            taken = match.end()
            yield opening.start(), taken


def marker_spans(raw: str, marker: str) -> list[tuple[int, int]]:
    """Places of a footnote marker: `[^m]` (not a definition), `<sup>m</sup>`, superscript digits."""
    found: list[Iterator[tuple[int, int]]] = [
        (match.span() for match in re.finditer(rf"\[\^{re.escape(marker)}\](?!:)", raw)),
        _superscript_tags(raw, marker),
    ]
    if all(character in "0123456789" for character in marker):
        raised = re.escape(marker.translate(_SUPERSCRIPT))
        found.append(match.span() for match in re.finditer(raised, raw))
    spans = list(islice(chain.from_iterable(found), MAX_PIECES + 1))
    if len(spans) > MAX_PIECES:
        raise OverLimitError(f"more than {MAX_PIECES} footnote markers {shorten(marker)}")
    return spans


def _clean(text: str, page: PageText) -> str:
    return "".join(filter(str.isalnum, normalize(text, page.rules))).lower()


def _beside(expected: str, test: FootnoteTest, page: PageText, texts: list[str], *, before: bool) -> bool:
    """The expected text is among the nearest letters and digits, twice its length."""
    target = _clean(expected, page)
    threshold = threshold_of(test.max_diffs, len(expected))
    for text in texts:
        clean = _clean(text, page)
        if not clean:
            continue
        length = min(len(clean), 2 * len(target))
        if length:
            clean = clean[-length:] if before else clean[:length]
        if partial_ratio(target, clean) >= threshold:
            return True
    return False


def run_footnote(test: FootnoteTest, page: PageText) -> Verdict:
    """The marker is there, and where asked, one with that text before and one with that text after it."""
    spans = marker_spans(page.raw, test.marker)
    if not spans:
        return Verdict(False, "no-marker", f"marker {shorten(test.marker)} not found")
    lost = []
    if test.appears_before_marker:
        texts = [page.raw[max(0, start - REACH) : start] for start, _ in spans]
        if not _beside(test.appears_before_marker, test, page, texts, before=True):
            lost.append(f"{shorten(test.appears_before_marker)} not found before it")
    if test.appears_after_marker:
        texts = [page.raw[end : end + REACH] for _, end in spans]
        if not _beside(test.appears_after_marker, test, page, texts, before=False):
            lost.append(f"{shorten(test.appears_after_marker)} not found after it")
    if lost:
        return Verdict(False, "marker-text", f"marker {shorten(test.marker)}: {'; '.join(lost)}")
    return Verdict(True)
