"""Build olmocr-mini again: 12 small PDFs, their tests of every kind, and two folders of predictions.

PDFs use the fonts that every reader has (Helvetica, Times); the same bytes come out on every machine.
"""

from __future__ import annotations

import json
import random
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.suites.olmocr_pages import tests_digest
from gravbench.workshop.synth.language import sentences

WIDTH, HEIGHT, MARGIN = 612, 792, 72
FONTS = {"sans": "Helvetica", "bold": "Helvetica-Bold", "serif": "Times-Roman", "slant": "Times-Italic"}
SPOILED = (("the ", "tbe "), ("| 4", "| 9"), ("^{2}", "^{3}"), ("\n\n## ", "\n\n"))
"""What the second folder of predictions gets wrong."""


@dataclass
class Page:
    """One PDF page while it is drawn: strokes of text and lines, its Markdown and its tests by file."""

    name: str
    marks: list[str] = field(default_factory=list)
    markdown: list[str] = field(default_factory=list)
    tests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def write(self, x: float, y: float, text: str, *, font: str = "serif", size: float = 12) -> None:
        """Text whose baseline begins at (x, y), in points from the lower left corner."""
        escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
        self.marks.append(f"BT /{font} {size:g} Tf {x:g} {y:g} Td ({escaped}) Tj ET")

    def rule(self, x0: float, y0: float, x1: float, y1: float) -> None:
        self.marks.append(f"0.8 w {x0:g} {y0:g} m {x1:g} {y1:g} l S")

    def paragraph(self, x: float, y: float, text: str, *, columns: int, size: float = 12) -> float:
        """Wrapped text from (x, y) down; the place of the next line."""
        for line in textwrap.wrap(text, columns):
            self.write(x, y, line, size=size)
            y -= 1.35 * size
        return y - size

    def test(self, category: str, kind: str, **own: Any) -> None:
        number = sum(1 for known, _ in self.tests if known == category)
        row = {
            "pdf": f"{self.name}.pdf",
            "page": 1,
            "id": f"{self.name}_{kind}_{number}",
            "type": kind,
            **own,
        }
        self.tests.append((category, row))

    def pdf(self) -> bytes:
        """The page as a PDF file of one page."""
        content = "\n".join(self.marks).encode("ascii")
        fonts = " ".join(f"/{name} {5 + i} 0 R" for i, name in enumerate(FONTS))
        objects = [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {WIDTH} {HEIGHT}] /Contents 4 0 R "
            f"/Resources << /Font << {fonts} >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
            *(f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} >>".encode() for name in FONTS.values()),
        ]
        out, places = bytearray(b"%PDF-1.4\n"), []
        for number, body in enumerate(objects, start=1):
            places.append(len(out))
            out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
        start = len(out)
        out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
        out += b"".join(b"%010d 00000 n \n" % place for place in places)
        out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
        return bytes(out)


class _Prose:
    """Held-out sentences of the corpus, each once."""

    def __init__(self) -> None:
        plain = [text for text in sentences("heldout") if text.isascii() and 40 <= len(text) <= 90]
        self._left = random.Random(13).sample(plain, len(plain))

    def take(self, count: int) -> list[str]:
        return [self._left.pop() for _ in range(count)]


def _headed(prose: _Prose, number: int) -> Page:
    """Running head and page number, which must not be in the text."""
    page, found = Page(f"headed-{number}"), prose.take(4)
    head = f"Quarterly notes, volume {number + 3}"
    page.write(MARGIN, HEIGHT - 40, head, font="sans", size=9)
    page.write(WIDTH / 2, 36, f"- {number + 16} -", font="sans", size=9)
    page.paragraph(MARGIN, HEIGHT - 110, " ".join(found), columns=80)
    page.markdown = [" ".join(found)]
    page.test("headers_footers.jsonl", "absent", text=head, max_diffs=2)
    page.test("headers_footers.jsonl", "absent", text=f"- {number + 16} -", last_n=20)
    page.test("headers_footers.jsonl", "present", text=found[0][:30], max_diffs=3, first_n=120)
    return page


def _tiny(prose: _Prose) -> Page:
    page, found = Page("tiny"), prose.take(8)
    page.paragraph(MARGIN, HEIGHT - 80, " ".join(found), columns=130, size=7)
    page.markdown = [" ".join(found)]
    for text in found[::3]:
        page.test("long_tiny_text.jsonl", "present", text=text, max_diffs=4)
    return page


def _columns(prose: _Prose, number: int) -> Page:
    """Two columns under a title."""
    page, found = Page(f"columns-{number}"), prose.take(6)
    title = f"Two columns, part {number}"
    page.write(MARGIN, HEIGHT - 70, title, font="bold", size=18)
    for x, own in ((MARGIN, found[:3]), (WIDTH / 2 + 14, found[3:])):
        page.paragraph(x, HEIGHT - 120, " ".join(own), columns=36)
    page.markdown = [f"# {title}", *(" ".join(own) for own in (found[:3], found[3:]))]
    page.test("multi_column.jsonl", "order", before=title, after=found[0][:24], max_diffs=2)
    page.test("multi_column.jsonl", "order", before=found[2][:24], after=found[3][:24], max_diffs=2)
    page.test("multi_column.jsonl", "order", before=found[0][:24], after=found[5][:24], max_diffs=2)
    return page


def _scan(prose: _Prose) -> Page:
    page, found = Page("scan"), prose.take(3)
    page.write(MARGIN + 40, HEIGHT - 90, "My dear friend,", font="slant", size=16)
    page.paragraph(MARGIN, HEIGHT - 140, " ".join(found), columns=66, size=14)
    page.markdown = ["*My dear friend,*", " ".join(found)]
    page.test("old_scans.jsonl", "present", text="My dear friend,", max_diffs=1, case_sensitive=False)
    page.test("old_scans.jsonl", "order", before="My dear friend,", after=found[1][:24], max_diffs=2)
    return page


