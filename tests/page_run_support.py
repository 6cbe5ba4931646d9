"""Runs over small page folders, with fakes in place of model and layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from page_support import entry, page_suite, write_folder
from run_support import FakeBackend, QuietProgress

from gravbench.options import RunOptions
from gravbench.pages.layouts import GroundTruthLayout
from gravbench.protocols import Backend
from gravbench.runner.run import Outcome, run
from gravbench.suites.data import OpenedSuite, Selection, open_suite


def opened(folder: Path, entries: list[dict[str, Any]], **pages: Any) -> OpenedSuite:
    page_set = write_folder(folder, entries).model_copy(update=pages)
    return open_suite(
        page_suite(page_set),
        data=folder,
        environ={},
        cache=folder / "cache",
        selection=Selection(),
        note=lambda _: None,
    )


def run_pages(suite: OpenedSuite, out: Path, *, backend: Backend | None = None, **options: Any) -> Outcome:
    return run(
        RunOptions(suite="bench", out=out, backend="fake", **options),
        suite.suite,
        suite.samples,
        open_backend=lambda _options, _suite: backend or FakeBackend(),
        progress=QuietProgress(),
        environ={},
        opened=suite,
        open_layout=lambda _options: GroundTruthLayout(),
    )


def many(count: int) -> list[dict[str, Any]]:
    return [entry(f"page-{n}.png") for n in range(count)]


def reopened(folder: Path, entries: list[dict[str, Any]]) -> OpenedSuite:
    """The same pages, whatever their images are by now."""
    suite = page_suite(write_folder(folder, entries, images=False))
    return open_suite(
        suite, data=folder, environ={}, cache=folder / "cache", selection=Selection(), note=lambda _: None
    )
