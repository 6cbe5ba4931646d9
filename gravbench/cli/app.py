"""The command line: every verb by its name, and from argv to exit code.

Verbs import their bodies when they run. A failure is one `error:` line and at most one `hint:` line.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gravbench.cli.output import command_of, forget_reader, prepare_streams, say_error
from gravbench.errors import GravbenchError, StoppedError
from gravbench.resources import __version__

VERBS = {
    "run": "verbs:Run",
    "merge": "verbs:Merge",
    "score": "verbs:Score",
    "status": "verdict_verbs:Status",
    "compare": "verdict_verbs:Compare",
    "audit": "verdict_verbs:Audit",
    "gate": "verdict_verbs:Gate",
    "bless": "verdict_verbs:Bless",
    "report": "verdict_verbs:Report",
    "sweep": "verbs:Sweep",
    "export": "verbs:Export",
    "import": "verbs:Import",
    "doctor": "verbs:Doctor",
    "tune": "verbs:Tune",
    "train": "verbs:Train",
    "omnidoc": "omnidoc_command:omnidoc",
    "olmocr": "olmocr_command:olmocr",
    "verify-scorer": "omnidoc_command:verify_scorer",
}
"""Verb -> module of this package and declaration or function. Only that of the verb that runs is imported."""
SUITES_VERBS = {
    "list": "verbs:SuitesList",
    "show": "verbs:SuitesShow",
    "verify": "verbs:SuitesVerify",
    "fetch": "verbs:SuitesFetch",
    "make": "verbs:SuitesMake",
}


def load_verb(place: str) -> Callable[..., int]:
    """The function of a verb, made from its declaration where it has one."""
    module, name = place.split(":")
    verb: Any = getattr(import_module(f"gravbench.cli.{module}"), name)
    if isinstance(verb, type):
        from gravbench.cli.parameters import as_command

        return as_command(verb)
    found: Callable[..., int] = verb
    return found


def verbs_needed(arguments: Sequence[str], environment: Mapping[str, str]) -> set[str] | None:
    """Verbs that these arguments may call; None: all of them, as the help and completion need."""
    if "_GRAVBENCH_COMPLETE" in environment:
        return None
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    if first in VERBS or first == "suites":
        return {first}
    return set() if first is None and "--version" in arguments else None


def build_app(needed: set[str] | None = None) -> typer.Typer:
    """The application with the verbs that are needed; None: with all."""
    app = typer.Typer(
        name="gravbench",
        cls=_Group,
        help="Measure self-speculative document OCR: quality, acceptance and speed against plain "
        "AR decoding.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_global)
    for name, place in VERBS.items():
        if needed is None or name in needed:
            app.command(name, cls=_Command)(load_verb(place))
    if needed is None or "suites" in needed:
        suites = typer.Typer(cls=_Group, help="What there is to evaluate.", no_args_is_help=True)
        for name, place in SUITES_VERBS.items():
            suites.command(name, cls=_Command)(load_verb(place))
        app.add_typer(suites, name="suites")
    return app


class _Flags:
    """A flag takes no value, so the help names no type beside it."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found


class _Command(_Flags, TyperCommand):
    def invoke(self, ctx: Any) -> Any:
        """Run the verb; `StoppedError` with the command that goes on, where it goes on, or begins again."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            again = "continue" if "fresh" in ctx.params else "repeat"
            command = command_of(ctx, without=("fresh",))
            raise StoppedError("interrupted", hint=f"{again} with: {command}") from None


class _Group(_Flags, TyperGroup): ...


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"gravbench {__version__}")
        raise typer.Exit


def _global(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Taken before any verb; `--debug` is handled where errors are printed."""
    del version, debug


EXIT_USAGE = 2
EXIT_MACHINE = 4


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
        return _failed(STOPPED)
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
        return _failed(error)
    finally:
        signal.signal(signal.SIGTERM, before)
    if code == StoppedError.exit_code:  # the parser catches Ctrl-C itself and returns this
        return _failed(STOPPED)
    return code if isinstance(code, int) else 0


STOPPED = StoppedError("interrupted", hint="Repeat the same command.")
"""Before the verb ran."""


def _failed(error: Exception) -> int:
    if isinstance(error, GravbenchError):
        say_error(error.message, error.hint)
        return error.exit_code
    if isinstance(error, typer.Abort):
        return _failed(STOPPED)
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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _is_full(error: OSError) -> bool:
    import errno

    return error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def _shown(path: object) -> str:
    return os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else str(path)
