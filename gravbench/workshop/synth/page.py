"""A synthetic page and its annotation in the OmniDocBench schema, decided by (seed, columns, split)."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from PIL import Image

from gravbench.workshop.synth import page_pieces
from gravbench.workshop.synth.formula import FormulaPlan, plan_formula
from gravbench.workshop.synth.ink import TRAIN_FACES, Face, Pen, Wear, develop, pick_face, round_up
from gravbench.workshop.synth.language import Split
from gravbench.workshop.synth.page_pieces import (
    Box,
    Inline,
    Piece,
    figure_piece,
    formula_piece,
    pen_of,
    table_piece,
    text_piece,
)
from gravbench.workshop.synth.table import TablePlan, plan_table

Columns = Literal[1, 2]
COLUMN_WIDTH = 392
_MONO = next(face for face in TRAIN_FACES if face.name == "DejaVuSansMono")
_INLINE = ("x", "n=5", "a+b", "x^{2}", "y_{1}", "k<n", "f(x)", "2n", "p=0.5", "z_{i}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One annotated block. `lines` for text, else one of `table` and `formula`; a figure has neither.

    `continues` marks the second half of a paragraph that a column break or a figure cuts in two.
    """

    category: str
    lines: tuple[str, ...] = ()
    pen: Pen | None = None
    spacing: int = 0
    inline: Inline | None = None
    table: TablePlan | None = None
    formula: FormulaPlan | None = None
    number: str | None = None
    """Text of the equation number that stands right of the formula."""
    continues: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """Columns of blocks in reading order, between a header and a page number."""

    columns: tuple[tuple[Block, ...], ...]
    header: Block
    page_number: Block
    footnote: Block | None
    face: Face
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks of the columns, in reading order."""
        return tuple(block for column in self.columns for block in column)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Draws the text blocks of one page with one face and size."""

    rng: random.Random
    split: Split
    face: Face
    size: int

    def text(self, category: str, make: str, *, bold: bool = False, size: int | None = None) -> Block:
        face = _MONO if category == "code_txt" else self.face
        pen = pen_of(face, size or self.size, bold=bold)
        makers = {
            "paragraph": lambda rng: page_pieces.paragraph(rng, self.split),
            "long": lambda rng: page_pieces.long_paragraph(rng, self.split),
            "title": lambda rng: page_pieces.title(rng, self.split),
            "header": page_pieces.header,
            "code": page_pieces.code,
            "references": page_pieces.references,
            "Table": lambda rng: page_pieces.caption(rng, "Table"),
            "Figure": lambda rng: page_pieces.caption(rng, "Figure"),
            "footnote": lambda rng: "* " + page_pieces.title(rng, self.split),
            "number": lambda rng: str(rng.randint(1, 400)),
        }
        lines = page_pieces.fitting(self.rng, makers[make], pen=pen, width=COLUMN_WIDTH - 4, split=self.split)
        return Block(category=category, lines=lines, pen=pen, spacing=round(pen.size * 1.25))

    def with_inline(self) -> Block:
        """A paragraph in which an inline formula stands for one word of a middle or last line."""
        while True:
            block = self.text("text_block", "paragraph")
            number = self.rng.randrange(len(block.lines))
            tokens = block.lines[number].split(" ")
            if len(tokens) < 3 or block.pen is None:
                continue
            at = self.rng.randrange(1, len(tokens) - 1)
            before, after = " ".join(tokens[:at]) + " ", " " + " ".join(tokens[at + 1 :])
            latex = self.rng.choice(_INLINE)
            if block.pen.width(before + after) + block.pen.size * len(latex) * 0.6 < COLUMN_WIDTH - 8:
                lines = list(block.lines)
                lines[number] = f"{before}${latex}${after}"
                inline = Inline(number, latex, before, after)
                return replace(block, lines=tuple(lines), inline=inline)

    def table(self) -> list[Block]:
        """A table with its caption above it."""
        while True:
            plan = plan_table(self.rng, self.split)
            if plan.xs[-1] <= COLUMN_WIDTH - 4:
                return [self.text("table_caption", "Table", size=17), Block(category="table", table=plan)]

    def formula(self, number: int | None) -> Block:
        """A display formula, with its number at the right edge when it fits."""
        while True:
            plan = plan_formula(self.rng, self.split)
            if plan.ink.width <= COLUMN_WIDTH - (70 if number else 8):
                text = f"({number})" if number else None
                pen = pen_of(self.face, self.size)
                return Block(category="equation_isolated", formula=plan, number=text, pen=pen)

    def cut_paragraph(self) -> tuple[Block, Block]:
        """A paragraph of four lines as two halves."""
        whole = self.text("text_block", "long")
        return replace(whole, lines=whole.lines[:2]), replace(whole, lines=whole.lines[2:], continues=True)

    def figure(self) -> list[Block]:
        return [Block(category="figure"), self.text("figure_caption", "Figure", size=17)]


