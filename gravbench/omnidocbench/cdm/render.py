"""Many formulas to token boxes: batches of TeX, one raster run, a folder of its own for what misbehaves.

A batch that dies is repeated without the formula that killed it, or split in two when that is unknown; what a
batch shows is used only where its log can be trusted; everything else runs alone, in the official document.
"""

from __future__ import annotations

import secrets
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from gravbench.omnidocbench.cdm.raster import (
    Boxes,
    Page,
    RasterError,
    croppable_pages,
    draw_pages,
    draw_whole,
    find_boxes,
    ink_picture,
)
from gravbench.omnidocbench.cdm.tex import (
    LARGEST_PAPER,
    PageSpan,
    SoloRun,
    must_run_alone,
    run_batch,
    run_solo,
    start_paper,
)
from gravbench.omnidocbench.cdm.tokenise import Template
from gravbench.omnidocbench.cdm.tools import Limits, wipe

KILLED = "killed"


@dataclass(frozen=True)
class Source:
    """A coloured formula: what is typeset, and what is looked for afterwards."""

    body: str
    template: Template
    tokens: int
    colours: int


@dataclass(frozen=True)
class Rendering:
    """Boxes, or the reason why there are none."""

    boxes: Boxes | None
    problem: str | None = None
    alone: bool = False
    """Typeset in a run of its own."""
    limit: str | None = None
    """The limit that ended it. Such an outcome depends on the machine and is never cached."""
    lasting: bool = True
    """The same source would come out the same again."""
    ink: NDArray[np.bool_] | None = None
    """The cropped image, where it was asked for; never cached."""


@dataclass(frozen=True)
class Engine:
    """The two programs and what they may use."""

    pdflatex: Path
    gs: Path
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class _Batch:
    template: Template
    paper: int
    members: tuple[int, ...]


