"""Least-cost assignment of rows to columns: SciPy's solver, with its choice among equal costs.

The solver is one compiled file of SciPy. It is loaded by itself, because importing the package around it
takes longer than scoring twenty pages; where it does not stand alone, the package is imported.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


def linear_sum_assignment(costs: NDArray[np.floating[Any]]) -> tuple[Indices, Indices]:
    """Rows and their columns, by row, with the smallest sum of `costs` [rows, columns]."""
    rows, columns = _solver()(costs)
    return rows, columns


@lru_cache(maxsize=1)
def _solver() -> Any:
    found = importlib.util.find_spec("scipy")
    for folder in (found.submodule_search_locations or ()) if found else ():
        for suffix in importlib.machinery.EXTENSION_SUFFIXES:
            file = Path(folder) / "optimize" / f"_lsap{suffix}"
            if file.is_file():
                spec = importlib.util.spec_from_file_location("scipy.optimize._lsap", file)
                if spec is None or spec.loader is None:
                    continue
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                if hasattr(module, "linear_sum_assignment"):
                    return module.linear_sum_assignment
    from scipy.optimize import linear_sum_assignment as solver

    return solver
