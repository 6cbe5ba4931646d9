"""Strategy strings, `id` or `id:option=value,option=value`, to strategies. The registry is a dictionary.

The option `batch` belongs to the arm rather than to its strategy: it says how many requests decode
together, not how (see `gravbench.arms`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping

from gravbench.arms import BATCH, batch_of, split_arm
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
    name = text.partition(":")[0]
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy '{name}'", hint=_suggestion(name, STRATEGIES))
    options = split_arm(text)[1]
    batch_of(text)
    return STRATEGIES[name]({key: value for key, value in options.items() if key != BATCH}, text)


def _refuse_unknown(options: Mapping[str, str], *, allowed: tuple[str, ...], text: str) -> None:
    for key in options:
        if key not in allowed:
            raise UsageError(
                f"strategy '{text}': unknown option '{key}'", hint=_suggestion(key, (*allowed, BATCH))
            )


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
