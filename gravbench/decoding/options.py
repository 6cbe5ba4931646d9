"""Options of a strategy: the fields of its dataclass are what may stand after the colon of an arm."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gravbench.errors import UsageError

S = TypeVar("S")
_MAX_DIGITS = 9


def option(default: Any, *, low: float | None = None, high: float | None = None) -> Any:
    """A field with a default and, for numbers, the range of its values, ends included."""
    return field(default=default, metadata={"low": low, "high": high})


def from_options(kind: type[S], options: Mapping[str, str], *, arm: str, known: Iterable[str] = ()) -> S:
    """`kind` with its fields set from text; `UsageError` naming the option and what it may be.

    Fields are `int`, `float`, `bool` (0 or 1), `str` or a `Literal` of strings, or any of these or `None`;
    a number may also be one of some words: `int | Literal["auto"]`.
    `known` names further options of an arm, for the hint.
    """
    types = get_type_hints(kind)
    own = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name not in own:
            raise UsageError(
                f"strategy '{arm}': unknown option '{name}'", hint=suggestion(name, (*own, *known))
            )
        low, high = own[name].metadata.get("low"), own[name].metadata.get("high")
        values[name], expected = _value(types[name], text, low, high)
        if values[name] is None:
            raise UsageError(
                f"strategy '{arm}': {name} is '{text}', expected {expected}",
                hint=f"for example {arm.partition(':')[0]}:{name}={_example(types[name], low)}",
            )
    return kind(**values)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest of `known` names, and all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    listed = ", ".join(names)
    return f"did you mean '{near[0]}'? known: {listed}" if near else f"known: {listed}"


def _kinds(kind: Any) -> list[Any]:
    """The types of a union without its `None`; of another type, itself."""
    if get_origin(kind) is Literal:
        return [kind]
    return [part for part in get_args(kind) if part is not type(None)] or [kind]


def _value(kind: Any, text: str, low: float | None, high: float | None) -> tuple[Any, str]:
    """The value or `None`, and what was expected."""
    tried = [_value_of(one, text, low, high) for one in _kinds(kind)]
    value = next((value for value, _ in tried if value is not None), None)
    return value, " or ".join(expected for _, expected in tried)


def _value_of(kind: Any, text: str, low: float | None, high: float | None) -> tuple[Any, str]:
    if kind is bool:
        return ({"0": False, "1": True}.get(text), "0 or 1")
    if kind is str:
        return text, "text"
    if get_origin(kind) is Literal:
        words = get_args(kind)
        return (text if text in words else None), ("one of " if len(words) > 1 else "") + ", ".join(words)
    expected = ("an integer" if kind is int else "a number") + _range(low, high)
    digits = text if kind is int else text.replace(".", "", 1)
    if not (text.isascii() and digits.isdigit() and len(text) <= _MAX_DIGITS):
        return None, expected
    value = kind(text)
    inside = (low is None or value >= low) and (high is None or value <= high)
    return (value if inside else None), expected


def _range(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low:g} to {high:g}"
    return f" of at least {low:g}" if low is not None else f" of at most {high:g}" if high is not None else ""


def _example(kind: Any, low: float | None) -> str:
    kind = _kinds(kind)[0]
    if get_origin(kind) is Literal:
        return str(get_args(kind)[0])
    return "1" if kind is bool else f"{max(low or 0, 8):g}" if kind is int else f"{low or 0.5:g}"
