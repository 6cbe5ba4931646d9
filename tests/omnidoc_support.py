"""Small annotated pages, made in the test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gravbench.omnidocbench.ground_truth import Page, read_page
from gravbench.omnidocbench.page_scorer import PageResult, PageScorer


def block(category: str, content: str, number: int, **fields: Any) -> dict[str, Any]:
    key = {"table": "html", "equation_isolated": "latex"}.get(category, "text")
    return {
        "category_type": category,
        key: content,
        "anno_id": number,
        "order": number,
        "ignore": False,
    } | fields


def page_object(
    blocks: Sequence[dict[str, Any]], name: str = "page_1.png", **attributes: Any
) -> dict[str, Any]:
    return {
        "layout_dets": list(blocks),
        "extra": {"relation": []},
        "page_info": {"image_path": f"images/{name}", "page_attribute": attributes},
    }


def page(*blocks: dict[str, Any], name: str = "page_1.png") -> Page:
    return read_page(page_object(blocks, name), 0, source="gt.json")


def scored(truth: Page, markdown: str | None) -> PageResult:
    return PageScorer().score(truth, markdown)


def write_benchmark(
    folder: Path, pages: Sequence[dict[str, Any]], predictions: dict[str, str]
) -> tuple[Path, Path]:
    gt, pred = folder / "gt.json", folder / "pred"
    gt.write_text(json.dumps(pages), encoding="utf-8")
    pred.mkdir(exist_ok=True)
    for name, text in predictions.items():
        (pred / name).write_text(text, encoding="utf-8")
    return gt, pred
