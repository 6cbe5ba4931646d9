"""Read one page: layout, crops, one model call a region, assembly; every stage timed, nothing else done."""

from __future__ import annotations

import io
import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw

from gravbench.arms import batch_of
from gravbench.errors import DataError, printable
from gravbench.imaging import load_image
from gravbench.pages.assembly import ASSEMBLER, ReadRegion, assemble
from gravbench.pages.regions import LayoutProvider, PageSample, Region, route_of
from gravbench.protocols import Backend
from gravbench.records import TASKS, DecodeConfig, Generation, Piece, Request, StopReason, Task, piece_of
from gravbench.store.files import disk_error, make_folder
from gravbench.store.schema import Assembly, StageTimes

PAGE_PIXELS = 170_000_000
"""Pixels a page may have: below the point where the image library itself refuses."""

SKEW = 2.0
"""A polygon that leaves its bounding box by more pixels than this is cut out along its edges."""
FLAT = 1e-9
"""Share of its length that a line may be thick by rounding."""

_CORRECT_POLYGON = "Correct the polygon, or the page's width and height."


class Pictured(Protocol):
    """What has an image: a page, or a crop."""

    @property
    def image_name(self) -> str: ...
    @property
    def image_path(self) -> str | None: ...
    @property
    def fault(self) -> str | None: ...
    @property
    def annotated(self) -> tuple[float, float] | None: ...


def open_page(page: Pictured) -> Image.Image:
    """A page's image as its annotation sees it; `DataError` with the reason where it has none."""
    if page.fault is not None or page.image_path is None:
        raise DataError(page.fault or f"{page.image_name}: no image")
    return load_image(page.image_path, max_pixels=PAGE_PIXELS, annotated=page.annotated)


