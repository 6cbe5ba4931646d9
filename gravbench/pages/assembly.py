"""Region texts -> one Markdown, in reading order, joined by blank lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gravbench.pages.cleanup import clean_table, clean_text, normalize_list_markers, separate_lines
from gravbench.pages.regions import route_of

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
    """The clean-up of one region's raw text by its task."""
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
    if not text or task == "table":
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