def _blank() -> Page:
    page = Page("blank")
    page.test("old_scans.jsonl", "baseline", max_length=0)
    return page


Part = tuple[str, int]
"""A piece of a formula and its level: 0 on the line, 1 raised, -1 lowered."""
FORMULAS: dict[str, Sequence[Part]] = {
    "x^{2} + y^{2} = z^{2}": (("x", 0), ("2", 1), ("+y", 0), ("2", 1), ("=z", 0), ("2", 1)),
    "a_{n} = 3a_{k} - 1": (("a", 0), ("n", -1), ("=3a", 0), ("k", -1), ("-1", 0)),
    "f(x) = x^{3} - 2x": (("f(x)=x", 0), ("3", 1), ("-2x", 0)),
    "(a + b)^{2} = a^{2} + 2ab + b^{2}": (
        *(("(a+b)", 0), ("2", 1), ("=a", 0), ("2", 1)),
        *(("+2ab+b", 0), ("2", 1)),
    ),
    "p_{1} + p_{2} < 1": (("p", 0), ("1", -1), ("+p", 0), ("2", -1), ("<1", 0)),
    "u^{2} = 2as": (("u", 0), ("2", 1), ("=2as", 0)),
}


def _math(prose: _Prose, name: str, category: str, formulas: Iterable[str]) -> Page:
    page, y = Page(name), HEIGHT - 90.0
    for latex in formulas:
        text = prose.take(1)[0]
        y = page.paragraph(MARGIN, y, text, columns=80) - 10
        x = WIDTH / 2 - 70.0
        for part, level in FORMULAS[latex]:
            size = 11 if level else 16
            page.write(x, y + 6 * level, part, font="slant", size=size)
            x += (0.62 if any(c in "+=<-" for c in part) else 0.52) * size * len(part) + 1
        y -= 40
        page.markdown += [text, f"$${latex}$$"]
        page.test(category, "math", math=latex)
    return page


TABLES = (
    (("Harbour", "Ships", "Days"), ("North", "41", "12"), ("South", "46", "9"), ("West", "18", "30")),
    (
        ("Month", "Rain", "Sun"),
        ("March", "44 mm", "120 h"),
        ("April", "47 mm", "151 h"),
        ("May", "39 mm", "203 h"),
    ),
    (("Item", "Old", "New"), ("Lamp", "4.20", "4.75"), ("Rope", "1.10", "1.35"), ("Nails", "0.60", "0.55")),
)


def _table(prose: _Prose, number: int, *, html: bool) -> Page:
    """A ruled table with a head; its Markdown is a pipe table, or HTML."""
    page, rows = Page(f"table-{number}"), TABLES[number - 1]
    top, left, step, wide = HEIGHT - 160, MARGIN + 60, 26, 110
    text = prose.take(1)[0]
    page.paragraph(MARGIN, HEIGHT - 90, text, columns=80)
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            page.write(left + c * wide + 8, top - r * step - 18, cell, font="sans" if r else "bold")
    for r in range(len(rows) + 1):
        page.rule(left, top - r * step, left + 3 * wide, top - r * step)
    for c in range(4):
        page.rule(left + c * wide, top, left + c * wide, top - len(rows) * step)
    page.markdown = [text, _html(rows) if html else _pipes(rows)]
    category = "table_tests.jsonl"
    page.test(category, "table", cell=rows[1][1], up=rows[0][1], left=rows[1][0], down=rows[2][1])
    page.test(category, "table", cell=rows[2][2], top_heading=rows[0][2], left_heading=rows[2][0])
    page.test(category, "table", cell=rows[3][1], right=rows[3][2], ignore_markdown_tables=html)
    return page


def _pipes(rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])


def _html(rows: Sequence[Sequence[str]]) -> str:
    head, *body = (
        "".join(f"<{'td' if r else 'th'}>{c}</{'td' if r else 'th'}>" for c in row)
        for r, row in enumerate(rows)
    )
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def pages() -> tuple[Page, ...]:
    """The 12 pages, always the same."""
    prose, formulas = _Prose(), list(FORMULAS)
    return (
        *(_headed(prose, number) for number in (1, 2)),
        _tiny(prose),
        *(_columns(prose, number) for number in (1, 2)),
        _scan(prose),
        _blank(),
        _math(prose, "math-1", "arxiv_math.jsonl", formulas[:4]),
        _math(prose, "scan-math", "old_scans_math.jsonl", formulas[4:]),
        *(_table(prose, number, html=number == 2) for number in (1, 2, 3)),
    )


def build(out: Path) -> str:
    """Write `*.jsonl`, `pdfs/`, `reference/` and `spoiled/` under `out`; the digest of the tests."""
    files: dict[str, list[str]] = {}
    for folder in ("pdfs", "reference", "spoiled"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    for page in pages():
        (out / "pdfs" / f"{page.name}.pdf").write_bytes(page.pdf())
        text = "\n\n".join(page.markdown) + ("\n" if page.markdown else "")
        spoiled = text
        for right, wrong in SPOILED:
            spoiled = spoiled.replace(right, wrong)
        for folder, own in (("reference", text), ("spoiled", spoiled)):
            (out / folder / f"{page.name}_pg1_repeat1.md").write_text(own, encoding="utf-8", newline="\n")
        for category, row in page.tests:
            files.setdefault(category, []).append(json.dumps(row, ensure_ascii=False) + "\n")
    for category, lines in files.items():
        (out / category).write_text("".join(lines), encoding="utf-8", newline="\n")
    return tests_digest(out)
