"""`baseline`: blank pages, endless repetition, characters of other scripts."""

from __future__ import annotations

import re

from gravbench.olmocr.page import PageText
from gravbench.olmocr.records import BaselineTest
from gravbench.olmocr.verdict import Verdict

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
