"""The two states of the official rules, their text normalisation, and what a test says about one page."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from typing import Any

from gravbench.errors import DataError


class Rules(StrEnum):
    """Which state of the official program is followed; part of every signature."""

    RELEASE = "0.4.27"
    MAIN = "main-2026-03-25"


LIBRARIES = ("rapidfuzz", "beautifulsoup4", "lxml", "numpy")
"""Other people's code that verdicts rest on."""


def library_versions() -> dict[str, str]:
    """Library -> version of it on this machine; part of every signature."""
    return {name: version(name) for name in LIBRARIES}


_BREAK = re.compile(r"<br/?>")
_SPACES = re.compile(r"\s+")
_BOLD_STARS = re.compile(r"\*\*(.*?)\*\*")
_BOLD_BARS = re.compile(r"__(.*?)__")
_BOLD_TAG = re.compile(r"</?b>")
_ITALIC_TAG = re.compile(r"</?i>")
_ITALIC_STARS = re.compile(r"\*(.*?)\*")
_ITALIC_BARS = re.compile(r"_(.*?)_")
_BOLD_EITHER = re.compile(r"(\*\*|__)(.*?)\1")
_ITALIC_EITHER = re.compile(r"(\*|_)(.*?)\1")
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a", "'"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        "\uff3f": "_",
        **dict.fromkeys("\u2011\u2012\u2013\u2014\u2212", "-"),
        "\u00b5": "\u03bc",
    }
)


def normalize(text: str, rules: Rules) -> str:
    """Test texts, pages and table cells as they are compared. Not trimmed.

    The newer state pairs emphasis marks line by line, the release after white space has been joined.
    """
    text = _BREAK.sub(" ", text)
    if rules is Rules.RELEASE:
        text = _SPACES.sub(" ", text)
    if "*" in text or "_" in text or "<" in text:
        text = _BOLD_STARS.sub(r"\1", text)
        text = _BOLD_BARS.sub(r"\1", text)
        text = _ITALIC_TAG.sub("", _BOLD_TAG.sub("", text))
        if rules is Rules.RELEASE:
            text = _ITALIC_STARS.sub(r"\1", text)
            text = _ITALIC_BARS.sub(r"\1", text)
        else:
            text = _BOLD_EITHER.sub(r"\2", text)
            text = _ITALIC_EITHER.sub(r"\2", text)
    if rules is Rules.MAIN:
        text = _SPACES.sub(" ", text)
    return unicodedata.normalize("NFC", text).translate(_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Passed or not.

    `why` is a short code of a failure, `detail` a sentence for people, `facts` numbers behind it.
    """

    passed: bool
    why: str | None = None
    detail: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def shorten(text: str, most: int = 60) -> str:
    """A text for a sentence: quoted, cut in the middle of nowhere but not silently."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


class TestRecordError(DataError):
    """A test that the official program refuses to load; `official` is the exception it raises."""

    __test__ = False

    def __init__(self, message: str, *, official: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.official = official


class PageError(Exception):
    """The official program throws on this page, which fails the whole candidate there."""

    def __init__(self, official: str, detail: str) -> None:
        super().__init__(f"{official}: {detail}")
        self.official = official
        self.detail = detail


class OverLimitError(Exception):
    """The input asks for more steps than we give; the official program has no bound at all."""


class UnscoredError(Exception):
    """A tool that the test needs is not here."""
