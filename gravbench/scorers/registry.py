"""Scorers by name: those that ship, and those of other packages (entry points `gravbench.scorers`).

A name stands for `module:attribute`, a class without arguments; its module is imported when it is asked for.
"""

from __future__ import annotations

import difflib
import importlib
from importlib.metadata import entry_points

from gravbench.errors import UsageError
from gravbench.scorers.contract import Metric, Scorer

GROUP = "gravbench.scorers"
SHIPPED = {
    "crops": "gravbench.scorers.crops:CropScorer",
    "omnidocbench-1.6": "gravbench.omnidocbench.page_scores:OmniDocBenchScorer",
}


def scorer_places() -> dict[str, str]:
    """Scorer name -> `module:attribute`; what ships comes first and cannot be replaced."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    return {**SHIPPED, **{name: place for name, place in sorted(found.items()) if name not in SHIPPED}}


def open_scorer(name: str) -> Scorer:
    """The scorer of that name; `UsageError` where there is none, or what is there is no scorer."""
    places = scorer_places()
    if name not in places:
        near = difflib.get_close_matches(name, places, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known scorers: {', '.join(places)}"
        raise UsageError(f"unknown scorer {name!r}", hint=hint)
    module, _, attribute = places[name].partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"scorer {name!r}: {places[name]} cannot be loaded: {error}",
            hint="Reinstall the package that offers it.",
        ) from error
    if not isinstance(made, Scorer) or made.name != name:
        raise UsageError(
            f"scorer {name!r}: {places[name]} is no gravbench.scorers.contract.Scorer of that name",
            hint="Correct the entry point of the package that offers it.",
        )
    return made


def metric_table() -> dict[str, Metric]:
    """Every metric of every scorer here, by name, in the order of the scorers' tables."""
    table: dict[str, Metric] = {}
    for name in scorer_places():
        for metric in open_scorer(name).metrics:
            if table.setdefault(metric.name, metric) != metric:
                raise UsageError(
                    f"scorer {name!r}: metric {metric.name!r} is another scorer's already",
                    hint="Give the metric a name of its own.",
                )
    return table
