"""What targets are made of: closed alphabets (characters, table tags, LaTeX commands), sentences and words.

The text alone decides whether it is held out from training, never an index.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from typing import Literal

CHARSET: str = "".join(map(chr, range(32, 127))) + "–’“”é°€×" + "\n"
"""Every character of plain text and cells; the newline joins the lines of a paragraph."""

TABLE_TAGS: tuple[str, ...] = (
    "<table>",
    "</table>",
    "<tr>",
    "</tr>",
    "<td>",
    "</td>",
    '<td colspan="2">',
    '<td colspan="3">',
    '<td colspan="4">',
    '<td rowspan="2">',
    '<td rowspan="3">',
)


def _commands(names: str) -> tuple[str, ...]:
    return tuple("\\" + name for name in names.split())


GREEK: tuple[str, ...] = _commands(
    "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega"
) + _commands("Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega")
FUNCTIONS: tuple[str, ...] = _commands("sin cos tan log ln exp max min")
RELATIONS: tuple[str, ...] = _commands("leq geq neq approx equiv sim propto in subset to")
OPERATORS: tuple[str, ...] = _commands("cdot times pm cup cap circ")
ACCENTS: tuple[str, ...] = _commands("hat bar tilde vec dot")

LATEX_COMMANDS: tuple[str, ...] = (
    "\\frac",
    "\\sqrt",
    "\\sum",
    "\\prod",
    "\\int",
    "\\lim",
    "\\infty",
    "\\partial",
    "\\nabla",
    "\\forall",
    "\\exists",
    "\\left",
    "\\right",
    "\\ldots",
    *GREEK,
    *FUNCTIONS,
    *RELATIONS,
    *OPERATORS,
    *ACCENTS,
)


@functools.cache
def _unit_pattern() -> re.Pattern[str]:
    units = sorted((*TABLE_TAGS, *LATEX_COMMANDS), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, units)) + r"|[\s\S]")


def target_units(text: str) -> list[str]:
    """Cut a target into tags, commands and single characters, longest unit first; joined they give `text`."""
    return _unit_pattern().findall(text)


Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")


def split_of(text: str) -> Split:
    """`heldout` for one text in about ten, by the first byte of its SHA-256."""
    return "heldout" if hashlib.sha256(text.encode("utf-8")).digest()[0] % 10 == 0 else "train"


def _lines(name: str) -> tuple[str, ...]:
    text = resources.files("gravbench.workshop.synth").joinpath("corpus", name).read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith("#"))


@functools.cache
def sentences(split: Split) -> tuple[str, ...]:
    """Sentences of one split, in file order."""
    return tuple(line for line in _lines("sentences.txt") if split_of(line) == split)


@functools.cache
def words() -> tuple[str, ...]:
    """Lower-case words; shared by both splits, since only whole texts are held out."""
    return tuple(word for word in _lines("words.txt") if word[0].islower())


@functools.cache
def short_words() -> tuple[str, ...]:
    """Lower-case words of at most seven letters, for cells."""
    return tuple(word for word in words() if len(word) <= 7)


@functools.cache
def proper_names() -> tuple[str, ...]:
    """Capitalised words."""
    return tuple(word for word in _lines("words.txt") if word[0].isupper())
