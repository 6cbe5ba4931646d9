"""A suite of one's own pages: images or PDFs, and Markdown as their truth, without any annotation.

The truth is cut into text, tables and formulas by the rules that cut predictions of OmniDocBench, and their
order is that of the file. Where on the page they stand nobody knows: a layout has to find regions by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gravbench.errors import DataError, UsageError
from gravbench.imaging import MAX_PDF_BYTES, bytes_digest, decode_image, open_pdf, png_of, read_bounded
from gravbench.omnidocbench.markdown_items import extract_items
from gravbench.omnidocbench.page_scorer import PageScorer
from gravbench.omnidocbench.table_conversion import with_html_tables
from gravbench.records import TASKS
from gravbench.store.files import write_atomic
from gravbench.suites.own_crops import (
    LeftOut,
    MadeSuite,
    Making,
    check_any,
    check_making,
    manifest_text,
    new_suite_folder,
    quoted,
    write_left_out,
)
from gravbench.suites.samples import contained_path
from gravbench.suites.truth_tables import IMAGE_SUFFIXES, MAX_TRUTH_BYTES, decoded

SCORER = "markdown-pages"
PNG_LEVEL = 6
TEXT = ("text_block", "text")
KINDS = {"html_table": ("table", "html"), "equation_isolated": ("equation_isolated", "latex")}
"""What the truth's items become, where it is not text: category and field of an annotated block."""


def make_page_suite(
    images: Path, making: Making, *, truth: Path | None, encoding: str, dpi: int
) -> MadeSuite:
    """Write `OUT/NAME.toml` and `OUT/data/` with `OmniDocBench.json` and `images/`.

    Nothing stays when no page can be used (`DataError`).

    `NAME.md` in `truth`, by default beside the image, is the truth of `NAME.png`; of a PDF of several pages,
    `NAME_pgN.md` that of page N. PDFs are rendered at `dpi`, which the page's attributes record.
    """
    check_making(making)
    if not images.is_dir():
        raise UsageError(f"--images {images}: not a folder", hint="Name the folder of page images or PDFs.")
    texts = truth or images
    entries: list[dict[str, Any]] = []
    left_out: list[LeftOut] = []
    with new_suite_folder(making.out):
        for name in _sources(images):
            try:
                _add_source(images, name, texts, making, entries, left_out, encoding=encoding, dpi=dpi)
            except DataError as fault:
                left_out.append(LeftOut(where=name, what=name, why=fault.whole))
        return _finished(entries, left_out, making)


def _sources(images: Path) -> list[str]:
    """Names of images and PDFs directly in the folder."""
    wanted = (*IMAGE_SUFFIXES, ".pdf")
    return sorted(p.name for p in images.iterdir() if p.suffix.lower() in wanted and p.name[0] != ".")


def _add_source(
    images: Path,
    name: str,
    texts: Path,
    making: Making,
    entries: list[dict[str, Any]],
    left_out: list[LeftOut],
    *,
    encoding: str,
    dpi: int,
) -> None:
    place = contained_path(images, name, where=str(images))
    for page, data, attributes in _pages(place, name, dpi):
        try:
            stem = Path(page).stem
            if any(Path(e["page_info"]["image_path"]).stem.lower() == stem.lower() for e in entries):
                raise DataError("another page has this name, but for its ending or case", hint="Rename one.")
            image = decode_image(data, page)
            text = _truth(texts, stem, single="pdf_page" not in attributes, encoding=encoding)
            entries.append(_entry(page, image.size, text, attributes))
            (making.out / "data" / "images" / page).write_bytes(data)
        except DataError as fault:
            left_out.append(LeftOut(where=page, what=page, why=fault.whole))


def _pages(place: Path, name: str, dpi: int) -> Iterator[tuple[str, bytes, dict[str, Any]]]:
    """Name, bytes and attributes of each page of one file."""
    if place.suffix.lower() != ".pdf":
        yield name, read_bounded(place), {}
        return
    with open_pdf(read_bounded(place, limit=MAX_PDF_BYTES, what="PDF")) as document:
        count = len(document)
        for number in range(count):
            stem = place.stem if count == 1 else f"{place.stem}_pg{number + 1}"
            png = png_of(document[number], scale=dpi / 72, compress_level=PNG_LEVEL)
            yield f"{stem}.png", png, {"pdf": name, "pdf_page": number + 1, "dpi": dpi}


def _truth(folder: Path, stem: str, *, single: bool, encoding: str) -> str:
    names = [f"{stem}.md"] if single or not stem.endswith("_pg1") else [f"{stem}.md", f"{stem[:-4]}.md"]
    found = next((name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise DataError(f"no {names[0]} in {folder}", hint="Write its truth there as Markdown.")
    place = contained_path(folder, found, where=str(folder))
    text = decoded(read_bounded(place, limit=MAX_TRUTH_BYTES, what="truth"), found, encoding)
    if not text.strip():
        raise DataError(f"{found}: an empty truth, expected Markdown", hint="Write what stands on the page.")
    return text


def _entry(name: str, size: tuple[int, int], text: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """The page as OmniDocBench annotates one, but for places: no block has a polygon."""
    blocks = [
        {"category_type": category, field: content, "order": number, "anno_id": number, "ignore": False}
        for number, (category, field, content) in enumerate(_items(text), start=1)
    ]
    if not blocks:
        raise DataError("its truth has neither text nor table nor formula", hint="Write Markdown.")
    return {
        "layout_dets": blocks,
        "extra": {"relation": []},
        "page_info": {
            "page_attribute": attributes,
            "image_path": name,
            "width": size[0],
            "height": size[1],
        },
    }


def _items(text: str) -> Iterator[tuple[str, str, str]]:
    """(category, field, content) in the order of the file. Formulas within a line stay part of its text."""
    found = extract_items(with_html_tables(text), PageScorer().converters)
    for item in sorted((item for own in found.values() for item in own), key=lambda item: item.start):
        if item.content.strip() and not item.is_inline:
            category, field = KINDS.get(item.category, TEXT)
            yield category, field, item.content


def _finished(entries: list[dict[str, Any]], left_out: list[LeftOut], making: Making) -> MadeSuite:
    check_any(entries, left_out, "page")
    data = json.dumps(entries, ensure_ascii=False, indent=1).encode()
    write_atomic(making.out / "data" / "OmniDocBench.json", data)
    manifest = making.out / f"{making.name}.toml"
    pages = (
        "\n[pages]",
        'data = "data"',
        f'annotation_sha256 = "{bytes_digest(data)}"',
        f"release = {quoted(making.name)}",
        f"release_pages = {len(entries)}",
    )
    described = f"{len(entries)} pages with Markdown as truth"
    text = manifest_text(making, described, TASKS, kind="pages", scorer=SCORER, data=pages)
    write_atomic(manifest, text.encode())
    write_left_out(making.out, left_out)
    kinds = Counter(block["category_type"] for entry in entries for block in entry["layout_dets"])
    return MadeSuite(
        manifest=manifest,
        tasks={"page": len(entries)},
        inferred={},
        columns={},
        attributes=tuple(dict.fromkeys(key for e in entries for key in e["page_info"]["page_attribute"])),
        ignored_columns={},
        undelimited=0,
        left_out=tuple(left_out),
        blocks=dict(sorted(kinds.items())),
    )
