"""Tests of a page's text: `present`, `absent`, `order`, `format`, `footnote` and `baseline`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice

from rapidfuzz import fuzz

from gravbench.olmocr.near_matches import near_matches
from gravbench.olmocr.page import OverLimitError, PageText, Verdict, normalize, shorten
from gravbench.olmocr.records import BaselineTest, FootnoteTest, FormatTest, OrderTest, TextTest

MAX_WORK = 2_000_000_000
"""Characters of the query times characters of the page, for one alignment."""


def partial_ratio(query: str, text: str) -> float:
    """Best alignment of the shorter in the longer text, 0 to 1: rapidfuzz's, its search included."""
    if len(query) * len(text) > MAX_WORK:
        raise OverLimitError(f"{len(query)} characters are looked for among {len(text)}")
    return fuzz.partial_ratio(query, text) / 100.0


def threshold_of(max_diffs: int, length: int) -> float:
    """Least ratio that passes; compared without tolerance, as officially."""
    return 1.0 - (max_diffs / (length if length > 0 else 1))


def window(text: str, first_n: int | None, last_n: int | None) -> str:
    """The first and last characters, joined without a gap; 0 and None are no limit."""
    if first_n and last_n:
        return text[:first_n] + text[-last_n:]
    if first_n:
        return text[:first_n]
    return text[-last_n:] if last_n else text


def best_place(query: str, text: str) -> str:
    """The part of the text that the ratio is about, for people."""
    found = fuzz.partial_ratio_alignment(query, text)
    if found is None or not text:
        return "nothing"
    if len(query) > len(text):  # a short page is looked for in the query
        return shorten(text)
    return shorten(text[found.dest_start : found.dest_end])


def run_text(test: TextTest, page: PageText) -> Verdict:
    """`present` passes at the threshold, `absent` below it."""
    query = test.text if test.case_sensitive else test.text.lower()
    text = window(page.text if test.case_sensitive else page.lower_text, test.first_n, test.last_n)
    threshold = threshold_of(test.max_diffs, len(query))
    ratio = partial_ratio(query, text)
    facts = {"ratio": ratio, "threshold": threshold}
    found = ratio >= threshold
    if found == (test.type == "present"):
        return Verdict(True, facts=facts)
    nearest = f"{best_place(query, text)} has {ratio:.4f}, threshold {threshold:.4f}"
    if test.type == "present":
        return Verdict(False, "below-threshold", f"{shorten(query)} not found; nearest {nearest}", facts)
    return Verdict(False, "found", f"{shorten(query)} should be absent; {nearest}", facts)


def run_order(test: OrderTest, page: PageText) -> Verdict:
    """Some near match of `before` starts in front of one of `after`."""
    before = near_matches(test.before, page.text, test.max_diffs)
    after = near_matches(test.after, page.text, test.max_diffs)
    facts = {
        name: [[match.start, match.end, match.distance] for match in found]
        for name, found in (("before", before), ("after", after))
    }
    for name, text, found in (("before", test.before, before), ("after", test.after, after)):
        if not found:
            detail = f"{name} {shorten(text)} not found within {test.max_diffs} differences"
            return Verdict(False, f"{name}-missing", detail, facts)
    if before[0].start < after[-1].start:
        return Verdict(True, facts=facts)
    places = f"first at {before[0].start}, {shorten(test.after)} last at {after[-1].start}"
    return Verdict(False, "wrong-order", f"{shorten(test.before)} {places}", facts)


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


MAX_UNIT = 5
"""Longest repeated unit that is looked for, characters."""
_SPACES = re.compile(r"\s+")
_DISALLOWED = re.compile(
    "[\u4e00-\u9fff\u3040-\u309f\u30a0-\u30ff"
    "\U0001f600-\U0001f64f\U0001f300-\U0001f5ff\U0001f680-\U0001f6ff\U0001f1e0-\U0001f1ff]"
)
"""CJK ideographs, kana, and four blocks of pictographs."""


def without_images(text: str) -> str:
    """The text less `![...](...)`, shortest, within a line."""
    return "\n".join(_line_without_images(line) if "![" in line else line for line in text.split("\n"))


def _line_without_images(line: str) -> str:
    kept = []
    position = 0
    while (start := line.find("![", position)) >= 0:
        middle = line.find("](", start + 2)
        end = line.find(")", middle + 2) if middle >= 0 else -1
        if end < 0:  # then no later image in this line is complete
            break
        kept.append(line[position:start])
        position = end + 1
    kept.append(line[position:])
    return "".join(kept)


def alphanumerics(text: str) -> int:
    """Characters for which `str.isalnum` holds."""
    return sum(map(str.isalnum, text))


def end_repeats(text: str) -> list[int]:
    """How often the last 1..5 characters stand back to back at the end, white-space runs being one blank.

    0 where the text is shorter than the unit.
    """
    text = _SPACES.sub(" ", text)
    counts = []
    for size in range(1, MAX_UNIT + 1):
        if len(text) < size:
            counts.append(0)
            continue
        counts.append(_times_at_end(text, text[-size:]))
    return counts


def _times_at_end(text: str, unit: str) -> int:
    """Largest n for which the text ends with n units: doubled, then halved, so long runs cost little."""
    most = 1
    while text.endswith(unit * (2 * most)):
        most *= 2
    step = most
    while step > 1:
        step //= 2
        if text.endswith(unit * (most + step)):
            most += step
    return most


def run_baseline(test: BaselineTest, page: PageText) -> Verdict:
    """A blank-page test checks its length and nothing else."""
    if test.max_length is not None:
        raw = without_images(page.raw) if test.max_length_skips_image_alt_tags else page.raw
        count = alphanumerics(raw)
        if count <= test.max_length:
            return Verdict(True)
        return Verdict(False, "not-blank", f"{count} letters and digits, at most {test.max_length} expected")
    if not any(map(str.isalnum, page.raw)):
        return Verdict(False, "no-alphanumeric", "no letter or digit on the page")
    for size, count in enumerate(end_repeats(page.raw), start=1):
        if count > test.max_repeats:
            detail = f"the last {size} characters stand {count} times at the end, limit {test.max_repeats}"
            return Verdict(False, "repeats", detail)
    if test.check_disallowed_characters and (found := _DISALLOWED.findall(page.raw)):
        shown = " ".join(f"U+{ord(character):04X}" for character in dict.fromkeys(found[:1000]))
        return Verdict(False, "disallowed-characters", f"{len(found)} characters such as {shown[:80]}")
    return Verdict(True)
