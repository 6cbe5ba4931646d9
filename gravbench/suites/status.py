"""A suite's data on this machine: what to call the copy, is every part of it whole; and its download."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gravbench.errors import DataError, GravbenchError, UsageError, shortened
from gravbench.imaging import file_digest, load_image
from gravbench.omnidocbench.ground_truth import MAX_ANNOTATION_BYTES
from gravbench.pages.reader import clipped_box, open_page
from gravbench.pages.regions import PageSample, annotated_regions, has_places, page_scale, route_of, scaled
from gravbench.records import TASKS
from gravbench.suites.data import DATA_VARIABLE, data_folder
from gravbench.suites.manifest import PageSet, Suite, load_samples
from gravbench.suites.olmocr_pages import tests_digest
from gravbench.suites.page_folder import digest_images, read_page_folder
from gravbench.suites.samples import Sample

DataState = Literal["ships", "found", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundData:
    """Page data of one suite. `label` names a copy that could be read, `problem` says why one could not."""

    state: DataState
    folder: Path | None = None
    pages: int | None = None
    """Pages in the copy."""
    label: str | None = None
    partial: bool = False
    drifted: bool = False
    own: bool = False
    problem: str | None = None
    hint: str | None = None

    def describe(self, pages: PageSet | None) -> str:
        """`ships`, `missing`, `found`, `6 of 1,651 found (partial copy)`, or what is wrong with the copy."""
        if self.problem is not None:
            return self.state if self.state == "missing" else f"{self.state}, unusable"
        if pages is None or self.pages is None or not (self.partial or self.drifted):
            return self.state
        if self.own:
            return f"{self.pages:,} {self.state} (own pages)"
        kind = "changed copy" if self.drifted else "partial copy"
        return f"{self.pages:,} of {pages.release_pages:,} {self.state} ({kind})"


def find_data(suite: Suite, *, environ: Mapping[str, str]) -> FoundData:
    """Where a suite's pages lie and which copy that is; never raises for data that is missing or broken."""
    pages = suite.pages
    if pages is None:
        return FoundData(state="ships")
    state: DataState = "ships" if pages.data is not None else "missing"
    try:
        folder = data_folder(suite, data=None, environ=environ)
        assert folder is not None
        if not any(folder.glob(pages.annotations)):
            raise DataError(f"{folder / pages.annotations}: not found", hint=how_to_get(suite))
        state = "ships" if pages.data is not None else "found"
        return _read(pages, folder, state)
    except DataError as error:
        return FoundData(state=state, problem=error.message, hint=error.hint)


def how_to_get(suite: Suite) -> str:
    """What to do for a suite whose pages are not here."""
    if suite.pages is not None and suite.pages.has_tests:
        return f"Get {suite.pages.release} (*.jsonl and pdfs/), and name its folder with --data."
    return f"gravbench suites fetch {suite.name}, or name a folder with --data."


def _read(pages: PageSet, folder: Path, state: DataState) -> FoundData:
    """By digest where the copy is the release's, which spares reading 1,651 pages, else page by page."""
    if pages.has_tests:
        digest = tests_digest(folder)
    else:
        digest = file_digest(folder / pages.annotations, what="annotation file", limit=MAX_ANNOTATION_BYTES)
    if digest == pages.annotation_sha256:
        label = f"{pages.release} ({pages.release_pages:,} pages)"
        return FoundData(state=state, folder=folder, pages=pages.release_pages, label=label)
    data = read_page_folder(pages, folder, allow_drift=True)
    return FoundData(
        state=state,
        folder=folder,
        pages=data.entries,
        label=data.name.label,
        partial=data.name.partial,
        drifted=data.name.drifted,
        own=data.name.own,
    )


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
    faults = [fault for crop in crops if (fault := _fault_of_crop(crop)) is not None]
    if suite.pages is None or folder is None:
        return Verification(
            suite=suite.name,
            crops=len(crops),
            pages=0,
            folder=None,
            label=None,
            partial=False,
            faults=tuple(faults),
        )
    data = read_page_folder(suite.pages, folder)
    pages = digest_images(data.samples)
    faults += [fault for sample in pages if (fault := _fault_of_page(sample)) is not None]
    return Verification(
        suite=suite.name,
        crops=len(crops),
        pages=len(data.samples),
        folder=folder,
        label=data.name.label,
        partial=data.name.partial,
        faults=tuple(faults),
    )


