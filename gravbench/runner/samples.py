"""Samples of a run, chosen as its options say or found again for a stored run; the layout of its pages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path
from pydantic import JsonValue

from gravbench.errors import DataError, NotComparableError, UsageError
from gravbench.options import RunOptions
from gravbench.pages.reader import PageReader
from gravbench.pages.regions import LayoutProvider, has_places
from gravbench.protocols import Backend
from gravbench.runner.plan import RegionsReader
from gravbench.scorers.contract import Sample
from gravbench.store.schema import GenRecord, Manifest, sha256_of
from gravbench.suites.data import AnySample, OpenedSuite, Selection, data_folder, open_folder, open_suite
from gravbench.suites.manifest import Suite, suite_digest

if TYPE_CHECKING:
    from gravbench.suites.data import OpenedSuite
    from gravbench.suites.manifest import Suite


OpenLayout = Callable[[RunOptions], LayoutProvider]
CROPS_FOLDER = ".crops"


@dataclass(frozen=True, kw_only=True)
class PageSetup:
    """The open layout of a run with pages, and how regions are cut and asked for."""

    layout: LayoutProvider
    crop_grid: int

    def reader(
        self, suite: Suite, backend: Backend, *, run_folder: Path, clock: Callable[[], int]
    ) -> RegionsReader:
        """The reader of this run's pages; its scratch folder lies in the run folder."""
        reader = PageReader(
            backend=backend,
            layout=self.layout,
            prompts=suite.prompts,
            budgets=suite.max_new_tokens,
            crops=run_folder / CROPS_FOLDER,
            clock=clock,
            crop_grid=self.crop_grid,
        )
        return RegionsReader(suite=suite, reader=reader)


def page_setup(
    options: RunOptions,
    suite: Suite,
    samples: Sequence[Sample],
    *,
    open_layout: OpenLayout,
) -> PageSetup | None:
    """The setup when there are pages among the samples, else `None`."""
    if all(sample.task != "page" for sample in samples):
        return None
    placeless = [s.sample_id for s in samples if isinstance(s.truth, dict) and not has_places(s.truth)]
    if placeless and options.layout == "ground-truth":
        raise UsageError(
            f"--layout ground-truth: page {placeless[0]} of suite {suite.name} has Markdown or tests "
            "as its truth, and no annotated regions",
            hint="Let a layout find them: --layout whitespace or --layout pp-doclayout-v3; "
            "--layout none reads the whole page at once.",
        )
    return PageSetup(
        layout=open_layout(options),
        crop_grid=suite.pages.crop_grid if suite.pages else 1,
    )


def data_document(opened: OpenedSuite) -> dict[str, JsonValue] | None:
    """Which pages were run, or gave their crops, and what was lost; a partial copy is never called whole.

    `None` where the run has nothing of any page.
    """
    if opened.pages is None or (opened.crops is None and opened.pages_taken == 0):
        return None
    document: dict[str, JsonValue] = {
        "label": opened.data_label,
        "partial": opened.pages.name.partial or opened.selected,
        "drifted": opened.pages.name.drifted,
        "folder": str(opened.pages.folder.resolve()),
        "pages_in_run": opened.pages_taken,
        "pages_in_copy": opened.pages.entries,
        "annotation_sha256": opened.pages.annotation_sha256,
    }
    if opened.crops is None:
        return document
    return document | {"loss": opened.crops.loss}


def references_sha(samples: Sequence[Sample]) -> str:
    """Digest of what crops that were cut from pages are scored against."""
    return sha256_of(sorted((s.sample_id, s.truth) for s in samples))


def open_named_layout(options: RunOptions) -> LayoutProvider:
    """The layout provider of --layout."""
    from gravbench.pages.layouts import open_layout

    return open_layout(
        options.layout, model=options.layout_model, device=options.device, threads=options.threads
    )


DRIFT_FIELDS = ("suite",)


def check_drift(fields: Sequence[str]) -> tuple[str, ...]:
    """`--allow-drift` values; `UsageError` for a field that may not drift."""
    for field in fields:
        if field not in DRIFT_FIELDS:
            raise UsageError(
                f"--allow-drift: {field!r} may not drift", hint=f"known: {', '.join(DRIFT_FIELDS)}"
            )
    return tuple(fields)


def open_suite_data(options: RunOptions, suite: Suite, *, note: Callable[[str], None]) -> OpenedSuite:
    """The chosen samples; every fault of the data set is found here, before a model is loaded."""
    return open_suite(
        suite,
        data=options.data,
        environ=os.environ,
        cache=crops_cache(),
        selection=Selection(
            pages=options.pages,
            where=options.where,
            limit=options.limit,
            stratify=options.stratify,
            seed=options.seed,
            allow_drift="suite" in options.allow_drift,
        ),
        note=note,
    )


def samples_of_run(
    manifest: Manifest, suite: Suite, records: Iterable[GenRecord], *, data: Path | None = None
) -> tuple[AnySample, ...]:
    """The samples of a stored run, from the data folder it names, or from `data`.

    `NotComparableError` (exit 3) where that folder holds something else than what the run's `records` read.
    """
    opened = open_folder(
        suite,
        _folder_of_run(manifest, suite, data),
        cache=crops_cache(),
        selection=Selection(allow_drift=True),  # what the run read is checked below, page by page
        note=lambda _: None,
    )
    wanted = {entry.sample_id for entry in manifest.plan}
    samples = tuple(sample for sample in opened.samples if sample.sample_id in wanted)
    if opened.pages is not None and suite_digest(suite) == manifest.identity.suite_sha:
        _check_same_data(manifest, samples, records, folder=opened.pages.folder)
    return samples


def _folder_of_run(manifest: Manifest, suite: Suite, data: Path | None) -> Path | None:
    """`data`, else the folder the run recorded, else where the suite's pages lie on this machine."""
    stored = manifest.protocol.get("data")
    recorded = stored.get("folder") if isinstance(stored, dict) else None
    if suite.pages is None or (data is None and not isinstance(recorded, str)):
        return data_folder(suite, data=data, environ=os.environ)
    folder = data if data is not None else Path(str(recorded))
    if folder.is_dir():
        return folder
    if data is None and suite.pages.data is not None:
        return data_folder(suite, data=None, environ=os.environ)
    raise DataError(
        f"{folder}: no such folder, the run's pages lay there"
        if data is None
        else f"{folder}: no such folder",
        hint="Name the folder that holds the same pages: gravbench score RUN --data DIR.",
    )


def _check_same_data(
    manifest: Manifest, samples: Sequence[AnySample], records: Iterable[GenRecord], *, folder: Path
) -> None:
    hint = "Score with --data DIR, the copy the run was made on, or run again on this one."
    found = {sample.sample_id: sample.image_sha256 for sample in samples}
    for sample_id, digest in sorted({record.sample_id: record.input_sha for record in records}.items()):
        if found.get(sample_id) != digest:
            what = "not there" if sample_id not in found else "changed since the run"
            raise NotComparableError(f"{folder}: {sample_id}: image or annotation {what}", hint=hint)
    references = manifest.identity.references_sha
    if references is not None and references != references_sha(samples):
        raise NotComparableError(
            f"{folder}: the ground truth of its crops has changed since the run, references_sha is "
            f"{references_sha(samples)[:12]}, was {str(references)[:12]}",
            hint=hint,
        )


def crops_cache() -> Path:
    """Where region crops cut from pages are kept between runs."""
    return user_cache_path("gravbench") / "page-crops"
