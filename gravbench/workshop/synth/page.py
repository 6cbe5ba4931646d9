"""A synthetic page and its annotation in the OmniDocBench schema, decided by (seed, columns, split)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from gravbench.workshop.synth.canvas import Wear, develop, round_up
from gravbench.workshop.synth.page_pieces import (
    Box,
    Piece,
    figure_piece,
    formula_piece,
    table_piece,
    text_piece,
)
from gravbench.workshop.synth.page_plan import (
    COLUMN_WIDTH,
    Block,
    Columns,
    PagePlan,
    plan_page,
    shuffle_words,
)
from gravbench.workshop.synth.split import Split

GENERATOR = "page-1"
"""Part of every seed; a change of what the generator draws gets a new name here."""

MARGIN, GUTTER, GAP = 36, 34, 18
_TEXT_ATTRIBUTE = {"text_language": "text_english", "text_background": "white", "text_rotate": "normal"}
_TABLE_LINES = {"grid": "full_line", "rows": "less_line", "booktabs": "fewer_line"}


@dataclass(frozen=True, slots=True)
class SynthPage:
    """A page image (mode L, sides multiples of 16) and its entry for `OmniDocBench.json`."""

    image: Image.Image
    entry: dict[str, Any]


@dataclass(slots=True)
class _Sheet:
    """Pieces placed so far, and the annotations that belong to them."""

    placed: list[tuple[Piece, int, int]] = field(default_factory=list)
    dets: list[dict[str, Any]] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    order: int = 0

    def add(self, piece: Piece, block: Block, x: int, y: int, *, ordered: bool) -> Box:
        self.placed.append((piece, x, y))
        box = (x, y, x + piece.mask.width, y + piece.mask.height)
        if ordered:
            self.order += 1
        self.dets.append(_annotation(block, piece, box, len(self.dets), self.order if ordered else None))
        return box


def render_page(
    seed: int, *, columns: Columns, split: Split = "train", name: str = "page.png", shuffle: bool = False
) -> SynthPage:
    """Draw the page; equal arguments give equal pixels. With `shuffle`, its words in random order."""
    rng = random.Random(f"{GENERATOR}/{split}/{columns}/{seed}")
    plan = plan_page(rng, columns=columns, split=split)
    if shuffle:
        plan = shuffle_words(plan, random.Random(f"{GENERATOR}/shuffle/{seed}"))
    drawing = random.Random(f"{GENERATOR}/{split}/{columns}/{seed}/ink")
    return _draw(plan, drawing, name=name)


def _draw(plan: PagePlan, rng: random.Random, *, name: str) -> SynthPage:
    count = len(plan.columns)
    width = round_up(2 * MARGIN + count * COLUMN_WIDTH + (count - 1) * GUTTER)
    sheet = _Sheet()
    header = _piece(plan.header, rng)
    sheet.add(header, plan.header, MARGIN, 20, ordered=False)
    top = 20 + header.mask.height + 24
    bottom = top
    for number, column in enumerate(plan.columns):
        left = MARGIN + number * (COLUMN_WIDTH + GUTTER)
        bottom = max(bottom, _fill(sheet, column, left, top, rng))
    if plan.footnote is not None:
        piece = _piece(plan.footnote, rng)
        sheet.add(piece, plan.footnote, MARGIN, bottom + 14, ordered=False)
        bottom += 14 + piece.mask.height
    foot = _piece(plan.page_number, rng)
    sheet.add(foot, plan.page_number, (width - foot.mask.width) // 2, bottom + 18, ordered=False)
    height = round_up(bottom + 18 + foot.mask.height + 20)
    mask = Image.new("L", (width, height), 0)
    for piece, x, y in sheet.placed:
        mask.paste(piece.mask, (x, y))
    wear = _wear(rng)
    issue = ["fuzzy_scan"] if wear.noise or wear.blur else ["None"]
    info = {
        "page_attribute": {**plan.attributes, "special_issue": issue},
        "page_no": int(plan.page_number.lines[0]),
        "height": height,
        "width": width,
        "image_path": name,
    }
    entry = {"layout_dets": sheet.dets, "extra": {"relation": sheet.relations}, "page_info": info}
    return SynthPage(develop(mask, wear, rng), entry)


def _fill(sheet: _Sheet, column: tuple[Block, ...], left: int, top: int, rng: random.Random) -> int:
    """Set the blocks of one column under each other; returns the lowest pixel in use."""
    y = top
    for block in column:
        piece = _piece(block, rng)
        centred = block.category in ("table", "equation_isolated", "figure")
        x = left + ((COLUMN_WIDTH - (60 if block.number else 0) - piece.mask.width) // 2 if centred else 0)
        box = sheet.add(piece, block, max(x, left), y, ordered=block.category != "figure")
        if block.continues:
            sheet.relations.append(
                {
                    "source_anno_id": _last_text(sheet.dets[:-1]),
                    "target_anno_id": sheet.dets[-1]["anno_id"],
                    "relation_type": "truncated",
                }
            )
        if block.number is not None and block.pen is not None:
            mark = Block(category="equation_caption", lines=(block.number,), pen=block.pen, spacing=0)
            label = _piece(mark, rng)
            right = left + COLUMN_WIDTH - label.mask.width
            sheet.add(label, mark, right, (box[1] + box[3] - label.mask.height) // 2, ordered=True)
        y = box[3] + GAP + (4 if block.category in ("table", "equation_isolated") else 0)
    return y - GAP


def _last_text(dets: list[dict[str, Any]]) -> int:
    """Id of the text block before the continuation; figures and captions between the halves are passed."""
    return next(int(det["anno_id"]) for det in reversed(dets) if det["category_type"] == "text_block")


def _piece(block: Block, rng: random.Random) -> Piece:
    if block.table is not None:
        return table_piece(block.table, rng)
    if block.formula is not None:
        return formula_piece(block.formula.ink)
    if block.pen is None:
        return figure_piece(rng, COLUMN_WIDTH - rng.randint(40, 120))
    return text_piece(block.lines, block.pen, spacing=block.spacing, inline=block.inline)


def _annotation(block: Block, piece: Piece, box: Box, anno_id: int, order: int | None) -> dict[str, Any]:
    x0, y0, x1, y1 = box[0] - 3, box[1] - 2, box[2] + 3, box[3] + 2
    det: dict[str, Any] = {
        "category_type": block.category,
        "poly": [float(v) for v in (x0, y0, x1, y0, x1, y1, x0, y1)],
        "ignore": False,
        "order": order,
        "anno_id": anno_id,
    }
    if block.table is not None:
        det["html"] = block.table.html
        det["attribute"] = {
            "table_layout": "horizontal",
            "with_span": block.table.text.spans,
            "line": _TABLE_LINES.get(block.table.rules, "wireless_line"),
            "language": "table_en",
            "include_equation": False,
            "include_background": block.table.shaded,
            "include_photo": False,
        }
    elif block.formula is not None:
        det["latex"] = f"$${block.formula.latex}$$"
        det["attribute"] = {"formula_type": "print"}
    elif block.pen is not None:
        joint = "\n" if block.category in ("code_txt", "reference") else " "
        det["text"] = joint.join(block.lines)
        det["attribute"] = dict(_TEXT_ATTRIBUTE)
        det["line_with_spans"] = [
            {
                "category_type": "equation_inline",
                "poly": [
                    float(v)
                    for px, py in ((a, b), (c, b), (c, d), (a, d))
                    for v in (box[0] + px, box[1] + py)
                ],
                "latex": f"${latex}$",
            }
            for latex, (a, b, c, d) in piece.spans
        ]
    return det


def _wear(rng: random.Random) -> Wear:
    """Three pages in four are clean; the rest are on grey paper or a little blurred. Pages are not tilted."""
    if rng.random() < 0.75:
        return Wear(ink=rng.randint(0, 30), paper=255, noise=0.0, blur=0.0, degrees=0.0, shading=0.0)
    blur = rng.uniform(0.3, 0.6) if rng.random() < 0.5 else 0.0
    return Wear(
        ink=rng.randint(0, 70), paper=rng.randint(205, 250), noise=0.0, blur=blur, degrees=0.0, shading=0.0
    )
