"""What a run needs beside the backend when its suite has pages: a layout, budgets, and the data's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from gravbench.options import RunOptions
from gravbench.pages.reader import PageReader
from gravbench.pages.regions import LayoutProvider, PageSample
from gravbench.protocols import Backend
from gravbench.store.page_schema import PageDetail
from gravbench.store.schema import sha256_of

if TYPE_CHECKING:
    from gravbench.suites.data import OpenedSuite
    from gravbench.suites.manifest import Suite
    from gravbench.suites.samples import Sample

OpenLayout = Callable[[RunOptions], LayoutProvider]
CROPS_FOLDER = ".crops"


@dataclass(frozen=True, kw_only=True)
class PageSetup:
    """The open layout of a run with pages, and how regions are cut and asked for."""

    layout: LayoutProvider
    crop_grid: int

    def reader(
        self, suite: Suite, backend: Backend, *, run_folder: Path, clock: Callable[[], int]
    ) -> PageReader:
        """The reader of this run's pages; its scratch folder lies in the run folder."""
        return PageReader(
            backend=backend,
            layout=self.layout,
            budgets=suite.max_new_tokens,
            crops=run_folder / CROPS_FOLDER,
            clock=clock,
            crop_grid=self.crop_grid,
        )


def page_setup(
    options: RunOptions,
    suite: Suite,
    samples: Sequence[Sample | PageSample],
    *,
    open_layout: OpenLayout,
) -> PageSetup | None:
    """The setup when there are pages among the samples, else `None`."""
    if not any(isinstance(sample, PageSample) for sample in samples):
        return None
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


def references_sha(samples: Sequence[Sample | PageSample]) -> str:
    """Digest of what the crops among the samples are scored against."""
    return sha256_of(sorted((s.sample_id, s.reference) for s in samples if not isinstance(s, PageSample)))


def open_named_layout(options: RunOptions) -> LayoutProvider:
    """The layout provider of --layout."""
    from gravbench.pages.layouts import open_layout

    return open_layout(
        options.layout, model=options.layout_model, device=options.device, threads=options.threads
    )


def prompt_sha(suite: Suite, sample: Sample | PageSample) -> str:
    """Hash of the prompt, or for a page of all prompts by task."""
    if isinstance(sample, PageSample):
        return sha256_of({str(task): text for task, text in suite.prompts.items()})
    from gravbench.store.schema import sha256_text

    return sha256_text(suite.prompts[sample.task])


def budget_of(suite: Suite, sample: Sample | PageSample, detail: PageDetail | None) -> int:
    """Output tokens a sample may have; for a page the sum over its regions."""
    if isinstance(sample, PageSample):
        regions = detail.regions if detail is not None else ()
        return max(1, sum(suite.max_new_tokens[region.task] for region in regions))
    return suite.max_new_tokens[sample.task]
