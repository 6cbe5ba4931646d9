"""Standard streams, and results on stdout: one JSON document, or tables of at most 100 columns.

A reader that has gone (`| head`) ends the output, not the command: its exit code is its own.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from gravbench.errors import UsageError, printable

if TYPE_CHECKING:
    from gravbench.reporting.tables import Cell
    from gravbench.reporting.tables import Table as Values

WIDTH = 100
"""Of tables, unless COLUMNS says otherwise."""
NARROWEST = 40


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Instead of rich's own, which leaves with exit code 1."""
        forget_reader()


_ASCII = str.maketrans({"–": "-", "×": "x", "→": ">", "−": "-", "≥": ">"})


def rich_table(given: Values, *, caption: bool = True, whole: Collection[int] = ()) -> Table:
    """A table of values in the terminal's form: no wide columns, plain letters; `whole` columns never fold.

    Words of heads are never broken, strategies at their options alone.
    """
    shown = [i for i in range(len(given.columns)) if i not in given.wide]
    title = given.caption.translate(_ASCII) if caption else None
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), title=title, title_justify="left")
    for i in shown:
        head = given.columns[i].translate(_ASCII)
        justify: JustifyMethod = "left" if i in given.left else "right"
        width = max(map(cell_len, head.split()), default=0)
        table.add_column(head, justify=justify, overflow="fold", min_width=width, no_wrap=i in whole)
    for row in given.rows:
        table.add_row(*(_terminal_cell(row[i]) for i in shown))
    return table


def _terminal_cell(cell: Cell) -> RenderableType:
    return ArmName(cell.text) if cell.is_arm else Text(cell.text.translate(_ASCII), style=cell.style)


def print_json(document: bytes) -> None:
    """Write one JSON document and a newline to stdout, as UTF-8 whatever the locale."""
    with _whoever_reads():
        sys.stdout.flush()
        sys.stdout.buffer.write(document.rstrip(b"\n") + b"\n")
        sys.stdout.buffer.flush()


def write_output(path: Path, content: bytes | None) -> None:
    """Write the file of --out whole or not at all. None only checks that the place can be written."""
    draft = path.with_name(path.name + ".part")
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        if content is None:
            draft.touch()
            draft.unlink()
        else:
            draft.write_bytes(content)
            draft.replace(path)
    except OSError as error:
        raise UsageError(
            f"--out {path}: cannot be written: {error.strerror or error}",
            hint="Name a file in an existing folder that you may write to.",
        ) from error


def print_line(text: str) -> None:
    """Write one line to stdout, never folded: for a script to read."""
    with _whoever_reads():
        print(printable(text), flush=True)


@dataclass(frozen=True)
class ArmName:
    """A strategy in a table cell: whole where there is room, else broken behind `:`, `,` and blanks alone.

    Arms differ at their ends, so a name is never cut.
    """

    name: str

    @property
    def parts(self) -> list[str]:
        return re.findall(r"[^:, ]*[:, ]|[^:, ]+$", self.name)

    def lines(self, width: int) -> list[str]:
        """The name in lines of at most `width`, but for parts that are longer by themselves."""
        found = [""]
        for part in self.parts:
            if found[-1] and cell_len(found[-1] + part.rstrip()) > width:
                found.append("")
            found[-1] += part
        return [line.rstrip() for line in found]

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        longest = max((cell_len(part.rstrip()) for part in self.parts), default=0)
        return Measurement(longest, cell_len(self.name)).with_maximum(options.max_width)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(self.lines(options.max_width)), overflow="fold")


@dataclass(frozen=True)
class _Harmless:
    """A part whose text has no power over the terminal; only its styles have."""

    part: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.part, options):
            lines = segment.text.split("\n")
            yield Segment("\n".join(map(printable, lines)), segment.style, segment.control)


def print_tables(*parts: RenderableType) -> None:
    """Print tables and lines to stdout."""
    console = _Console(file=sys.stdout, highlight=False, soft_wrap=False)
    asked = os.environ.get("COLUMNS", "")
    if not (asked.isascii() and asked.isdigit() and int(asked) >= NARROWEST):
        console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    with _whoever_reads():
        for part in parts:
            console.print(_Harmless(part))
        sys.stdout.flush()


@contextmanager
def _whoever_reads() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        forget_reader()


def command_of(context: Any, *, without: Collection[str] = ()) -> str:
    """The command that the parser read, as a shell takes it: options first, each by its longest name.

    What was not given is left out, as are parameters named in `without`.
    """
    options: list[str] = []
    arguments: list[str] = []
    for parameter in context.command.params:
        source, value = context.get_parameter_source(parameter.name), context.params.get(parameter.name)
        if source is None or source.name != "COMMANDLINE" or parameter.name in without:
            continue
        values = value if isinstance(value, list | tuple) else [value]
        if parameter.param_type_name == "argument":
            arguments += map(str, values)
        elif isinstance(value, bool):
            options.append(max(parameter.opts if value else parameter.secondary_opts, key=len))
        else:
            options += [word for one in values for word in (max(parameter.opts, key=len), str(one))]
    if any(word.startswith("-") for word in arguments):
        arguments.insert(0, "--")
    return shlex.join([*context.command_path.split(), *options, *arguments])


def say_error(message: str, hint: str | None) -> None:
    """Print one error line and, if there is one, one hint line to stderr; red on a colour terminal."""
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    label = "\x1b[1;31merror:\x1b[0m" if colour else "error:"
    with contextlib.suppress(OSError):
        print(f"{label} {_one_line(message)}", file=sys.stderr)
        if hint:
            print(f"hint: {_one_line(hint)}", file=sys.stderr)
        sys.stderr.flush()


def say_warning(message: str) -> None:
    """Print one warning line to stderr."""
    with contextlib.suppress(OSError):
        print(f"warning: {_one_line(message)}", file=sys.stderr, flush=True)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


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


def flush_or_forget() -> None:
    """Flush both streams for the last time; one whose reader has gone leads nowhere from now on.

    Otherwise the interpreter flushes it at its end, fails, and puts 120 in the place of our exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _nowhere(mode: str) -> TextIO:
    stream = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - lives as long as the process
    atexit.register(stream.close)
    return stream  # type: ignore[return-value]
