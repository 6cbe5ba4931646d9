"""`present`, `absent` and `order`."""

from __future__ import annotations

from rapidfuzz import fuzz

from gravbench.olmocr.near_matches import near_matches
from gravbench.olmocr.page import PageText
from gravbench.olmocr.records import OrderTest, TextTest
from gravbench.olmocr.verdict import OverLimitError, Verdict, shorten

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
