r"""A page of predicted Markdown -> typed items with positions (OmniDocBench v1.6 scorer, extraction).

Regions are taken out in a fixed order: images, fences, tables, formulas, pipe tables, code, paragraphs. What
is taken is overwritten by blanks, so that later positions stay valid. Positions are compared, never shown to
people: reading order and matching depend on their drift (quirks, marked below).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gravbench.omnidocbench.formula_candidates import (
    collapse,
    is_arithmetic_cell,
    is_formula_like,
    is_short_label,
    sanitized,
    split_compound,
    split_margin,
)
from gravbench.omnidocbench.markdown_blocks import (
    HTML_TABLE,
    TABULAR,
    Finder,
    blanked,
    cell_texts,
    flattened,
    outermost_blocks,
)

_FENCES = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (r"^```markdown\n?", r"^```html\n?", r"^```latex\n?", r"```\n?$")
)
_PARAGRAPH_BREAK = re.compile(r"(\n\s*\n)")
_IMAGE_DESCRIPTIONS = (
    *("the image ", "the figure ", "the diagram ", "diagram:", "[diagram:", "[image:", "qr code "),
)
_MATH_OPENING = re.compile(r"\$\$|\\\[|\$|\\\(")
_INNER_MATH = re.compile(r"\$\$(.*?)\$\$|\$(.*?)\$|\\\((.*?)\\\)", re.DOTALL)
_INLINE_PAREN = re.compile(r"\\\((.*?)\\\)", re.DOTALL)
_INLINE_DOLLAR = re.compile(r"\$(.*?)\$", re.DOTALL)
_CODE_OPENING = re.compile(r"```(\w+)\n")
_SPAN_TABLE = "<table"


@dataclass(frozen=True, slots=True)
class Item:
    """One extracted piece: what it is, its range, its content."""

    category: str
    start: int
    end: int
    content: str
    fine: str | None = None
    language: str | None = None

    @property
    def kind(self) -> str:
        """The finer category where there is one."""
        return self.fine or self.category

    @property
    def is_inline(self) -> bool:
        return self.fine == "equation_inline"


@dataclass(frozen=True, slots=True)
class Converters:
    """The three conversions that extraction needs from elsewhere."""

    latex_to_text: Callable[[str], str]
    latex_table: Callable[[str], str]
    """LaTeX table -> normalised HTML, '' when it cannot be converted."""
    pipe_tables: Callable[[str], str]
    """Page text -> page text with its pipe tables rewritten as HTML."""


def _rescue(text: str, start: int, end: int, fine: str) -> list[Item]:
    """A text that looks like a formula, as a further candidate for the formula stage.

    One with a long arrow is a formula at once; the others never enter the mixed pool.
    """
    if not is_formula_like(text) or not (content := sanitized(text)):
        return []
    arrow = "\\xrightarrow" in content or "\\longrightarrow" in content
    return [Item("equation_isolated" if arrow else "formula_rescue", start, end, content, fine)]


def _images(text: str) -> Iterator[tuple[int, int, str]]:
    """Markdown images on one line: start, end, alternative text."""
    middle, closing, newline = Finder(text, "]("), Finder(text, ")"), Finder(text, "\n")
    position = 0
    while (start := text.find("![", position)) >= 0:
        position = start + 1
        line_end = newline.at(start + 2)
        line_end = len(text) if line_end is None else line_end
        at = middle.at(start + 2)
        if at is None or at >= line_end:
            continue
        end = closing.at(at + 2)
        if end is None or end >= line_end:
            continue
        position = end + 1
        yield start, position, text[start + 2 : at]


def _without_fences(text: str) -> str:
    """Quirk: closing fences of ordinary code blocks vanish as well, so code stays in the running text."""
    if "```" in text:
        for fence in _FENCES:
            text = fence.sub("", text)
    return text


def _is_image_description(block: str) -> bool:
    head = " ".join(block.split(None, 4)[:4]).lower()
    return head.startswith(_IMAGE_DESCRIPTIONS) and len(collapse(block).lower()) >= 24


def _without_description_math(text: str) -> str:
    """Paragraphs that describe an image lose their inline math delimiters."""
    if "$" not in text and "\\(" not in text:
        return text
    blocks = _PARAGRAPH_BREAK.split(text)
    for index in range(0, len(blocks), 2):
        if _is_image_description(blocks[index]):
            blocks[index] = _INLINE_DOLLAR.sub(r"\1", _INLINE_PAREN.sub(r"\1", blocks[index]))
    return "".join(blocks)


def _latex_table_sources(text: str) -> list[tuple[int, int, str]]:
    """Table environments, then outermost tabular environments, by start, each with its source.

    Table environments are blanks when tabular ones are looked for: one inside a tabular leaves a gap in it.
    """
    ranges: list[tuple[int, int]] = []
    position = 0
    while (start := text.find("\\begin{table}", position)) >= 0:
        end = text.find("\\end{table}", start + len("\\begin{table}"))
        if end < 0:
            break
        position = end + len("\\end{table}")
        ranges.append((start, position))
    found = [(start, end, text[start:end]) for start, end in ranges]
    if "\\begin{tabular}" in text:
        rest = blanked(text, ranges)
        found += [(start, end, rest[start:end]) for start, end in outermost_blocks(rest, TABULAR)]
    return sorted(found, key=lambda table: table[0])


def _latex_tables(text: str, converters: Converters) -> tuple[list[Item], str]:
    sources = _latex_table_sources(text)
    items = []
    for start, end, source in sources:
        html = converters.latex_table(source)
        if html:
            items.append(Item("html_table", start, end, html, "latex2html_table"))
        else:
            items.append(Item("latex_table", start, end, source, "latex_table"))
    return items, blanked(text, [(start, end) for start, end, _ in sources])


def _table_items(table: str, start: int, end: int, fine: str | None) -> list[Item]:
    """The table, and every arithmetic cell of it as a formula with a made-up position."""
    items = [Item("html_table", start, end, table, fine)]
    cursor = max(start, 0)
    for cell in cell_texts(table):
        if is_arithmetic_cell(cell) and (content := sanitized(cell)):
            last = cursor + max(len(cell), 1)
            items.append(Item("equation_isolated", cursor, last, content, "table_formula_rescue"))
            cursor = last + 1
    return items


def _html_tables(text: str) -> tuple[list[Item], str]:
    if _SPAN_TABLE not in text:
        return [], text
    ranges = outermost_blocks(text, HTML_TABLE)
    items = [item for start, end in ranges for item in _table_items(text[start:end], start, end, None)]
    return items, blanked(text, ranges)


def _math(text: str) -> Iterator[tuple[int, int, str]]:
    r"""Formulas in the order `$$ $$`, `\[ \]`, `$ $`, `\( \)` at each place: start, end, opening.

    Shortest first and across lines; an odd `$` pairs with the next one wherever it is (quirk).
    """
    closers = {
        opening: Finder(text, closing)
        for opening, closing in (("$$", "$$"), ("\\[", "\\]"), ("$", "$"), ("\\(", "\\)"))
    }
    position = 0
    while match := _MATH_OPENING.search(text, position):
        start, opening = match.start(), match.group()
        end = closers[opening].at(start + len(opening))
        if end is None and opening == "$$":
            opening = "$"
            end = closers[opening].at(start + 1)
        if end is None:
            position = start + 1
            continue
        position = end + len(opening)
        yield start, position, opening


def _formula_items(
    formula: str, start: int, end: int, fine: str | None, to_text: Callable[[str], str]
) -> list[Item]:
    formula, margin = split_margin(formula, (start, end), to_text)
    parts = split_compound(formula, (start, end))
    if parts:
        items = [Item("equation_isolated", *part.span, part.text, fine) for part in parts]
    else:
        items = [Item("equation_isolated", start, end, formula, fine)]
    return items + [Item("text_all", *piece.span, piece.text, "equation_caption") for piece in margin]


def _formulas(text: str, to_text: Callable[[str], str]) -> tuple[list[Item], str]:
    r"""Display formulas leave the text; inline ones become candidates and stay in it.

    Quirk: a `\[..\]` with inline math inside counts as inline unless that math begins with `$$`.
    """
    items: list[Item] = []
    taken: list[tuple[int, int]] = []
    for start, end, opening in _math(text):
        line = text[start:end].replace("\n", " ")
        inner = line[len(opening) : len(line) - len(opening)]
        display = opening == "\\[" or (opening == "$$" and inner != "")
        if opening != "\\[":
            line = f"\\[{inner}\\]"
        elif ("$" in inner or "\\(" in inner) and (match := _INNER_MATH.search(line)):
            display = bool(match.group(1))
            line = _INNER_MATH.sub(r"\\[\1\\]" if display else r"\\[\2\3\\]", line)
        if display:
            taken.append((start, end))
        items += _formula_items(line, start, end, None if display else "equation_inline", to_text)
    return items, blanked(text, taken)


def _has_pipe_tables(text: str) -> bool:
    """At least two pieces "bar, anything, bar, end of line"."""
    text += "\n"
    found = position = 0
    while found < 2 and (start := text.find("|", position)) >= 0:
        end = text.find("|\n", start + 1)
        if end < 0:
            break
        found += 1
        position = end + 2
    return found >= 2


def _pipe_tables(text: str, converters: Converters) -> tuple[list[Item], str]:
    """Positions of everything that follows refer to the rewritten text."""
    if not _has_pipe_tables(text):
        return [], text
    text = converters.pipe_tables(text)
    items: list[Item] = []
    ranges: list[tuple[int, int]] = []
    position = 0
    while (start := text.find(_SPAN_TABLE, position)) >= 0:
        end = text.find("</table>", start + len(_SPAN_TABLE))
        if end < 0:
            break
        position = end + len("</table>")
        ranges.append((start, position))
        items += _table_items(text[start:position].strip(), start, position, "md2html_table")
    return items, blanked(text, ranges)


def _code(text: str) -> tuple[list[Item], str]:
    items: list[Item] = []
    ranges: list[tuple[int, int]] = []
    position = 0
    while opening := _CODE_OPENING.search(text, position):
        end = text.find("```", opening.end())
        if end < 0:
            break
        position = end + 3
        code = text[opening.end() : end].strip()
        items.append(Item("text_all", opening.start(), position, code, "code", opening.group(1)))
        ranges.append((opening.start(), position))
    return items, blanked(text, ranges)


def _unwrapped(text: str, opening: str, *, one_line: bool) -> str:
    """Commands with a brace argument replaced by its content up to the first `}`."""
    command = opening.split("\\s", 1)[0].split("\\*", 1)[0].split("\\{", 1)[0].replace("\\\\", "\\")
    if command not in text:
        return text
    closing, newline = Finder(text, "}"), Finder(text, "\n")
    pieces: list[str] = []
    done = 0
    for match in re.finditer(opening, text):
        end = closing.at(match.end())
        if end is None:
            break
        line_end = newline.at(match.end())
        if match.start() < done or (one_line and line_end is not None and line_end < end):
            continue
        inner = text[match.end() : end]
        pieces += (text[done : match.start()], inner if one_line else inner.strip())
        done = end + 1
    return "".join((*pieces, text[done:]))


def _without_wrappers(text: str) -> str:
    text = _unwrapped(text, r"\\title\{", one_line=True)
    text = _unwrapped(text, r"\\title\s*\{", one_line=False)
    text = _unwrapped(text, r"\\text\s*\{", one_line=False)
    text = _unwrapped(text, r"\\section\*?\{", one_line=True)
    return _unwrapped(text, r"\\section\*?\{", one_line=False)


def _paragraphs(text: str) -> list[Item]:
    r"""Pieces between blank lines, or lines when there is no blank line.

    Quirk: the running position leaves out the separators, so text positions fall behind those of formulas
    and tables, by two for each separator (by one on pages of single lines).
    """
    pieces = text.split("\n\n")
    if len(pieces) == 1:
        pieces = text.split("\n")
    items: list[Item] = []
    start = 0
    for piece in pieces:
        end = start + len(piece)
        content = "\n".join(line.strip() for line in piece.strip().split("\n") if line.strip())
        content = flattened(content).strip()
        if content:
            items.append(Item("text_all", start, end, content, "text_block"))
            items += _rescue(content, start, end, "text_formula")
        start = end
    return items


def extract_items(markdown: str, converters: Converters) -> dict[str, list[Item]]:
    """Items of a page by category, each list by start; categories in order of first appearance."""
    items: list[Item] = []
    images = list(_images(markdown))
    for start, end, alternative in images:
        items += _rescue(alternative.strip(), start, end, "image_formula")
    text = blanked(markdown, [(start, end) for start, end, _ in images])
    text = _without_fences(text)
    for run in ("____", "    "):
        if run in text:
            text = re.sub(re.escape(run[0]) + "{4,}", run, text)
    for tag in ("<html>", "</html>", "<body>", "</body>"):
        text = text.replace(tag, "")
    text = _without_description_math(text)
    found, text = _latex_tables(text, converters)
    items += found
    found, text = _html_tables(text)
    items += found
    found, text = _formulas(text, converters.latex_to_text)
    items += found
    found, text = _pipe_tables(text, converters)
    items += found
    found, text = _code(text)
    items += found
    items += _paragraphs(_without_wrappers(text))
    by_category: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda item: item.start):
        if item.category == "equation_isolated" and item.is_inline and is_short_label(item.content):
            continue
        by_category.setdefault(item.category, []).append(item)
    return by_category
