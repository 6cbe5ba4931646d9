"""Every error a user can cause, each tied to one process exit code; and text made fit for messages.

A message names the file and field, the value seen, what was expected and the next step. `hint` is
that next step, kept apart so the command line can print it on a line of its own.
"""

from __future__ import annotations

import re


class GravbenchError(Exception):
    """Base of all expected failures; `exit_code` is what the process returns."""

    exit_code: int = 4

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def whole(self) -> str:
        """Message and hint as sentences, for records and lists of faults."""
        if not self.hint:
            return self.message
        return f"{self.message.rstrip('.')}. {self.hint[0].upper()}{self.hint[1:]}"


class VerificationError(GravbenchError):
    """A gate or a verification failed (exit 1)."""

    exit_code = 1


class UsageError(GravbenchError):
    """Unknown name, bad option, unusable output folder, resume with a different plan (exit 2)."""

    exit_code = 2


class NotComparableError(GravbenchError):
    """Missing, renamed or extra samples, other hashes, too many failed samples (exit 3)."""

    exit_code = 3


class EngineError(GravbenchError):
    """Checkpoint missing or broken, server, out of memory, disk full (exit 4)."""

    exit_code = 4


class DataError(GravbenchError):
    """Data missing or not of the schema (exit 5)."""

    exit_code = 5


class StoppedError(GravbenchError):
    """The user stopped the command (exit 130)."""

    exit_code = 130


_UNPRINTABLE = re.compile(
    "[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_CONTROLS = re.compile("[\u0000-\u001f\u007f-\u009f\ud800-\udfff]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")


def printable(text: str) -> str:
    r"""`text` with controls, direction marks and half surrogate pairs written out: `\x1b`, `\u202e`."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def has_controls(text: str) -> bool:
    """Whether `text` has control characters or half surrogate pairs; no file and no id needs them."""
    return _CONTROLS.search(text) is not None


def shortened(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters: whole sentences, else whole words and `...`."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    ends = [match.start() for match in _SENTENCE_END.finditer(line) if match.start() <= limit]
    if ends:
        return line[: ends[-1]]
    cut = line[: limit - 3]
    return (cut.rpartition(" ")[0] or cut) + "..."
