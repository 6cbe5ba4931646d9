"""The samples of a run: chosen as its options say, or found again for a stored run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from gravbench.errors import DataError, NotComparableError, UsageError
from gravbench.options import RunOptions
from gravbench.runner.pages import references_sha
from gravbench.store.schema import GenRecord, Manifest
from gravbench.suites.data import AnySample, OpenedSuite, Selection, data_folder, open_folder, open_suite
from gravbench.suites.manifest import Suite, suite_digest

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
