"""Standard streams a command can rely on, whatever it was started with."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO


def prepare_streams() -> None:
    """All three streams are there, and one that cannot show a character gets a substitute, not a crash.

    A stream closed by the caller (`>&-`) leads nowhere: its number would otherwise go to the next file that
    is opened, and what is printed would land among the records.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number
    sys.stdin = sys.stdin or _nowhere("r")
    sys.stdout = sys.stdout or _nowhere("w")
    sys.stderr = sys.stderr or _nowhere("w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def forget_reader() -> None:
    """The reader of our output closed it (`| head`): let nothing flush into it again."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _nowhere(mode: str) -> TextIO:
    return open(os.devnull, mode, encoding="utf-8")  # type: ignore[return-value]  # noqa: PTH123
