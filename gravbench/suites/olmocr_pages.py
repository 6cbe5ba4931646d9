"""olmOCR-Bench's folder (`*.jsonl` beside `pdfs/`) -> page samples with tests; PDFs become images by need.

A page's id is its PDF's path below `pdfs/` with `/` as `%2F`, then `_pgN`: predictions are named after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path

from gravbench.errors import DataError
from gravbench.imaging import (
    MAX_PDF_BYTES,
    bytes_digest,
    file_digest,
    is_within,
    open_pdf,
    png_of,
    read_bounded,
)
from gravbench.olmocr.bench import base_name, read_bench
from gravbench.olmocr.page import Rules
from gravbench.pages.regions import NO_DIGEST, PageSample
from gravbench.provenance import package_version
from gravbench.store.files import make_folder, write_atomic

TEST_FILES = "*.jsonl"
"""`pages.annotations` of a suite whose pages are olmOCR-Bench's."""
LONGER_SIDE = 1288
"""Pixels of a rendered page's longer side, as in olmOCR's own pipeline."""
SLASH = "%2F"


def page_id(pdf: str, page: int | str) -> str:
    """`letters/a.pdf`, 2 -> `letters%2Fa_pg2`."""
    return f"{base_name(pdf).replace('%', '%25').replace('/', SLASH)}_pg{page}"


def page_path(sample_id: str) -> str:
    """`letters%2Fa_pg2` -> `letters/a_pg2`: what files of predictions begin with."""
    return sample_id.replace(SLASH, "/").replace("%25", "%")


def tests_digest(folder: Path) -> str:
    """Digest of all test files, by name."""
    lines = [f"{path.name} {file_digest(path)}" for path in sorted(folder.glob(TEST_FILES))]
    return bytes_digest("\n".join(lines).encode())


def read_samples(folder: Path) -> tuple[tuple[PageSample, ...], str]:
    """A page for each (PDF, page) with tests, sorted by id, and what the whole may be called.

    `DataError` for tests that the official program refuses, and for PDFs that leave the folder.
    """
    bench = read_bench(folder, Rules.RELEASE)
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number, booked in enumerate(bench.tests):
        row = {"number": number, "category": booked.category, **booked.row}
        rows.setdefault((row["pdf"], str(row["page"])), []).append(row)
    samples = sorted((_sample(folder, pdf, page, own) for (pdf, page), own in rows.items()), key=_id)
    return tuple(samples), bench.label


def _id(sample: PageSample) -> str:
    return sample.sample_id


def _sample(folder: Path, pdf: str, page: str, rows: Sequence[Mapping[str, Any]]) -> PageSample:
    name = page_id(pdf, page)
    place = folder / "pdfs" / pdf
    fault = None
    if not place.is_file():
        fault = f"{place}: not found. Restore the PDF."
    elif not is_within(place.resolve(), (folder / "pdfs").resolve()):
        fault = f"{place}: leads out of {folder / 'pdfs'}. Copy the PDF there."
    return PageSample(
        sample_id=name,
        image_name=f"{name}.png",
        image_path=str(place) if fault is None else None,
        image_sha256=NO_DIGEST,
        entry={
            "page_info": {"image_path": f"{name}.png", "pdf": pdf, "pdf_page": page},
            "tests": list(rows),
        },
        attributes={"category": "+".join(dict.fromkeys(str(row["category"]) for row in rows))},
        fault=fault,
    )


def with_image(sample: PageSample, cache: Path | None = None) -> PageSample:
    """The sample with its page rendered into `cache`, kept by the PDF's digest, page, size and renderer.

    Other pages, and those with a fault, are given back as they are; a PDF that cannot be rendered is a fault.
    """
    info = sample.entry["page_info"]
    if "tests" not in sample.entry or sample.image_path is None:
        return sample
    try:
        pdf = read_bounded(Path(sample.image_path), limit=MAX_PDF_BYTES, what="PDF")
        made_of = (
            f"{bytes_digest(pdf)} {info['pdf_page']} {LONGER_SIDE} pypdfium2 {package_version('pypdfium2')}"
        )
        name = bytes_digest(made_of.encode())
        place = (cache or user_cache_path("gravbench") / "pdf-pages") / f"{name}.png"
        if not place.is_file():
            make_folder(place.parent)
            write_atomic(place, _rendered(pdf, str(info["pdf_page"])))
    except DataError as fault:
        return replace(sample, image_path=None, fault=fault.whole)
    return replace(sample, image_path=str(place))


def _rendered(pdf: bytes, page: str) -> bytes:
    """PNG of page `page` (from 1), its longer side LONGER_SIDE pixels."""
    with open_pdf(pdf) as document:
        if not page.isdigit() or not 1 <= int(page) <= len(document):
            raise DataError(f"page {page} of a PDF of {len(document)} pages", hint="Correct the tests.")
        found = document[int(page) - 1]
        return png_of(found, scale=LONGER_SIDE / max(found.get_size()), compress_level=1)
