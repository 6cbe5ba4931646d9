"""Strategy strings, `id` or `id:option=value,option=value`, to strategies.

A strategy is a frozen dataclass in a file of its own and a line here, or an entry point of the group
`gravbench.strategies` in anybody's package. Its module is imported when an arm names it.

The option `batch` belongs to the arm rather than to its strategy: it says how many requests decode
together, not how (see `gravbench.arms`). So do those of `gravbench.decoding.temperature`.
"""

from __future__ import annotations

from gravbench.arms import BATCH, SAMPLING, parse_arm
from gravbench.decoding.options import from_options, suggestion
from gravbench.decoding.protocols import Strategy
from gravbench.decoding.temperature import temperature_of
from gravbench.errors import UsageError
from gravbench.registry import Registry

STRATEGIES = Registry(
    "gravbench.strategies",
    {
        "ar": "gravbench.decoding.ar:Autoregressive",
        "selfspec": "gravbench.decoding.selfspec:SelfSpeculative",
        "selfspec1": "gravbench.decoding.selfspec1:OneForward",
        "edit": "gravbench.decoding.edit:Edit",
        "lookup": "gravbench.decoding.lookup:Lookup",
        "tree": "gravbench.decoding.tree:MarginalTree",
        "repair": "gravbench.decoding.repair:Repair",
        "stream": "gravbench.decoding.stream:Stream",
        "diffuspec": "gravbench.decoding.diffuspec:DiffuSpec",
        "hsd": "gravbench.decoding.hsd:Hsd",
        "adaptive": "gravbench.decoding.adaptive:Adaptive",
        "tuned": "gravbench.decoding.tuned:Tuned",
        "mtp": "gravbench.decoding.mtp:MultiToken",
        "blockdiff": "gravbench.decoding.blockdiff:BlockDiffusion",
    },
)


def parse_strategy(text: str) -> Strategy:
    """`selfspec:block=16,legacy=1` -> strategy; `UsageError` naming the nearest id or option otherwise."""
    name = text.partition(":")[0]
    if name not in STRATEGIES:
        raise UsageError(f"unknown strategy '{name}'", hint=suggestion(name, STRATEGIES))
    options = {key: value for key, value in parse_arm(text).options if key not in (BATCH, *SAMPLING)}
    strategy: Strategy = from_options(STRATEGIES.load(name), options, arm=text, known=(BATCH, *SAMPLING))
    if temperature_of(text).temperature is not None and getattr(strategy, "lossy", False):
        raise UsageError(
            f"strategy '{text}': it verifies nothing exactly, so no law of the model is drawn from",
            hint="Leave the temperature out, or use a strategy that verifies.",
        )
    return strategy
