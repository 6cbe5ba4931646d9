"""Check everything a suite needs: digests, annotations, and that every image decodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gravbench.errors import DataError
from gravbench.imaging import load_image
from gravbench.pages.annotations import annotated_regions, page_scale, scaled
from gravbench.pages.region_crop import clipped_box
from gravbench.pages.regions import PageSample, route_of
from gravbench.records import TASKS
from gravbench.suites.manifest import Suite, load_samples
from gravbench.suites.page_crops import PAGE_PIXELS
from gravbench.suites.page_folder import digest_images, read_page_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found; `faults` name single pages, faults of the whole data set raise instead."""

    suite: str
    crops: int
    pages: int
    folder: Path | None
    label: str | None
    partial: bool
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Nothing wrong; a partial copy is no fault, it is named as what it is."""
        return not self.faults


def verify_suite(suite: Suite, folder: Path | None) -> Verification:
    """Own crops and the pages of `folder`; `DataError` where a run would stop before its first sample."""
    crops = load_samples(suite)
    if suite.pages is None or folder is None:
        return Verification(
            suite=suite.name, crops=len(crops), pages=0, folder=None, label=None, partial=False, faults=()
        )
    data = read_page_folder(suite.pages, folder)
    faults = [fault for sample in digest_images(data.samples) if (fault := _fault_of(sample)) is not None]
    return Verification(
        suite=suite.name,
        crops=len(crops),
        pages=len(data.samples),
        folder=folder,
        label=data.label,
        partial=data.partial,
        faults=tuple(faults),
    )


def _fault_of(sample: PageSample) -> str | None:
    """Why a run over annotated regions would fail this page, by the checks that such a run makes."""
    try:
        if sample.fault is not None or sample.image_path is None:
            raise DataError(sample.fault or "no image")
        size = load_image(sample.image_path, max_pixels=PAGE_PIXELS).size
        factors = page_scale(sample.entry, size)
        for annotated in annotated_regions(sample.entry):
            if route_of(annotated.region.label) in TASKS:
                clipped_box(size, scaled(annotated.region, factors))
    except DataError as error:
        return f"{sample.image_name}: {error.whole}"
    return None
