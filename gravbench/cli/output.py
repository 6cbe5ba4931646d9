"""Results on stdout: one JSON document, or tables no wider than 100 columns that read well without colour.

A reader that has gone (`| head`) ends the output, not the command: its exit code is its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType

from gravbench.cli.streams import forget_reader

WIDTH = 100


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Instead of rich's own, which leaves with exit code 1."""
        forget_reader()


def print_json(document: bytes) -> None:
    """Write one JSON document and a newline to stdout, as UTF-8 whatever the locale."""
    with _whoever_reads():
        sys.stdout.flush()
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()


def print_tables(*parts: RenderableType) -> None:
    """Print tables and lines to stdout."""
    console = _Console(file=sys.stdout, highlight=False, soft_wrap=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    with _whoever_reads():
        for part in parts:
            console.print(part)
        sys.stdout.flush()


@contextmanager
def _whoever_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        forget_reader()
