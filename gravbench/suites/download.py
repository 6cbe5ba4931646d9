"""Download a suite's pages from the Hugging Face hub at their pinned commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from gravbench.errors import DataError, GravbenchError, UsageError
from gravbench.imaging import file_digest
from gravbench.omnidocbench.ground_truth import MAX_ANNOTATION_BYTES
from gravbench.printable import shortened
from gravbench.suites.data import DATA_VARIABLE
from gravbench.suites.manifest import PageSet, Suite

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
        raise UsageError(f"suite {suite.name} ships with gravbench: there is nothing to fetch")
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
