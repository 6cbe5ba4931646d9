"""Layouts by name, each imported only when it is opened; and those without rules of their own: the annotated
regions, and the page as one region.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from importlib import import_module

from PIL import Image

from gravbench.errors import UsageError
from gravbench.pages.regions import (
    CATEGORY_LABELS,
    WHOLE_PAGE,
    LayoutProvider,
    PageSample,
    Region,
    annotated_regions,
    page_scale,
    scaled,
)
from gravbench.store.schema import LayoutInfo

LAYOUTS: dict[str, str] = {
    "ground-truth": "gravbench.pages.layouts:open_ground_truth",
    "none": "gravbench.pages.layouts:open_whole_page",
    "pp-doclayout-v3": "gravbench.pages.detector:open_detector",
    "whitespace": "gravbench.pages.whitespace:open_whitespace",
}
"""Name -> `module:function`; each function is `(model, *, device, threads) -> LayoutProvider`."""
GROUND_TRUTH_VERSION = 1


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
    module, _, opener = LAYOUTS[check_layout(name)].partition(":")
    provider: LayoutProvider = getattr(import_module(module), opener)(model, device=device, threads=threads)
    return provider


def refuse_model(name: str, model: str | None) -> None:
    """A provider without weights takes no model."""
    if model is not None:
        raise UsageError(f"layout '{name}' has no weights", hint="Leave --layout-model out.")


class GroundTruthLayout:
    """What reading alone costs, with no detector in the way.

    Regions that are not ignored, in annotated order, scaled to the image when it has another size.
    """

    def describe(self) -> LayoutInfo:
        rules = json.dumps([GROUND_TRUTH_VERSION, CATEGORY_LABELS], sort_keys=True)
        return LayoutInfo(name="ground-truth", digest=hashlib.sha256(rules.encode()).hexdigest())

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]:
        factors = page_scale(page.entry, image.size)
        return tuple(scaled(region.region, factors) for region in annotated_regions(page.entry))

    def close(self) -> None:
        """Nothing to release."""


def open_ground_truth(model: str | None, *, device: str, threads: int) -> GroundTruthLayout:  # noqa: ARG001
    """No weights, no device."""
    refuse_model("ground-truth", model)
    return GroundTruthLayout()


class WholePageLayout:
    """The page as one region, for models that read whole pages: text prompt and budget, Markdown answer."""

    def describe(self) -> LayoutInfo:
        return LayoutInfo(name="none", digest=hashlib.sha256(WHOLE_PAGE.encode()).hexdigest())

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]:  # noqa: ARG002
        width, height = map(float, image.size)
        corners = ((0.0, 0.0), (width, 0.0), (width, height), (0.0, height))
        return (Region(region_id=WHOLE_PAGE, label=WHOLE_PAGE, polygon=corners),)

    def close(self) -> None:
        """Nothing to release."""


def open_whole_page(model: str | None, *, device: str, threads: int) -> WholePageLayout:  # noqa: ARG001
    """No weights, no device."""
    refuse_model("none", model)
    return WholePageLayout()
