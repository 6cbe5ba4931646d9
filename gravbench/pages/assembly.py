"""Region texts -> one Markdown, cleaned up, in reading order, joined by blank lines.

The steps of the clean-up and their limits are those of the GLM-OCR page pipeline.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gravbench.pages.regions import WHOLE_PAGE, route_of

ASSEMBLER = "gravity-1"
"""Part of a run's identity: any change of a rule here or of the clean-up moves scores and gets a new name."""

_HEADINGS = {"doc_title": "# ", "paragraph_title": "## "}
_HASHES = re.compile(r"\A#+\s*")
_DELIMITERS = (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)"), ("$", "$"))
_NUMBER = re.compile(r"\A[(（\[]?\s*(.*?)\s*[)）\]]?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRegion:
    """A region's label with what the model read in it."""

    label: str
    text: str


def assemble(regions: Sequence[ReadRegion]) -> str:
    """The page's Markdown; regions without text leave nothing behind, an empty page is an empty string."""
    cleaned = [replace(region, text=clean_region(region)) for region in regions]
    parts = [finish(region) for region in tag_formulas(cleaned)]
    return "\n\n".join(part for part in parts if part)


def clean_region(region: ReadRegion) -> str:
    """The clean-up of one region's raw text by its task; a whole page is only stripped."""
    if region.label == WHOLE_PAGE:
        return region.text.strip()
    return clean_table(region.text) if route_of(region.label) == "table" else clean_text(region.text)


def tag_formulas(regions: Sequence[ReadRegion]) -> list[ReadRegion]:
    """Move a formula number into the formula next to it as `\\tag{...}`; the formula before it comes first.

    A number without a formula beside it stays text. A formula takes one number.
    """
    texts = list(regions)
    taken: set[int] = set()
    tagged: set[int] = set()
    for index, region in enumerate(texts):
        if region.label != "formula_number" or not region.text:
            continue
        for neighbour in (index - 1, index + 1):
            if not 0 <= neighbour < len(texts) or neighbour in tagged:
                continue
            formula = texts[neighbour]
            if route_of(formula.label) == "formula" and formula.text and "\\tag" not in formula.text:
                number = _bare_number(region.text)
                texts[neighbour] = replace(formula, text=f"{_bare_formula(formula.text)} \\tag{{{number}}}")
                tagged.add(neighbour)
                taken.add(index)
                break
    return [region for index, region in enumerate(texts) if index not in taken]


def finish(region: ReadRegion) -> str:
    """Headings get their hashes, formulas their `$$` lines, text its list markers and blank lines."""
    text, task = region.text, route_of(region.label)
    if not text or task == "table" or region.label == WHOLE_PAGE:
        return text
    if task == "formula":
        bare = _bare_formula(text)
        return f"$$\n{bare}\n$$" if bare else ""
    if region.label in _HEADINGS:
        return _HEADINGS[region.label] + _HASHES.sub("", text)
    return separate_lines(normalize_list_markers(text))


def _bare_formula(text: str) -> str:
    """A formula without the delimiters that enclose it."""
    text = text.strip()
    for opening, closing in _DELIMITERS:
        inside = text[len(opening) : len(text) - len(closing)]
        if len(text) >= len(opening) + len(closing) and text == f"{opening}{inside}{closing}":
            return text if opening in inside else inside.strip()
    return text


def _bare_number(text: str) -> str:
    match = _NUMBER.match(text.strip())
    return (match[1] if match else text).replace("\n", " ").strip("$ ")


LOOP_MIN_CHARACTERS = 2048
MIN_UNIT = 10
MIN_REPEATS = 10
MIN_LINES = 10
LINE_SHARE = 0.8

_AFTER_T = (
    "ab abcolsep ag an anh au binom bf ensor ext extasciitilde extbackslash extbf extbullet extcolor "
    "extdegree extit extmd extnormal extquoteleft extquoteright extregistered extrm extsc extsf extsl "
    "extstyle extsubscript extsuperscript exttrademark exttt extup extwidth frac h herefore heta hetasym "
    "hickapprox hicksim hickspace hinspace ilde imes iny o oprule op riangle riangledown riangleleft "
    "rianglelefteq riangleq riangleright rianglerighteq t woheadleftarrow woheadrightarrow"
)
T_COMMANDS = frozenset("t" + rest for rest in _AFTER_T.split(" "))
"""LaTeX commands that begin with t: a literal tab before a word never eats one of them."""

_LEADING_TAB = re.compile(r"\A\s*\\t([A-Za-z]*)")
_TRAILING_TAB = re.compile(r"\\t\s*\Z")
_DOT_RUNS = re.compile(r"\.{3,}|·{3,}|_{3,}")
_ONE_TABLE = re.compile(r"\A<table\b(?:(?!<table\b).)*</table>\Z", re.DOTALL | re.IGNORECASE)
_INLINE = re.compile(r"(?<![\\$])\$(?!\$)((?:\\.|[^$\\\n])+)\$(?!\$)")
_BULLET = re.compile(r"^[ \t]*(?:[·•●▪◦][ \t]*|\*[ \t]+)(?=\S)", re.MULTILINE)
_PARENTHESISED = re.compile(r"^[(（](\d+|[A-Za-z])[)）][ \t]*(?=\S)", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d+|[A-Za-z])([)）]|\.(?!\d))[ \t]*(?=\S)", re.MULTILINE)
_SINGLE_NEWLINE = re.compile(r"(?<!\n)\n(?!\n)")


