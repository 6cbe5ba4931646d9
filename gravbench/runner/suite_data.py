"""The samples of a run: chosen as its options say, or found again for a stored run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from gravbench.errors import UsageError
from gravbench.runner.options import RunOptions
from gravbench.store.schema import Manifest
from gravbench.suites.manifest import Suite
from gravbench.suites.opening import AnySample, OpenedSuite, Selection, open_suite

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
            limit=options.limit,
            stratify=options.stratify,
            seed=options.seed,
            allow_drift="suite" in options.allow_drift,
        ),
        note=note,
    )


def samples_of_run(manifest: Manifest, suite: Suite) -> tuple[AnySample, ...]:
    """The samples that a stored run was made on, from the data folder it names."""
    stored = manifest.protocol.get("data")
    folder = stored.get("folder") if isinstance(stored, dict) else None
    opened = open_suite(
        suite,
        data=Path(folder) if isinstance(folder, str) and suite.pages is not None else None,
        environ=os.environ,
        cache=crops_cache(),
        selection=Selection(allow_drift=isinstance(stored, dict) and bool(stored.get("drifted"))),
        note=lambda _: None,
    )
    wanted = {entry.sample_id for entry in manifest.plan}
    return tuple(sample for sample in opened.samples if sample.sample_id in wanted)


def crops_cache() -> Path:
    """Where region crops cut from pages are kept between runs."""
    return user_cache_path("gravbench") / "page-crops"
