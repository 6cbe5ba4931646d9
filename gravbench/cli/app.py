"""The command line: every verb by its name. Verbs import their bodies when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gravbench.cli import olmocr_command, omnidoc_command, verbs, verdict_verbs
from gravbench.cli.run_options import takes_run_options
from gravbench.resources import __version__

VERBS: dict[str, Callable[..., int | None]] = {
    "run": takes_run_options(verbs.run),
    "score": verbs.score,
    "status": verdict_verbs.status,
    "compare": verdict_verbs.compare,
    "gate": verdict_verbs.gate,
    "bless": verdict_verbs.bless,
    "report": verdict_verbs.report,
    "sweep": takes_run_options(verbs.sweep, alone=False),
    "export": verbs.export,
    "doctor": verbs.doctor,
    "train": verbs.train,
    "omnidoc": omnidoc_command.omnidoc,
    "olmocr": olmocr_command.olmocr,
    "verify-scorer": omnidoc_command.verify_scorer,
}
SUITES_VERBS: dict[str, Callable[..., int]] = {
    "list": verbs.suites_list,
    "show": verbs.suites_show,
    "verify": verbs.suites_verify,
    "fetch": verbs.suites_fetch,
    "make": verbs.suites_make,
}


def build_app() -> typer.Typer:
    """The application with all its verbs."""
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
    for name, verb in VERBS.items():
        app.command(name, cls=_Command)(verb)
    suites = typer.Typer(cls=_Group, help="What there is to evaluate.", no_args_is_help=True)
    for name, verb in SUITES_VERBS.items():
        suites.command(name, cls=_Command)(verb)
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


class _Command(_Flags, TyperCommand): ...


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
