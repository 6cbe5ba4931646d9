"""Declared verbs as commands: their parameters, those made from `RunOptions`, and what a shell completes.

Values are found when the shell asks; suggestions refuse nothing.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from gravbench.cli.output import command_of
from gravbench.cli.verbs import Verb
from gravbench.options import ErrorLimit, Option, RunOptions, declared_options


def _suites() -> Iterable[str]:
    from gravbench.suites.manifest import list_suites

    return (suite.name for suite in list_suites())


def _strategies() -> Iterable[str]:
    from gravbench.decoding.strategies import STRATEGIES

    return STRATEGIES


def _layouts() -> Iterable[str]:
    from gravbench.pages.layouts import LAYOUTS

    return LAYOUTS


VALUES: dict[str, Callable[[], Iterable[str]]] = {
    "suite": _suites,
    "name": _suites,
    "strategies": _strategies,
    "vary": _strategies,
    "layout": _layouts,
    "dtype": lambda: ("float32", "bfloat16", "float16"),
    "device": lambda: ("cpu", "cuda"),
}
"""Parameter of a verb -> its values."""


def completer(parameter: str) -> Callable[[str], list[str]] | None:
    """The values of a parameter that begin with what was typed; `None` where any value will do."""
    values = VALUES.get(parameter)
    if values is None:
        return None

    def complete(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)]

    return complete


def as_command(declared: type[Verb]) -> Callable[..., int]:
    """A declared verb as a function of its parameters, which imports the body when it is called.

    A field `options: RunOptions` is every option of a run; one that the verb has itself is the verb's.
    """
    kinds = typing.get_type_hints(declared, include_extras=True)
    own = {field.name: _field(field, kinds[field.name]) for field in fields(declared)}
    del own["command"]
    taken = {}
    if own.pop("options", None) is not None:
        taken = {
            name: _parameter(name, field, option)
            for name, field, option in declared_options()
            if (declared.alone or not option.alone) and name not in own
        }

    def command(context: typer.Context, **given: Any) -> int:
        if taken:
            given["options"] = run_options(**{name: given.pop(name) for name in taken})
        module, _, function = declared.body.partition(":")
        body: Callable[[Verb], int] = getattr(import_module(f"gravbench.cli.{module}"), function)
        return body(declared(**given, command=command_of(context)))

    own["context"] = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [*taken.values(), *own.values()]
    command.__name__, command.__doc__ = declared.__name__.lower(), declared.__doc__
    command.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": int}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _field(field: Field[Any], kind: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def run_options(**asked: Any) -> RunOptions:
    """What was asked for, checked as far as no file is needed; `None` stands for the default.

    Strategies are the verb's own business.
    """
    from gravbench.pages.layouts import check_layout
    from gravbench.runner.samples import check_drift

    given = {name: value for name, value in asked.items() if value is not None}
    options = RunOptions(**given)
    check_layout(options.layout)
    check_drift(options.allow_drift)
    return options


def _parameter(name: str, field: FieldInfo, option: Option) -> inspect.Parameter:
    low = next((mark.ge for mark in field.metadata if isinstance(mark, Ge)), None)
    high = next((mark.le for mark in field.metadata if isinstance(mark, Le)), None)
    kind = _command_line_type(field.annotation)
    default: Any = (
        inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    )
    if isinstance(default, ErrorLimit):
        default = str(default)
    elif isinstance(default, tuple):
        default = None
    declared = typer.Option(
        option.flag_of(name),
        help=option.help,
        metavar=option.metavar,
        show_default=option.show_default,
        min=low,  # type: ignore[arg-type]
        max=high,  # type: ignore[arg-type]
        autocompletion=completer(name),
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )


def _command_line_type(annotation: Any) -> Any:
    """What the parser makes of a word: repeatable options are lists, an error limit is read later."""
    if get_origin(annotation) is tuple:
        return list[get_args(annotation)[0]] | None  # type: ignore[misc]
    if annotation is ErrorLimit:
        return str
    if get_origin(annotation) in (types.UnionType, typing.Union):
        return annotation
    assert annotation in (str, int, bool, Path), annotation
    return annotation
