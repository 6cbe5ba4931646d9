"""What a run needs beside the backend when its suite has pages: a layout, budgets, and the data's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from gravbench.errors import UsageError
from gravbench.options import RunOptions
from gravbench.pages.reader import PageReader
from gravbench.pages.regions import LayoutProvider, has_places
from gravbench.protocols import Backend
from gravbench.runner.readers import RegionsReader
from gravbench.scorers.contract import Sample
from gravbench.store.schema import sha256_of

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
            f"--layout ground-truth: page {placeless[0]} of suite {suite.name} has Markdown as its truth, "
            "and no annotated regions",
            hint="Let a layout find them: --layout whitespace or --layout pp-doclayout-v3.",
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
