"""Region crops cut from annotated pages: an ordinary crops suite made on this machine, once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gravbench.errors import DataError, printable
from gravbench.imaging import bytes_digest
from gravbench.pages.reader import cut_region, open_page
from gravbench.pages.regions import AnnotatedRegion, PageSample, annotated_regions, page_scale, scaled
from gravbench.records import Task
from gravbench.store.files import disk_error
from gravbench.suites.manifest import Suite
from gravbench.suites.samples import Annotation, Sample, read_samples

CROP_RULES = "crops-3"
"""Part of the cache's key; a change of what is cut, or how, gets a new name here."""
TASK_OF_CATEGORY: dict[str, Task] = {
    "text_block": "text",
    "title": "text",
    "code_txt": "text",
    "reference": "text",
    "table": "table",
    "equation_isolated": "formula",
}
"""Categories that count in the official score, by the task that reads them."""

LEFT_OUT = "left_out.jsonl"

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("$", "$"))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Regions of one page that could not be cut, and why: one of them, or all where the page has no image."""

    page: str
    regions: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCrops:
    """Crops of a copy's pages. `left_out`, of all languages: what the copy should have given and did not."""

    samples: tuple[Sample, ...]
    left_out: tuple[LeftOut, ...]
    folder: Path

    @property
    def loss(self) -> str | None:
        """The regions left out in a sentence; `None` when there are none."""
        count = sum(one.regions for one in self.left_out)
        if not count:
            return None
        lossy = [one for one in self.left_out if one.regions]
        pages, first = len({one.page for one in lossy}), lossy[0]
        plural = "" if count == 1 else "s"
        return (
            f"{count:,} region{plural} of {pages:,} page{'' if pages == 1 else 's'} could not be cut and are "
            f"not in this run, first {first.page}: {first.why}"
        )


def crop_samples(
    suite: Suite, pages: Sequence[PageSample], *, cache: Path, note: Callable[[str], None]
) -> PageCrops:
    """Samples of a `page-crops` suite; cut into `cache` on the first call, read from there afterwards.

    Regions without ground truth are none of the suite's. Regions without area, and those of pages without a
    usable image, are lost: `note` is told on every call, `left_out.jsonl` beside the crops names each.
    """
    assert suite.pages is not None
    key = bytes_digest(
        "\n".join([CROP_RULES, str(suite.pages.crop_grid), *(page.image_sha256 for page in pages)]).encode()
    )
    folder = cache / key[:16]
    index = folder / "samples.jsonl"
    if not (index.is_file() and (folder / LEFT_OUT).is_file()):
        note(f"cutting region crops from {len(pages):,} pages into {folder}")
        try:
            _cut_all(pages, folder, grid=suite.pages.crop_grid)
        except OSError as error:
            raise disk_error(error, folder, option="HOME") from error
    samples = read_samples(folder, index.name, bytes_digest(index.read_bytes()))
    if suite.languages:
        samples = tuple(s for s in samples if s.attributes.get("language") in suite.languages)
    if not samples:
        raise DataError(
            f"suite {suite.name}: no region of the {len(pages):,} pages is in {', '.join(suite.languages)}"
        )
    crops = PageCrops(samples=samples, left_out=_read_left_out(folder), folder=folder)
    if crops.loss is not None:
        note(f"{crops.loss}; all of them: {folder / LEFT_OUT}")
    return crops


def reference_of(region: AnnotatedRegion) -> str:
    """Ground truth in the form the model answers: bare LaTeX for formulas, HTML for tables."""
    text = region.content.strip()
    return reference_of_formula(text) if region.category == "equation_isolated" else text


def reference_of_formula(text: str) -> str:
    """LaTeX without the delimiters around all of it."""
    text = text.strip()
    for opening, closing in _DELIMITERS:
        inside = text[len(opening) : len(text) - len(closing)]
        if len(text) >= len(opening) + len(closing) and text == f"{opening}{inside}{closing}":
            return inside.strip()
    return text


def language_of(region: AnnotatedRegion) -> str:
    """`english`, `simplified_chinese`, ... from the block's attributes; `unknown` without one."""
    for name in ("text_language", "language", "equation_language"):
        value = region.attributes.get(name)
        if isinstance(value, str):
            bare = value.removeprefix("text_").removeprefix("table_").removeprefix("equation_")
            return {"en": "english", "ch": "simplified_chinese"}.get(bare, bare)
    return "unknown"


def _cut_all(pages: Sequence[PageSample], folder: Path, *, grid: int) -> None:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    left_out: list[LeftOut] = []
    lines = [line for page in pages for line in _cut_page(page, folder, grid=grid, left_out=left_out)]
    lost = "".join(f"{json.dumps(asdict(one), ensure_ascii=False)}\n" for one in left_out)
    (folder / LEFT_OUT).write_text(lost, encoding="utf-8")
    temporary = folder / f"samples.{os.getpid()}.tmp"
    temporary.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    temporary.replace(folder / "samples.jsonl")


def _read_left_out(folder: Path) -> tuple[LeftOut, ...]:
    path = folder / LEFT_OUT
    try:
        return tuple(LeftOut(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    except (ValueError, TypeError) as fault:
        raise DataError(
            f"{path}: damaged: {fault}", hint=f"Remove {folder}; the crops are cut again."
        ) from fault


def _scored_blocks(entry: dict[str, Any]) -> int:
    """Blocks of a page that the suite would cut, counted without its image."""
    return sum(
        block.get("category_type") in TASK_OF_CATEGORY
        and not block.get("ignore", False)
        and any(str(block.get(key, "")).strip() for key in ("text", "html", "latex"))
        for block in entry["layout_dets"]
    )


def _reason(page: PageSample, error: DataError) -> str:
    """The fault without the place of the image: another copy with the same pages shares these crops."""
    return printable(error.message.rpartition(f"{page.image_name}: ")[2])


def _cut_page(page: PageSample, folder: Path, *, grid: int, left_out: list[LeftOut]) -> Iterator[str]:
    try:
        image = open_page(page)
        regions = annotated_regions(page.entry)
        factors = page_scale(page.entry, image.size)
    except DataError as error:
        left_out.append(LeftOut(page.image_name, _scored_blocks(page.entry), _reason(page, error)))
        return
    page_key = bytes_digest(page.image_name.encode())[:12]
    for number, region in enumerate(regions):
        task = TASK_OF_CATEGORY.get(region.category)
        reference = reference_of(region)
        if task is None or not reference:
            continue
        try:
            _check_unicode(region, reference)
            crop = cut_region(image, scaled(region.region, factors), grid=grid)
        except DataError as error:
            left_out.append(LeftOut(page.image_name, 1, _reason(page, error)))
            continue
        sample_id = f"{task}-{page_key}-{number:03}"
        place = folder / "images" / f"{sample_id}.png"
        crop.save(place, format="PNG")
        annotation = Annotation(
            sample_id=sample_id,
            task=task,
            image=f"images/{sample_id}.png",
            image_sha256=bytes_digest(place.read_bytes()),
            reference=reference,
            attributes={
                "page": page.image_name,
                "category": region.category,
                "language": printable(language_of(region))
                if language_of(region) != "unknown"
                else str(page.attributes.get("language", "unknown")),
            },
        )
        yield json.dumps(annotation.model_dump(), ensure_ascii=False, separators=(",", ":"))


def _check_unicode(region: AnnotatedRegion, reference: str) -> None:
    try:
        reference.encode("utf-8")
    except UnicodeEncodeError as fault:
        raise DataError(
            f"region {region.region.region_id}: half a surrogate pair at character {fault.start} of its "
            "ground truth, expected Unicode text"
        ) from fault
