"""Backend name -> the module that implements it, imported only when it is opened."""

from __future__ import annotations

import difflib
from importlib import import_module
from pathlib import Path

from gravbench.errors import UsageError
from gravbench.protocols import Backend

BACKENDS: dict[str, str] = {
    "toy": "gravbench.backends.toy",
    "transformers": "gravbench.backends.transformers_local",
}
"""Each module has `open_backend(model, *, device, dtype, threads, cuda_graphs) -> Backend`."""


def open_backend(
    name: str,
    *,
    model: Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int = 1,
    cuda_graphs: bool = False,
) -> Backend:
    """Open backend `name` on the checkpoint folder `model` (`None`: the one it ships with)."""
    if name not in BACKENDS:
        known = sorted(BACKENDS)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
        listed = "known: " + ", ".join(known)
        raise UsageError(
            f"unknown backend '{name}'", hint=f"did you mean '{near[0]}'? {listed}" if near else listed
        )
    backend: Backend = import_module(BACKENDS[name]).open_backend(
        model, device=device, dtype=dtype, threads=threads, cuda_graphs=cuda_graphs
    )
    return backend