def plan_page(rng: random.Random, *, columns: Columns, split: Split) -> PagePlan:
    """Compose a page of one or two columns with every kind of block somewhere in a handful of pages."""
    face = pick_face(rng, split)
    writer = _Writer(rng, split, face, rng.randint(17, 20))
    numbered = rng.random() < 0.5
    blocks = [_body(writer, numbered=numbered, first=True)]
    if columns == 2:
        blocks.append(_body(writer, numbered=numbered, first=False))
        if rng.random() < 0.75:
            head, tail = writer.cut_paragraph()
            blocks = [[*blocks[0], head], [tail, *blocks[1]]]
    elif rng.random() < 0.4:
        head, tail = writer.cut_paragraph()
        blocks[0] += [head, *writer.figure(), tail]
    return PagePlan(
        columns=tuple(map(tuple, blocks)),
        header=writer.text("header", "header", size=17),
        page_number=writer.text("page_number", "number", size=17),
        footnote=writer.text("page_footnote", "footnote", size=17) if rng.random() < 0.3 else None,
        face=face,
        attributes={
            "data_source": rng.choice(("academic_literature", "book", "research_report", "exam_paper")),
            "language": "english",
            "layout": "double_column" if columns == 2 else "single_column",
        },
    )


def _body(writer: _Writer, *, numbered: bool, first: bool) -> list[Block]:
    """One column: a title, then paragraphs around a table, formulas, perhaps code, a figure, references."""
    rng = writer.rng
    blocks = [writer.text("title", "title", bold=True, size=rng.randint(22, 26))]
    blocks.append(writer.text("text_block", "paragraph"))
    middle: list[list[Block]] = []
    if rng.random() < 0.75:
        middle.append(writer.table())
    if rng.random() < 0.85:
        middle.append([writer.formula(rng.randint(1, 30) if numbered else None)])
    if rng.random() < 0.3:
        middle.append([writer.formula(rng.randint(31, 60) if numbered else None)])
    if rng.random() < 0.45:
        middle.append([writer.with_inline()])
    if rng.random() < 0.25:
        middle.append([writer.text("code_txt", "code", size=17)])
    if rng.random() < 0.2:
        middle.append(writer.figure())
    rng.shuffle(middle)
    for group in middle:
        blocks += group
        if rng.random() < 0.4:
            blocks.append(writer.text("text_block", "paragraph"))
    if not first and rng.random() < 0.5:
        blocks.append(writer.text("reference", "references", size=17))
    return blocks


def shuffle_words(plan: PagePlan, rng: random.Random) -> PagePlan:
    """The same page with the words of every paragraph and title shuffled; all else is kept."""

    def shuffle(block: Block) -> Block:
        if block.category not in ("text_block", "title") or block.inline is not None:
            return block
        while True:
            lines = page_pieces.shuffled(rng, block.lines)
            if block.pen is None or all(block.pen.width(line) <= COLUMN_WIDTH + 16 for line in lines):
                return replace(block, lines=lines)

    return replace(plan, columns=tuple(tuple(map(shuffle, column)) for column in plan.columns))


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
