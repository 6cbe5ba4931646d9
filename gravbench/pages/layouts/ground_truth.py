"""The annotated regions as an oracle layout: what reading alone costs, with no detector in the way."""

from __future__ import annotations

import hashlib
import json

from PIL import Image

from gravbench.pages.layouts import refuse_model
from gravbench.pages.regions import CATEGORY_LABELS, PageSample, Region, annotated_regions, page_scale, scaled
from gravbench.store.schema import LayoutInfo

NAME = "ground-truth"
VERSION = 1


class GroundTruthLayout:
    """Regions that are not ignored, in annotated order, scaled to the image when it has another size."""

    def describe(self) -> LayoutInfo:
        rules = json.dumps([VERSION, CATEGORY_LABELS], sort_keys=True)
        return LayoutInfo(name=NAME, digest=hashlib.sha256(rules.encode()).hexdigest())

    def regions(self, page: PageSample, image: Image.Image) -> tuple[Region, ...]:
        factors = page_scale(page.entry, image.size)
        return tuple(scaled(region.region, factors) for region in annotated_regions(page.entry))

    def close(self) -> None:
        """Nothing to release."""


def open_layout(model: str | None, *, device: str, threads: int) -> GroundTruthLayout:  # noqa: ARG001
    """No weights, no device."""
    refuse_model(NAME, model)
    return GroundTruthLayout()
