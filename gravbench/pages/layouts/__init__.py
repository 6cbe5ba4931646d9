"""Layout name -> the module that implements it, imported only when it is opened."""

from __future__ import annotations

import difflib
from importlib import import_module

from gravbench.errors import UsageError
from gravbench.pages.regions import LayoutProvider

LAYOUTS: dict[str, str] = {
    "ground-truth": "gravbench.pages.layouts.ground_truth",
    "pp-doclayout-v3": "gravbench.pages.layouts.detector",
    "whitespace": "gravbench.pages.layouts.whitespace",
}
"""Each module has `open_layout(model, *, device, threads) -> LayoutProvider`."""


def check_layout(name: str) -> str:
    """`name` if there is such a layout provider; `UsageError` with the nearest name otherwise."""
    if name not in LAYOUTS:
        near = difflib.get_close_matches(name, LAYOUTS, n=1, cutoff=0.4)
        listed = "known: " + ", ".join(sorted(LAYOUTS))
        raise UsageError(
            f"unknown layout '{name}'", hint=f"did you mean '{near[0]}'? {listed}" if near else listed
        )
    return name


def open_layout(
    name: str, *, model: str | None = None, device: str = "cpu", threads: int = 1
) -> LayoutProvider:
    """Open layout provider `name`; `model` is a checkpoint folder or hub id for those that have weights."""
    module = import_module(LAYOUTS[check_layout(name)])
    provider: LayoutProvider = module.open_layout(model, device=device, threads=threads)
    return provider


def refuse_model(name: str, model: str | None) -> None:
    """A provider without weights takes no model."""
    if model is not None:
        raise UsageError(f"layout '{name}' has no weights", hint="Leave --layout-model out.")
