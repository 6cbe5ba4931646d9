"""gravbench: evaluation and benchmarking harness for self-speculative document-OCR models.

The library interface, each name imported when it is used:

    run(suite, **options)         run or continue a plan; returns the `Outcome` with its folder and summary
    score(run_dir)                score a finished run again; returns its `Summary`
    compare(run_dir, other=None)  one run against its ar arm, or two runs; returns a `Comparison`
    report(run_dirs, out)         write the HTML page of one or several runs; returns its path
    frames(run_dir)               pandas frames of a finished run: answers, scores, rounds

What goes wrong is a `gravbench.errors.GravbenchError`, with the exit code that the command line would have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gravbench.resources import __version__

if TYPE_CHECKING:
    from gravbench.api import compare, frames, report, run, score

__all__ = ["__version__", "compare", "frames", "report", "run", "score"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("gravbench.api"), name)
    raise AttributeError(f"module 'gravbench' has no attribute {name!r}")