def _fault_of_crop(sample: Sample) -> str | None:
    """Why a run would fail this crop: its image does not decode."""
    try:
        load_image(sample.image_path)
    except DataError as error:
        return f"{sample.sample_id}: {error.whole}"
    return None


def _fault_of_page(sample: PageSample) -> str | None:
    """Why a run over annotated regions would fail this page, by the checks that such a run makes."""
    try:
        size = open_page(sample).size
        if not has_places(sample.entry):
            return None
        factors = page_scale(sample.entry, size)
        for annotated in annotated_regions(sample.entry):
            if route_of(annotated.region.label) in TASKS:
                clipped_box(size, scaled(annotated.region, factors))
    except DataError as error:
        return f"{sample.image_name}: {error.whole}"
    return None


Download = Callable[[PageSet, Path], None]
"""Fills a folder with the annotation file and `images/` of a page set; resumes; raises what its transport
raises."""


def fetch_pages(
    suite: Suite,
    *,
    data: Path | None,
    environ: Mapping[str, str],
    note: Callable[[str], None],
    download: Download | None = None,
) -> Path:
    """Fill the suite's data folder and check the annotation file's digest; returns the folder.

    Repeating the command continues where it stopped. Offline it is a `DataError` that says how to place the
    files by hand.
    """
    pages = suite.pages
    if pages is None or pages.repository is None:
        away = pages is not None and pages.place is not None
        raise UsageError(
            f"suite {suite.name}: "
            + ("its data is not fetched by gravbench" if away else "ships with gravbench, nothing to fetch"),
            hint=how_to_get(suite) if away else None,
        )
    folder = data or _place(suite, pages, environ)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{folder}: not writable ({error.strerror})", hint="Name another with --data."
        ) from error
    note(f"fetching {pages.repository} at {pages.revision} into {folder}")
    note("the data is for research only, not for commercial use")
    try:
        (download or download_from_hub)(pages, folder)
    except (KeyboardInterrupt, GravbenchError):
        raise
    except Exception as error:  # the client raises its own and its transport's errors
        raise _by_hand(suite, pages, folder, error) from error
    return check_fetched(pages, folder)


def check_fetched(pages: PageSet, folder: Path) -> Path:
    """`folder`, once its annotation file has the pinned digest."""
    path = folder / pages.annotations
    found = file_digest(path, what="annotation file", limit=MAX_ANNOTATION_BYTES)
    if found != pages.annotation_sha256:
        raise DataError(
            f"{path}: sha256 is {found}, expected {pages.annotation_sha256}",
            hint="Delete the file and fetch again; it was changed or cut short.",
        )
    return folder


def download_from_hub(pages: PageSet, folder: Path) -> None:
    """`huggingface_hub.snapshot_download` into `folder`, with its progress, resume and digests."""
    from huggingface_hub import snapshot_download

    assert pages.repository is not None
    snapshot_download(
        pages.repository,
        repo_type="dataset",
        revision=pages.revision,
        local_dir=str(folder),
        allow_patterns=[pages.annotations, "images/*"],
    )


def _place(suite: Suite, pages: PageSet, environ: Mapping[str, str]) -> Path:
    root = environ.get(DATA_VARIABLE)
    if not root or pages.place is None:
        raise DataError(
            f"suite {suite.name}: no place to put {pages.release}: {DATA_VARIABLE} is not set",
            hint=f"Set {DATA_VARIABLE} to a folder, or name one with --data DIR. "
            + _without_network(suite, pages, f"{pages.place or 'one folder'}/ in that folder"),
        )
    return Path(root) / pages.place


def _by_hand(suite: Suite, pages: PageSet, folder: Path, error: Exception) -> DataError:
    return DataError(
        f"{pages.repository}: download failed ({type(error).__name__}: {shortened(str(error), 300)})",
        hint="Repeat to continue. " + _without_network(suite, pages, str(folder)),
    )


def _without_network(suite: Suite, pages: PageSet, place: str) -> str:
    return (
        f"Without network: on another machine fetch {pages.annotations} and images/ of "
        f"https://huggingface.co/datasets/{pages.repository} at commit {pages.revision}, copy both into "
        f"{place}, then check with `gravbench suites verify {suite.name}`."
    )