def cut_region(image: Image.Image, region: Region, *, grid: int = 1) -> Image.Image:
    """The region's bounding box, clipped to the page, padded with its background to multiples of `grid`.

    Outside a slanted polygon the crop shows the background as well. A region without area on the page is a
    `DataError`.
    """
    left, top, right, bottom = clipped_box(image.size, region)
    crop = image.crop((left, top, right, bottom))
    paper = background_of(crop)
    if _is_slanted(region):
        mask = Image.new("1", crop.size, 0)
        ImageDraw.Draw(mask).polygon([(x - left, y - top) for x, y in region.polygon], fill=1)
        flat = Image.new(crop.mode, crop.size, paper)
        flat.paste(crop, (0, 0), mask)
        crop = flat
    width, height = (grid * math.ceil(side / grid) for side in crop.size)
    if (width, height) == crop.size:
        return crop
    padded = Image.new(crop.mode, (width, height), paper)
    padded.paste(crop, ((width - crop.width) // 2, (height - crop.height) // 2))
    return padded


def background_of(crop: Image.Image) -> int | tuple[int, ...]:
    """Median colour of the crop's outermost pixels."""
    pixels = np.asarray(crop)
    rim = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    levels = np.median(rim, axis=0).astype(int)
    return int(levels) if levels.ndim == 0 else tuple(int(level) for level in levels)


def clipped_box(size: tuple[int, int], region: Region) -> tuple[int, int, int, int]:
    """Whole pixels (left, top, right, bottom) of the region on a page of `size`; `DataError` without any."""
    left, top, right, bottom = region.box
    if not all(math.isfinite(side) for side in region.box) or _is_line(region):
        raise DataError(
            f"region {region.region_id}: polygon {_shown(region)} has no area", hint=_CORRECT_POLYGON
        )
    box = (
        max(0, math.floor(left)),
        max(0, math.floor(top)),
        min(size[0], math.ceil(right)),
        min(size[1], math.ceil(bottom)),
    )
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DataError(
            f"region {region.region_id}: polygon {_shown(region)} lies outside the page of "
            f"{size[0]} x {size[1]} pixels",
            hint=_CORRECT_POLYGON,
        )
    return box


def _is_line(region: Region) -> bool:
    """Whether all corners lie on one line: such a polygon has a box, perhaps, but no area."""
    (x0, y0), *others = region.polygon
    x1, y1 = max(others, key=lambda point: math.hypot(point[0] - x0, point[1] - y0))
    length = math.hypot(x1 - x0, y1 - y0)
    return all(
        abs((x1 - x0) * (y - y0) - (y1 - y0) * (x - x0)) <= FLAT * length * length for x, y in region.polygon
    )


def _is_slanted(region: Region) -> bool:
    left, top, right, bottom = region.box
    return any(min(x - left, right - x) > SKEW or min(y - top, bottom - y) > SKEW for x, y in region.polygon)


def _shown(region: Region) -> str:
    return "(" + ", ".join(f"{side:g}" for side in region.box) + ")"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one arm made of one sample: its pieces, and the text put together from theirs."""

    pieces: tuple[Piece, ...]
    text: str
    assembly: Assembly | None = None
    error: str | None = None
    """Why the sample as a whole has no answer."""
    span_ns: tuple[int, int] | None = None
    """Submission and completion of its one request, where a server answers several at once."""

    @property
    def stop_reason(self) -> StopReason:
        """`length` when any piece ran into its budget."""
        if self.error is not None:
            return "error"
        return "length" if any(piece.stop_reason == "length" for piece in self.pieces) else "eos"

    @property
    def loop_flag(self) -> bool:
        return any(piece.loop_flag for piece in self.pieces if piece.error is None)


_STAGES = ("load", "layout", "crop", "region", "assembly")


@dataclass(slots=True)
class _Stopwatch:
    clock: Callable[[], int]
    spent: dict[str, int] = field(default_factory=dict)
    last: int = 0

    def start(self) -> None:
        self.last = self.clock()

    def lap(self, stage: str) -> None:
        now = self.clock()
        self.spent[stage] = self.spent.get(stage, 0) + now - self.last
        self.last = now


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """One region to read, with its crop on disk."""

    region: Region
    task: Task
    request: Request
    crop_wh: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReader:
    """Reads pages with one backend and one layout. `crops` is a scratch folder, emptied after each page.

    Regions decode together as the strategy's batch size says, else one after the other.
    """

    backend: Backend
    layout: LayoutProvider
    prompts: Mapping[Task, str]
    budgets: Mapping[Task, int]
    crops: Path
    clock: Callable[[], int]
    crop_grid: int = 1

    def read(self, page: PageSample, *, strategy: str) -> Reading:
        """One arm on one page. A fault of the page's own data gives a failed answer with the reason."""
        watch = _Stopwatch(self.clock)
        started = self.clock()
        try:
            return self._read(page, strategy, watch, started)
        except DataError as error:
            return Reading(pieces=(), text="", error=_page_fault(page, error))
        finally:
            shutil.rmtree(self.crops, ignore_errors=True)

    def _read(self, page: PageSample, strategy: str, watch: _Stopwatch, started: int) -> Reading:
        watch.start()
        image = open_page(page)
        watch.lap("load")
        regions = self.layout.regions(page, image)
        watch.lap("layout")
        tasks, skipped, dropped = self._cut(page, image, regions)
        watch.lap("crop")
        answers = self._generate(tasks, strategy)
        watch.lap("region")
        pieces = tuple(_piece(task, answer) for task, answer in zip(tasks, answers, strict=True))
        markdown = assemble([ReadRegion(label=piece.label, text=piece.text) for piece in pieces])
        watch.lap("assembly")
        total = self.clock() - started
        assembly = Assembly(
            image=page.image_name,
            layout=self.layout.describe().name,
            assembler=ASSEMBLER,
            skipped=skipped,
            dropped=dropped,
            stages=StageTimes(**{f"{stage}_ns": watch.spent[stage] for stage in _STAGES}, total_ns=total),
        )
        if pieces and all(piece.error is not None for piece in pieces):
            reason = f"RegionFault: no region could be read; the first: {pieces[0].error}"
            return Reading(pieces=pieces, text="", assembly=assembly, error=reason)
        return Reading(pieces=pieces, text=markdown, assembly=assembly)

    def _cut(
        self, page: PageSample, image: Image.Image, regions: Sequence[Region]
    ) -> tuple[list[_Task], dict[str, int], dict[str, int]]:
        make_folder(self.crops)
        tasks: list[_Task] = []
        passed: dict[str, Counter[str]] = {"skipped": Counter(), "dropped": Counter()}
        for number, region in enumerate(regions):
            route = route_of(region.label)
            if route in passed:
                passed[route][region.label] += 1
                continue
            assert route in TASKS
            crop = cut_region(image, region, grid=self.crop_grid)
            place = self.crops / f"{number:04}.png"
            _save_png(crop, place)
            request = Request(
                request_id=f"{page.sample_id}#{region.region_id}",
                sample_id=f"{page.sample_id}#{region.region_id}",
                task=route,
                image_path=str(place),
                prompt=self.prompts[route],
                max_new_tokens=self.budgets[route],
            )
            tasks.append(_Task(region=region, task=route, request=request, crop_wh=crop.size))
        return tasks, dict(passed["skipped"]), dict(passed["dropped"])

    def _generate(self, tasks: Sequence[_Task], strategy: str) -> list[Generation]:
        def one(task: _Task) -> Generation:
            decode = DecodeConfig(strategy=strategy, max_new_tokens=task.request.max_new_tokens)
            return self.backend.generate(task.request, decode)

        if tasks and batch_of(strategy) > 1:
            longest = max(task.request.max_new_tokens for task in tasks)
            decode = DecodeConfig(strategy=strategy, max_new_tokens=longest)
            return self.backend.generate_batch([task.request for task in tasks], decode)
        return [one(task) for task in tasks]


def _save_png(crop: Image.Image, place: Path) -> None:
    """Write a crop; a disk that refuses it stops the run, since no page is to blame."""
    png = io.BytesIO()
    crop.save(png, format="PNG", compress_level=1)
    try:
        place.write_bytes(png.getvalue())
    except OSError as error:
        raise disk_error(error, place) from error


def _piece(task: _Task, answer: Generation) -> Piece:
    region = task.region
    return piece_of(
        answer,
        task=task.task,
        label=region.label,
        region_id=region.region_id,
        polygon=region.polygon,
        crop_wh=task.crop_wh,
    )


def _page_fault(page: PageSample, error: DataError) -> str:
    """The error with its next step, and with the image's name where it does not say which page it means."""
    reason = printable(error.whole)
    return f"PageFault: {reason if page.image_name in reason else f'{page.image_name}: {reason}'}"
