"""The closed alphabets of the targets: plain characters, HTML table tags, LaTeX commands."""

from __future__ import annotations

import functools
import re

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
