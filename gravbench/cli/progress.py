"""Progress on stderr: a bar with the remaining time on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gravbench.errors import printable

if TYPE_CHECKING:
    from gravbench.runner.session import Progress as ProgressProtocol

PLAIN_EVERY_S = 15.0


class NoProgress:
    """Says nothing."""

    def start(self, *, done: int, total: int) -> None: ...

    def advance(self) -> None: ...

    def note(self, message: str) -> None: ...

    def stop(self) -> None: ...


class PlainProgress:
    """A line at the start, at the end, and at most every `PLAIN_EVERY_S` seconds in between."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._done = self._total = self._first = 0
        self._started = self._last = 0.0

    def start(self, *, done: int, total: int) -> None:
        self._done = self._first = done
        self._total = total
        self._started = self._last = self._clock()
        self.note(f"{total - done} of {total} generations to do")

    def advance(self) -> None:
        self._done += 1
        now = self._clock()
        if self._done == self._total or now - self._last >= PLAIN_EVERY_S:
            self._last = now
            rate = (now - self._started) / (self._done - self._first)
            left = duration(rate * (self._total - self._done))
            self.note(f"{self._done}/{self._total} generations, about {left} left")

    def note(self, message: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody reads on; the work goes on
            print(f"gravbench: {printable(message)}", file=self._stream, flush=True)

    def stop(self) -> None: ...


class BarProgress:
    """A bar with count, elapsed and remaining time."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
        )
        self._task: TaskID | None = None

    def start(self, *, done: int, total: int) -> None:
        self._bar.start()
        self._task = self._bar.add_task("generating", completed=done, total=total)

    def advance(self) -> None:
        if self._task is not None:
            self._bar.advance(self._task)

    def note(self, message: str) -> None:
        self._bar.console.print(printable(message), markup=False, highlight=False)

    def stop(self) -> None:
        self._bar.stop()


def make_progress(*, quiet: bool) -> ProgressProtocol:
    """The progress that fits stderr."""
    if quiet:
        return NoProgress()
    console = Console(stderr=True)
    return BarProgress(console) if console.is_terminal else PlainProgress(sys.stderr)


def duration(seconds: float) -> str:
    """`48 s`, `3 min 12 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
