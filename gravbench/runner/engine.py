"""From `--backend` and `--model` to an open backend."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from gravbench.errors import EngineError
from gravbench.options import DEFAULT_MODEL, RunOptions
from gravbench.protocols import Backend
from gravbench.resources import shipped_model_dir

if TYPE_CHECKING:
    from gravbench.suites.manifest import Suite


def open_engine(options: RunOptions, suite: Suite) -> Backend:  # noqa: ARG001 - prompts travel with requests
    """Open the backend of `options`, loading its module (and torch) only now."""
    from gravbench.backends.registry import name_of, open_backend

    return open_backend(
        options.backend,
        model=checkpoint_of(options.model, backend=name_of(options.backend)),
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
    )


def checkpoint_of(model: str | None, *, backend: str = "transformers") -> Path | None:
    """Folder of `model`: the shipped one by name, else a path or a hub id.

    The toy backend has a table of its own.
    """
    if model is None and backend == "toy":
        return None
    name = model or DEFAULT_MODEL
    if name == DEFAULT_MODEL:
        return shipped_model_dir(name)
    from gravbench.backends.hub import resolve_model

    folder = resolve_model(name)
    if not folder.exists() and difflib.get_close_matches(name, [DEFAULT_MODEL], cutoff=0.7):
        raise EngineError(
            f"{name}: no such checkpoint folder", hint=f"did you mean '{DEFAULT_MODEL}'? Or pass --model DIR."
        )
    return folder
