"""What a test says about one page, or raises instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gravbench.errors import DataError


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
