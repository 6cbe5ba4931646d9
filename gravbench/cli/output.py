"""Results on stdout: one JSON document, or tables no wider than 100 columns that read well without colour."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

WIDTH = 100


def print_json(document: bytes) -> None:
    """Write one JSON document and a newline to stdout, as UTF-8 whatever the locale."""
    sys.stdout.flush()
    sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
    sys.stdout.buffer.flush()


def print_tables(*parts: RenderableType) -> None:
    """Print tables and lines to stdout."""
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    for part in parts:
        console.print(part)
    sys.stdout.flush()
