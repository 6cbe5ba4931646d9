"""`temperature`, `top_k`, `top_p` and `seed` of an arm: options of every strategy that verifies exactly.

A draw is keyed by seed, request and output index (`gravbench.decoding.sampling`), so each of them writes at
any temperature exactly what `ar` with the same four options writes. Drafts are drawn with the keys of their
places too, which makes them agree more often. Without `temperature` decoding is greedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from gravbench.arms import SAMPLING, parse_arm
from gravbench.decoding.options import from_options, option
from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Temperature:
    """How tokens are drawn; `temperature=None`: the likeliest one is taken."""

    temperature: float | None = option(None, low=0.01, high=100)
    top_k: int | None = option(None, low=1)
    top_p: float = option(1.0, low=0.001, high=1)
    seed: int = option(0, low=0)


def temperature_of(arm: str) -> Temperature:
    """What an arm says of drawing; `UsageError` out of range, or where it says how without a temperature."""
    options = {key: value for key, value in parse_arm(arm).options if key in SAMPLING}
    found = from_options(Temperature, options, arm=arm)
    if options and found.temperature is None:
        raise UsageError(
            f"strategy '{arm}': {', '.join(options)} without temperature: decoding is greedy",
            hint=f"for example {arm},temperature=1",
        )
    return found
