"""Region crops cut from annotated pages: an ordinary crops suite made on this machine, once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gravbench.annotations import AnnotatedRegion, annotated_regions, page_scale, scaled
from gravbench.cropping import cut_region
from gravbench.errors import DataError
from gravbench.imaging import bytes_digest, load_image
from gravbench.printable import printable
from gravbench.records import Task
from gravbench.regions import PageSample
from gravbench.suites.manifest import Suite
from gravbench.suites.samples import Annotation, Sample, read_samples

CROP_RULES = "crops-2"
PAGE_PIXELS = 170_000_000
TASK_OF_CATEGORY: dict[str, Task] = {
    "text_block": "text",
    "title": "text",
    "code_txt": "text",
    "reference": "text",
    "table": "table",
    "equation_isolated": "formula",
}
"""Categories that count in the official score, by the task that reads them."""

_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("$", "$"))


def crop_samples(
    suite: Suite, pages: Sequence[PageSample], *, cache: Path, note: Callable[[str], None]
) -> tuple[Sample, ...]:
    """Samples of a `page-crops` suite; cut into `cache` on the first call, read from there afterwards.

    Regions without ground truth or without area are left out, pages without a usable image too; each is named
    in `left_out.txt` beside the crops.
    """
    assert suite.pages is not None
    key = bytes_digest(
        "\n".join([CROP_RULES, str(suite.pages.crop_grid), *(page.image_sha256 for page in pages)]).encode()
    )
    folder = cache / key[:16]
    index = folder / "samples.jsonl"
    if not index.is_file():
        note(f"cutting region crops from {len(pages):,} pages into {folder}")
        _cut_all(pages, folder, grid=suite.pages.crop_grid)
    samples = read_samples(folder, index.name, bytes_digest(index.read_bytes()))
    if suite.languages:
        samples = tuple(s for s in samples if s.attributes.get("language") in suite.languages)
    if not samples:
        raise DataError(
            f"suite {suite.name}: no region of the {len(pages):,} pages is in {', '.join(suite.languages)}"
        )
    return samples


def reference_of(region: AnnotatedRegion) -> str:
    """Ground truth in the form the model answers: bare LaTeX for formulas, HTML for tables."""
    text = region.content.strip()
    if region.category == "equation_isolated":
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
    left_out: list[str] = []
    lines = [line for page in pages for line in _cut_page(page, folder, grid=grid, left_out=left_out)]
    (folder / "left_out.txt").write_text("".join(f"{line}\n" for line in left_out), encoding="utf-8")
    temporary = folder / f"samples.{os.getpid()}.tmp"
    temporary.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")
    temporary.replace(folder / "samples.jsonl")


def _cut_page(page: PageSample, folder: Path, *, grid: int, left_out: list[str]) -> Iterator[str]:
    try:
        if page.fault is not None or page.image_path is None:
            raise DataError(page.fault or "no image")
        image = load_image(page.image_path, max_pixels=PAGE_PIXELS)
        regions = annotated_regions(page.entry)
        factors = page_scale(page.entry, image.size)
    except DataError as error:
        left_out.append(_named(page, error))
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
            left_out.append(_named(page, error))
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


def _named(page: PageSample, error: DataError) -> str:
    """One line for `left_out.txt`."""
    return f"{page.image_name}: {printable(error.whole)}"