class Steps:
    """Counts renderings of jobs side by side: half of one when it is typeset, half when it is drawn."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total, self._progress = total, progress
        self._halves, self._lock = 0, Lock()
        self._add(0)

    @contextmanager
    def of(self, members: int) -> Iterator[Callable[[int], None]]:
        """What one job of so many calls; at its end all of them count, whatever way they took."""
        left = 2 * members

        def step(halves: int) -> None:
            nonlocal left
            taken = min(halves, left)
            left -= taken
            self._add(taken)

        yield step
        step(left)

    def _add(self, halves: int) -> None:
        with self._lock:
            self._halves += halves
            if self._progress:
                self._progress(self._halves // 2, self._total)


def render(
    sources: Sequence[Source],
    *,
    engine: Engine,
    scratch: Path,
    step: Callable[[int], None] | None = None,
    pictures: bool = False,
) -> list[Rendering]:
    """Render all sources, in order. Never raises for a formula; files live below `scratch` and are removed.

    `step` is called with how many were typeset, and again with how many were drawn; `pictures` keeps the ink.
    A failure of the machine itself (disk full) becomes the problem of the sources it hit.
    """
    return _Job(sources, engine, scratch, step or (lambda _: None), pictures=pictures).run()


class _Job:
    """One call of `render`: which formulas wait, which pages are kept, what is known already."""

    def __init__(
        self,
        sources: Sequence[Source],
        engine: Engine,
        scratch: Path,
        step: Callable[[int], None],
        *,
        pictures: bool,
    ) -> None:
        self.sources = sources
        self.step = step
        self.pictures = pictures
        self.engine = engine
        self.scratch = scratch
        self.done: dict[int, Rendering] = {}
        self.alone: list[int] = []
        self.waiting: dict[tuple[Template, int], list[int]] = defaultdict(list)
        self.forced: list[_Batch] = []
        self.kept: list[tuple[Path, dict[int, PageSpan]]] = []
        self.folders: list[Path] = []

    def run(self) -> list[Rendering]:
        try:
            self.scratch = Path(tempfile.mkdtemp(prefix="job-", dir=self.scratch))
            self.folders.append(self.scratch)
            (self.scratch / "home").mkdir()
            self._run_batches()
            self._draw_batches()
            for index in self.alone:
                self.done[index] = self._run_alone(index)
                self.step(2)
        except OSError as error:
            reason = f"scratch folder {self.scratch}: {error.strerror or error}"
            for index in range(len(self.sources)):
                self.done.setdefault(index, Rendering(None, reason, lasting=False))
        finally:
            for folder in self.folders:
                wipe(folder)
        return [self.done[index] for index in range(len(self.sources))]

    # --- batches -----------------------------------------------------------------------------------------

    def _run_batches(self) -> None:
        for index, source in enumerate(self.sources):
            if must_run_alone(source.body):
                self.alone.append(index)
            else:
                self.waiting[source.template, start_paper(source.tokens)].append(index)
        while self.waiting or self.forced:
            for batch in [*self._take_batches()]:
                self._run_batch(batch)

    def _take_batches(self) -> Iterator[_Batch]:
        """Everything that waits now; what a run sends back waits for the next round."""
        forced, waiting = self.forced, self.waiting
        self.forced, self.waiting = [], defaultdict(list)
        yield from forced
        size = self.engine.limits.batch_size
        for (template, paper), members in waiting.items():
            for at in range(0, len(members), size):
                yield _Batch(template, paper, tuple(members[at : at + size]))

    def _run_batch(self, batch: _Batch) -> None:
        run = run_batch(
            [self.sources[index].body for index in batch.members],
            template=batch.template,
            paper=batch.paper,
            folder=self._folder(),
            pdflatex=self.engine.pdflatex,
            limits=self.engine.limits,
            mark="GRAVBENCH-" + secrets.token_hex(8),
        )
        if run.pdf is None:
            self._send_back(batch, run.culprit)
            return
        if not run.spans:
            self._send_back(batch, None)
            return
        pages: dict[int, PageSpan] = {}
        for number, index in enumerate(batch.members):
            span = run.spans.get(number)
            if span is None:
                self.waiting[batch.template, batch.paper].append(index)
            elif not span.trusted:
                self.alone.append(index)
            elif span.overfull and batch.paper > LARGEST_PAPER:
                self.waiting[batch.template, batch.paper - 1].append(index)
            else:
                pages[index] = span
        if pages:
            self.kept.append((run.pdf, pages))
            self.step(len(pages))

    def _send_back(self, batch: _Batch, culprit: int | None) -> None:
        """After a fatal stop: once more without the culprit, or in halves when it is unknown."""
        if len(batch.members) == 1:
            self.alone += batch.members
        elif culprit is not None and culprit < len(batch.members):
            self.alone.append(batch.members[culprit])
            others = [index for number, index in enumerate(batch.members) if number != culprit]
            self.waiting[batch.template, batch.paper] += others
        else:
            middle = len(batch.members) // 2
            halves = (batch.members[:middle], batch.members[middle:])
            self.forced += [_Batch(batch.template, batch.paper, half) for half in halves]

    # --- pixels ------------------------------------------------------------------------------------------

    def _draw_batches(self) -> None:
        """All kept pages in one run; file by file if that fails; alone if that fails too."""
        try:
            self._draw(self.kept)
        except RasterError:
            for kept in self.kept:
                try:
                    self._draw([kept])
                except RasterError:
                    self.alone += [index for index in kept[1] if index not in self.done]

    def _draw(self, kept: Sequence[tuple[Path, dict[int, PageSpan]]]) -> None:
        if not kept:
            return
        wanted = [
            frozenset(page for span in spans.values() for page in range(span.first, span.end))
            for _, spans in kept
        ]
        drawn = draw_pages(
            [pdf for pdf, _ in kept],
            wanted,
            folder=self._folder(),
            gs=self.engine.gs,
            limits=self.engine.limits,
        )
        for (_, spans), pages in zip(kept, drawn, strict=True):
            for index, span in spans.items():
                own = [pages[page] for page in range(span.first, span.end)]
                self.done[index] = self._rendering(index, own)
            self.step(len(spans))

    def _rendering(self, index: int, pages: Sequence[Page], *, alone: bool = False) -> Rendering:
        source = self.sources[index]
        boxes = find_boxes(pages, tokens=source.tokens, colours=source.colours)
        return Rendering(boxes, alone=alone, ink=ink_picture(pages) if self.pictures else None)

    # --- alone -------------------------------------------------------------------------------------------

    def _run_alone(self, index: int) -> Rendering:
        """The official way: one document, larger paper while something is overfull, all pages stacked."""
        source = self.sources[index]
        for paper in range(start_paper(source.tokens), LARGEST_PAPER - 1, -1):
            folder, run = self._solo(source, paper)
            if run.pdf is None:
                return Rendering(None, run.problem, alone=True, limit=run.stopped, lasting=run.lasting)
            if run.overfull and paper > LARGEST_PAPER:
                wipe(folder)
                continue
            try:
                return self._rendering(index, self._draw_alone(run.pdf, folder), alone=True)
            except RasterError as error:
                return Rendering(None, str(error), alone=True, lasting=False)
            finally:
                wipe(folder)
        raise AssertionError("the largest paper always returns")

    def _solo(self, source: Source, paper: int) -> tuple[Path, SoloRun]:
        """One run; a second one if something outside killed the first."""
        run = None
        for _ in range(2):
            folder = self._folder()
            run = run_solo(
                source.body,
                template=source.template,
                paper=paper,
                folder=folder,
                pdflatex=self.engine.pdflatex,
                limits=self.engine.limits,
            )
            if run.stopped != KILLED:
                break
        assert run is not None
        return folder, run

    def _draw_alone(self, pdf: Path, folder: Path) -> list[Page]:
        limits, gs = self.engine.limits, self.engine.gs
        wanted = frozenset(range(croppable_pages(pdf)))
        try:
            pages = draw_pages([pdf], [wanted], folder=folder, gs=gs, limits=limits)[0]
        except RasterError:
            return draw_whole(pdf, folder=folder, gs=gs, limits=limits)
        return [pages[page] for page in sorted(pages)]

    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=self.scratch))
        self.folders.append(folder)
        return folder
