"""The command line: every verb by its name. Verbs import their bodies when they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gravbench.resources import __version__

VERBS = {
    "run": "verbs:run",
    "score": "verbs:score",
    "status": "verdict_verbs:status",
    "compare": "verdict_verbs:compare",
    "gate": "verdict_verbs:gate",
    "bless": "verdict_verbs:bless",
    "report": "verdict_verbs:report",
    "sweep": "verbs:sweep",
    "export": "verbs:export",
    "doctor": "verbs:doctor",
    "train": "verbs:train",
    "omnidoc": "omnidoc_command:omnidoc",
    "olmocr": "olmocr_command:olmocr",
    "verify-scorer": "omnidoc_command:verify_scorer",
}
"""Verb -> module of this package and function. Only the module of the verb that runs is imported."""
SUITES_VERBS = {
    "list": "verbs:suites_list",
    "show": "verbs:suites_show",
    "verify": "verbs:suites_verify",
    "fetch": "verbs:suites_fetch",
    "make": "verbs:suites_make",
}


def load_verb(place: str) -> Callable[..., int]:
    """The function of a verb, the options of a run among its parameters where it takes them."""
    module, name = place.split(":")
    verb: Callable[..., int] = getattr(import_module(f"gravbench.cli.{module}"), name)
    if name not in ("run", "sweep"):
        return verb
    from gravbench.cli.run_options import takes_run_options

    return takes_run_options(verb, alone=name == "run")


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
