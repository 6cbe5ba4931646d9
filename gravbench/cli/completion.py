"""What a shell completes: the values an option can take, found when it asks. Suggestions refuse nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable


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
