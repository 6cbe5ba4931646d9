"""Every error a user can cause, each tied to one process exit code.

A message names the file and field, the value seen, what was expected and the next step. `hint` is
that next step, kept apart so the command line can print it on a line of its own.
"""

from __future__ import annotations


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
