"""What stands on a page, block by block and column by column, before anything is drawn."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Literal

from gravbench.workshop.synth import page_text
from gravbench.workshop.synth.fonts import TRAIN_FACES, Face, pick_face
from gravbench.workshop.synth.formula_crop import FormulaPlan, plan_formula
from gravbench.workshop.synth.lettering import Pen
from gravbench.workshop.synth.page_pieces import Inline, pen_of
from gravbench.workshop.synth.split import Split
from gravbench.workshop.synth.table_crop import TablePlan, plan_table

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
            "paragraph": lambda rng: page_text.paragraph(rng, self.split),
            "long": lambda rng: page_text.long_paragraph(rng, self.split),
            "title": lambda rng: page_text.title(rng, self.split),
            "header": page_text.header,
            "code": page_text.code,
            "references": page_text.references,
            "Table": lambda rng: page_text.caption(rng, "Table"),
            "Figure": lambda rng: page_text.caption(rng, "Figure"),
            "footnote": lambda rng: "* " + page_text.title(rng, self.split),
            "number": lambda rng: str(rng.randint(1, 400)),
        }
        lines = page_text.fitting(self.rng, makers[make], pen=pen, width=COLUMN_WIDTH - 4, split=self.split)
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
            lines = page_text.shuffled(rng, block.lines)
            if block.pen is None or all(block.pen.width(line) <= COLUMN_WIDTH + 16 for line in lines):
                return replace(block, lines=lines)

    return replace(plan, columns=tuple(tuple(map(shuffle, column)) for column in plan.columns))
