"""Scorers by name: those that ship, and those of other packages (entry points `gravbench.scorers`).

A name stands for `module:attribute`, a class without arguments; its module is imported when it is asked for.
"""

from __future__ import annotations

import difflib
import warnings

from gravbench.errors import UsageError
from gravbench.registry import Registry
from gravbench.scorers.contract import Metric, Scorer

SCORERS = Registry(
    "gravbench.scorers",
    {
        "crops": "gravbench.scorers.crops:CropScorer",
        "crops-quick": "gravbench.scorers.crops:QuickCropScorer",
        "markdown-pages": "gravbench.omnidocbench.page_scores:MarkdownPageScorer",
        "omnidocbench-1.6": "gravbench.omnidocbench.page_scores:OmniDocBenchScorer",
    },
)
"""Each is a class that is made without arguments."""


def open_scorer(name: str) -> Scorer:
    """The scorer of that name; `UsageError` where there is none, or what is there is no scorer."""
    if name not in SCORERS:
        near = difflib.get_close_matches(name, SCORERS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known scorers: {', '.join(SCORERS)}"
        raise UsageError(f"unknown scorer {name!r}", hint=hint)
    made = SCORERS.load(name)()
    if not isinstance(made, Scorer) or made.name != name:
        raise UsageError(
            f"scorer {name!r}: {SCORERS[name]} is no gravbench.scorers.contract.Scorer of that name",
            hint="Correct the entry point of the package that offers it.",
        )
    return made


def metric_table() -> dict[str, Metric]:
    """Every metric of every scorer here, by name, in the order of the scorers' tables.

    A scorer of another package that does not load is left out with a warning: its fault is nobody else's.
    """
    table: dict[str, Metric] = {}
    for name in SCORERS:
        try:
            scorer = open_scorer(name)
        except UsageError as error:
            if SCORERS.is_own(name):
                raise
            warnings.warn(f"{error.message}; its metrics have no labels here", stacklevel=2)
            continue
        for metric in scorer.metrics:
            if table.setdefault(metric.name, metric) != metric:
                raise UsageError(
                    f"scorer {name!r}: metric {metric.name!r} is another scorer's already",
                    hint="Give the metric a name of its own.",
                )
    return table
