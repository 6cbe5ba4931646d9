"""Read one page: layout, crops, one model call a region, assembly; every stage timed, nothing else done."""

from __future__ import annotations

import io
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image

from gravbench.arms import batch_of
from gravbench.errors import DataError
from gravbench.pages.assembly import ASSEMBLER, ReadRegion, assemble
from gravbench.pages.region_crop import cut_region, open_page
from gravbench.pages.regions import LayoutProvider, PageSample, Region, route_of
from gravbench.printable import printable
from gravbench.protocols import Backend
from gravbench.records import (
    TASKS,
    DecodeConfig,
    Generation,
    Request,
    StopReason,
    Task,
    Times,
    Trace,
    joined_rounds,
    summed_counters,
)
from gravbench.store.files import disk_error, make_folder
from gravbench.store.page_schema import PageDetail, RegionDetail, StageTimes

_STAGES = tuple(name for name in Times.model_fields if name != "forward_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReading:
    """A page as one answer: Markdown as text, token ids and rounds of its regions one after another."""

    generation: Generation
    detail: PageDetail | None


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

    def read(self, page: PageSample, *, strategy: str) -> PageReading:
        """One arm on one page. A fault of the page's own data gives a failed answer with the reason."""
        watch = _Stopwatch(self.clock)
        started = self.clock()
        try:
            return self._read(page, strategy, watch, started)
        except DataError as error:
            return PageReading(generation=_failed(page, _page_fault(page, error)), detail=None)
        finally:
            shutil.rmtree(self.crops, ignore_errors=True)

    def _read(self, page: PageSample, strategy: str, watch: _Stopwatch, started: int) -> PageReading:
        watch.start()
        image = open_page(page)
        watch.lap("load")
        regions = self.layout.regions(page, image)
        watch.lap("layout")
        tasks, skipped, dropped = self._cut(page, image, regions)
        watch.lap("crop")
        answers = self._generate(tasks, strategy)
        watch.lap("region")
        details = [_detail(task, answer) for task, answer in zip(tasks, answers, strict=True)]
        markdown = assemble([ReadRegion(label=d.label, text=d.text) for d in details])
        watch.lap("assembly")
        total = self.clock() - started
        stages = _stage_times(details, watch.spent, total)
        detail = PageDetail(
            image=page.image_name,
            layout=self.layout.describe().name,
            assembler=ASSEMBLER,
            regions=tuple(details),
            skipped=skipped,
            dropped=dropped,
            stages=stages,
        )
        return PageReading(generation=_joined(page, markdown, answers), detail=detail)

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


def _detail(task: _Task, answer: Generation) -> RegionDetail:
    ok = answer.stop_reason != "error" and answer.trace is not None
    return RegionDetail(
        region_id=task.region.region_id,
        label=task.region.label,
        task=task.task,
        polygon=task.region.polygon,
        crop_wh=task.crop_wh,
        text=answer.text if ok else "",
        stop_reason=answer.stop_reason if ok else "error",
        loop_flag=answer.loop_flag,
        error=None if ok else answer.error or "no trace",
        counters=answer.trace.counters if ok and answer.trace else None,
        times=answer.trace.times if ok and answer.trace else None,
    )


def _joined(page: PageSample, markdown: str, answers: Sequence[Generation]) -> Generation:
    """The regions' answers as one; `stop_reason` is length when any region ran into its budget."""
    good = [a for a in answers if a.stop_reason != "error" and a.trace is not None]
    if answers and not good:
        return _failed(page, f"RegionFault: no region could be read; the first: {answers[0].error}")
    stop: StopReason = "length" if any(a.stop_reason == "length" for a in good) else "eos"
    return Generation(
        request_id=page.sample_id,
        text=markdown,
        token_ids=tuple(token for a in good for token in a.token_ids),
        stop_reason=stop,
        loop_flag=any(a.loop_flag for a in good),
        trace=joined_trace([a.trace for a in good if a.trace is not None]),
    )


def joined_trace(traces: Sequence[Trace]) -> Trace:
    """Counters summed, rounds one after another, times summed where every request measured them."""
    parts = [trace.times.forward_share for trace in traces]
    return Trace(
        counters=summed_counters([trace.counters for trace in traces]),
        rounds=joined_rounds([trace.rounds for trace in traces]),
        times=Times(
            **{name: _sum_known([getattr(t.times, name) for t in traces]) for name in _STAGES},
            forward_share=None if None in parts else sum(part for part in parts if part is not None),
        ),
    )


def _sum_known(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _stage_times(details: Sequence[RegionDetail], spent: Mapping[str, int], total: int) -> StageTimes:
    def summed(name: str) -> int:
        return sum(getattr(d.times, name) or 0 for d in details if d.times is not None)

    return StageTimes(
        load_ns=spent["load"],
        layout_ns=spent["layout"],
        crop_ns=spent["crop"],
        region_ns=spent["region"],
        assembly_ns=spent["assembly"],
        total_ns=total,
        image_ns=summed("image_ns"),
        vision_ns=summed("vision_ns"),
        prefill_ns=summed("prefill_ns"),
        draft_ns=summed("draft_ns"),
        verify_ns=summed("verify_ns"),
        decode_ns=summed("decode_ns"),
    )


def _page_fault(page: PageSample, error: DataError) -> str:
    """The error with its next step, and with the image's name where it does not say which page it means."""
    reason = printable(error.whole)
    return f"PageFault: {reason if page.image_name in reason else f'{page.image_name}: {reason}'}"


def _failed(page: PageSample, reason: str) -> Generation:
    return Generation(request_id=page.sample_id, text="", token_ids=(), stop_reason="error", error=reason)
