"""From argv to exit code: every failure is one `error:` line and, where there is one, one `hint:` line."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import typer

from gravbench.cli.app import build_app, verbs_needed
from gravbench.cli.output import forget_reader, prepare_streams, say_error
from gravbench.errors import GravbenchError

EXIT_USAGE = 2
EXIT_MACHINE = 4
EXIT_INTERRUPTED = 130


def run_command_line(arguments: Sequence[str]) -> int:
    """Run one command; returns the process exit code and lets no exception out."""
    debug = "--debug" in arguments
    prepare_streams()
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = build_app(verbs_needed(arguments, os.environ))(
            args=[a for a in arguments if a != "--debug"], prog_name="gravbench", standalone_mode=False
        )
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _interrupted(arguments)
    except BrokenPipeError:
        forget_reader()
        return 0
    except SystemExit as left:  # rich leaves with 1 when the reader of the help has gone
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        forget_reader()
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        return _failed(error, arguments)
    finally:
        signal.signal(signal.SIGTERM, before)
    if code == EXIT_INTERRUPTED:  # the parser catches Ctrl-C itself and returns this
        return _interrupted(arguments)
    return code if isinstance(code, int) else 0


def _failed(error: Exception, arguments: Sequence[str]) -> int:
    if isinstance(error, GravbenchError):
        say_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, typer.Abort):
        return _interrupted(arguments)
    if isinstance(error, typer.Exit):
        return error.exit_code
    if (
        type(error).__name__ == "NoArgsIsHelpError"
    ):  # a verb is missing, and the help that lists them is printed
        return EXIT_USAGE
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # the parser's own errors; their classes moved between typer versions
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "gravbench"
        say_error(format_message(), f"{command} --help lists what is possible.")
        return EXIT_USAGE
    if isinstance(error, MemoryError):
        say_error("out of memory", "Free memory, then repeat the same command.")
        return EXIT_MACHINE
    if isinstance(error, OSError) and error.filename is None and _is_full(error):
        say_error(f"output could not be written: {error.strerror}", "Free some space, or write elsewhere.")
        return EXIT_MACHINE
    if isinstance(error, OSError) and error.filename is not None:
        say_error(
            f"{_shown(error.filename)}: {error.strerror or error}",
            "Check the path and its permissions, then repeat the same command.",
        )
        return EXIT_MACHINE
    say_error(f"internal error: {type(error).__name__}: {error}", "Repeat with --debug for the traceback.")
    return EXIT_MACHINE


def _interrupted(arguments: Sequence[str]) -> int:
    from gravbench.store.rundir import again as as_again

    again = as_again(["gravbench", *arguments])
    resumes = "run" in arguments
    say_error("interrupted", f"continue with: {again}" if resumes else f"repeat with: {again}")
    return EXIT_INTERRUPTED


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _is_full(error: OSError) -> bool:
    import errno

    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _shown(path: object) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
