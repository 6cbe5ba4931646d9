"""Small OmniDocBench folders made on the spot: white pages with black bars, no fonts needed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from gravbench.records import TASKS
from gravbench.suites.manifest import PageSet, Suite

SIZE = (160, 220)


def box_poly(left: float, top: float, right: float, bottom: float) -> list[float]:
    return [left, top, right, top, right, bottom, left, bottom]


def det(category: str, place: int, **fields: Any) -> dict[str, Any]:
    """One annotated block; the `place`-th bar of the page."""
    top = 12 + 40 * place
    content = {"table": "html", "equation_isolated": "latex"}.get(category, "text")
    return {
        "category_type": category,
        "poly": box_poly(10, top, 150, top + 24),
        "ignore": False,
        "order": place + 1,
        "anno_id": place,
        "attribute": {},
        content: {"html": "<table><tr><td>a</td></tr></table>", "latex": "$$x$$"}.get(
            content, f"words {place}"
        ),
        **fields,
    }


def entry(name: str, dets: list[dict[str, Any]] | None = None, **attributes: Any) -> dict[str, Any]:
    """One page object; by default a title, a paragraph, a table, a formula and a page number."""
    blocks = (
        [
            det("title", 0),
            det("text_block", 1),
            det("table", 2),
            det("equation_isolated", 3),
            det("page_number", 4, order=None),
        ]
        if dets is None
        else dets
    )
    return {
        "layout_dets": blocks,
        "extra": {"relation": []},
        "page_info": {
            "page_attribute": {"language": "english", "layout": "single_column", **attributes},
            "page_no": 1,
            "height": SIZE[1],
            "width": SIZE[0],
            "image_path": name,
        },
    }


def page_image(seed: int) -> Image.Image:
    image = Image.new("L", SIZE, 255)
    draw = ImageDraw.Draw(image)
    for bar in range(5):
        draw.rectangle((12, 14 + 40 * bar, 60 + (seed * 17 + bar * 23) % 80, 34 + 40 * bar), fill=0)
    return image


def write_folder(folder: Path, entries: list[dict[str, Any]], *, images: bool = True) -> PageSet:
    """Write the pages and return the page set of exactly this folder."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    data = json.dumps(entries).encode()
    (folder / "OmniDocBench.json").write_bytes(data)
    if images:
        for number, page in enumerate(entries):
            page_image(number).save(folder / "images" / Path(page["page_info"]["image_path"]).name)
    return PageSet(
        place="omnidoc16",
        annotation_sha256=hashlib.sha256(data).hexdigest(),
        release="OmniDocBench v1.6",
        release_pages=max(1, len(entries)),
    )


def page_suite(pages: PageSet, *, kind: str = "pages", **fields: Any) -> Suite:
    return Suite(
        name="bench",
        version=1,
        description="for tests",
        kind=kind,  # type: ignore[arg-type]
        pages=pages,
        prompts=dict.fromkeys(TASKS, "Read:"),
        max_new_tokens=dict.fromkeys(TASKS, 96),
        scorer="crops" if kind == "page-crops" else "omnidocbench-1.6",
        manifest_path="bench.toml",
        **fields,
    )