def clean_table(text: str) -> str:
    """One `<table>...</table>` is left as it is; anything else gets the text clean-up."""
    stripped = text.strip()
    return stripped if _ONE_TABLE.match(stripped) else clean_text(stripped)


def clean_text(text: str) -> str:
    """Stray literal tabs, runs of dots, repetition loops, spaces around inline formulas, in this order."""
    return space_inline_formulas(cut_loop(shorten_runs(strip_literal_tabs(text)))).strip()


def strip_literal_tabs(text: str) -> str:
    """Remove backslash-t pairs at both ends, but never the start of a LaTeX command (`\\times`)."""
    while match := _LEADING_TAB.match(text):
        word = match[1]
        if word and _begins_command("t" + word):
            break
        text = text[match.start(1) :]
    while match := _TRAILING_TAB.search(text):
        text = text[: match.start()]
    return text.strip()


def _begins_command(word: str) -> bool:
    return word in T_COMMANDS


def shorten_runs(text: str) -> str:
    """Three or more `.`, `·` or `_` in a row become three."""
    return _DOT_RUNS.sub(lambda match: match[0][0] * 3, text)


def cut_loop(text: str) -> str:
    """Cut a repetition loop to its first occurrence in texts of more than 2,048 characters.

    A loop is a unit of at least 10 characters that stands at least 10 times in a row, or one line that makes
    up at least 80 % of at least 10 lines.
    """
    if len(text) <= LOOP_MIN_CHARACTERS:
        return text
    found = _first_loop(text)
    if found is not None:
        start, unit = found
        return text[: start + unit]
    return _cut_repeated_line(text)


def _first_loop(text: str) -> tuple[int, int] | None:
    """(start, unit length) of the loop that begins first, its shortest unit; None without one.

    At unit u, text[i:i+u] repeated r times in a row is a run of (r - 1) u equal characters at distance u.
    """
    codes = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
    best: tuple[int, int] | None = None
    for unit in range(MIN_UNIT, len(codes) // MIN_REPEATS + 1):
        equal = codes[unit:] == codes[:-unit]
        needed = (MIN_REPEATS - 1) * unit
        if np.count_nonzero(equal) < needed:
            continue
        edges = np.flatnonzero(~equal)
        starts = np.concatenate(([0], edges + 1))
        lengths = np.concatenate((edges, [len(equal)])) - starts
        long_enough = np.flatnonzero(lengths >= needed)
        if len(long_enough) and (best is None or int(starts[long_enough[0]]) < best[0]):
            best = (int(starts[long_enough[0]]), unit)
    return best


def _cut_repeated_line(text: str) -> str:
    lines = text.split("\n")
    filled = [line.strip() for line in lines if line.strip()]
    if len(filled) < MIN_LINES:
        return text
    line, count = Counter(filled).most_common(1)[0]
    if count < LINE_SHARE * len(filled):
        return text
    first = next(number for number, entry in enumerate(lines) if entry.strip() == line)
    return "\n".join(lines[: first + 1])


def space_inline_formulas(text: str) -> str:
    """A space between an inline `$...$` and a letter or digit beside it; `$$` is left alone."""

    def spaced(match: re.Match[str]) -> str:
        before = text[match.start() - 1 : match.start()]
        after = text[match.end() : match.end() + 1]
        return (" " if before.isalnum() else "") + match[0] + (" " if after.isalnum() else "")

    return _INLINE.sub(spaced, text)


def normalize_list_markers(text: str) -> str:
    """`•` and its kin become `- `; `(1)x`, `1)x`, `1.x` get one space after the marker; `1.5` is a number."""
    text = _BULLET.sub("- ", text)
    text = _PARENTHESISED.sub(lambda match: f"({match[1]}) ", text)
    return _NUMBERED.sub(lambda match: f"{match[1]}{')' if match[2] == '）' else match[2]} ", text)


def separate_lines(text: str) -> str:
    """Single newlines become blank lines."""
    return _SINGLE_NEWLINE.sub("\n\n", text)
