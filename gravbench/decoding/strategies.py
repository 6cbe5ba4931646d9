"""Strategy strings, `id` or `id:option=value,option=value`, to strategies. The registry is a dictionary."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

from gravbench.decoding.ar import Autoregressive
from gravbench.decoding.protocols import Strategy
from gravbench.decoding.selfspec import SelfSpeculative
from gravbench.errors import UsageError


def _ar(options: Mapping[str, str], text: str) -> Strategy:
    _refuse_unknown(options, allowed=(), text=text)
    return Autoregressive()


def _selfspec(options: Mapping[str, str], text: str) -> Strategy:
    _refuse_unknown(options, allowed=("block", "legacy"), text=text)
    return SelfSpeculative(
        block=_positive(options["block"], text) if "block" in options else None,
        legacy=_flag(options["legacy"], text) if "legacy" in options else False,
    )


STRATEGIES: dict[str, Callable[[Mapping[str, str], str], Strategy]] = {"ar": _ar, "selfspec": _selfspec}


def parse_strategy(text: str) -> Strategy:
    """`selfspec:block=16,legacy=1` -> strategy; `UsageError` naming the nearest id or option otherwise."""
    name, colon, tail = text.partition(":")
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy '{name}'", hint=_suggestion(name, STRATEGIES))
    return STRATEGIES[name](_options(tail, text) if colon else {}, text)


def _options(tail: str, text: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in tail.split(","):
        key, equals, value = part.partition("=")
        if not (key and equals and value):
            raise UsageError(f"strategy '{text}': expected option=value, got '{part}'")
        if key in options:
            raise UsageError(f"strategy '{text}': option '{key}' is given twice")
        options[key] = value
    return options


def _refuse_unknown(options: Mapping[str, str], *, allowed: tuple[str, ...], text: str) -> None:
    for key in options:
        if key not in allowed:
            hint = _suggestion(key, allowed) if allowed else "it takes no options"
            raise UsageError(f"strategy '{text}': unknown option '{key}'", hint=hint)


def _positive(value: str, text: str) -> int:
    if not (value.isascii() and value.isdigit()) or int(value[:10]) < 1 or len(value) > 9:
        raise UsageError(
            f"strategy '{text}': block is '{value}', expected an integer of at least 1",
            hint="for example selfspec:block=16",
        )
    return int(value)


def _flag(value: str, text: str) -> bool:
    if value not in ("0", "1"):
        raise UsageError(f"strategy '{text}': legacy is '{value}', expected 0 or 1")
    return value == "1"


def _suggestion(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    listed = ", ".join(names)
    return f"did you mean '{near[0]}'? known: {listed}" if near else f"known: {listed}"
