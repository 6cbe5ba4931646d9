"""One colour for each drawn token, so that its pixels can be found again.

The k-th token (k from 1) gets palette entry k; entry 0, black, is what nobody owns. The walk is the one of
OmniDocBench v1.6. It inserts closing braces into the list it walks without correcting the ends it noted
before, so the last tokens of a font wrapper around a fraction or an accent stay black there, and here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 15
"""Distance of two palette levels of one channel."""
LEVELS = 18
MAX_COLOURS = 5800


@dataclass(frozen=True)
class Painted:
    """A formula ready for TeX."""

    body: str
    tokens: tuple[str, ...]
    colours: int
    """How many palette entries may be looked for in the raster."""


def rgb(index: int) -> tuple[int, int, int]:
    """Channels of palette entry `index` (0 = black)."""
    red, rest = divmod(index, LEVELS * LEVELS)
    green, blue = divmod(rest, LEVELS)
    return red * LEVEL, green * LEVEL, blue * LEVEL


def paint(normalised: str) -> Painted:
    """Colour every drawn token. `ValueError`, `IndexError` or `RecursionError` on hopeless brackets."""
    pieces = normalised.strip().split(" ")
    walk = _Walk(pieces, min(len(pieces), MAX_COLOURS))
    index = 0
    while index < len(walk.pieces):
        index = walk.visit(index)
    return Painted(" ".join(walk.pieces), tuple(walk.names), walk.colours)


class _Walk:
    """The token list being coloured, and the names of the tokens coloured so far."""

    def __init__(self, pieces: list[str], colours: int) -> None:
        self.pieces = pieces
        self.colours = colours
        self.names: list[str] = []

    def visit(self, index: int, *, in_degree: bool = False) -> int:
        """Treat the token at `index`; the index to go on with."""
        token = self.pieces[index]
        if not token:
            return index + 1
        following = self._visit_construct(token, index)
        if following is None:
            following = self._visit_plain(token, index, in_degree=in_degree)
        if following <= index:
            raise ValueError(f"{token} at token {index} has no argument")
        return following

    def _visit_construct(self, token: str, index: int) -> int | None:
        if token in HIDDEN_WITH_ARGUMENT:
            grouped = self.pieces[index + 1] == "{"
            return (self._close(index + 1) if grouped else index + 1) + 1
        if token in FRACTIONS:
            self._wrap(token, index, self._close(self._close(index + 1) + 1))
            return index + 1
        if token in ACCENTS:
            return self._visit_accent(token, index)
        if token in WRAPPERS:
            return self._visit_wrapper(index)
        if token in BRACKETED:
            return self._visit_bracketed(token, index)
        if token in SPANS:
            third = self._close(self._close(index + 1) + 1) + 1
            end = self._close(third)
            self._visit_range(third + 1, end)
            return end + 1
        return None

    def _visit_accent(self, token: str, index: int) -> int:
        """The accent is drawn; with a subscript behind it, it gets a group of its own first."""
        end = self._close(index + 1)
        subscripted = token != r"\underbrace" and self.pieces[end + 1 : end + 2] == ["_"]
        self._wrap(token, index, end, extra=subscripted)
        return index + 1

    def _visit_wrapper(self, index: int) -> int:
        start = index + 1
        end = self._close(start)
        if end - start == 2:
            self.pieces[start + 1] = self._coloured(self.pieces[start + 1])
        else:
            self._visit_range(start + 1, end)
        return end + 1

    def _visit_bracketed(self, token: str, index: int) -> int:
        start = index + 1
        opening = self.pieces[start]
        if opening == "{":
            end = self._close(start)
            self._wrap(token, index, end)
            self._visit_range(start + 1, end)
            return end + 1
        if opening == "[":
            degree_end = closing_index(self.pieces, start, "[", "]")
            end = self._close(degree_end + 1)
            self._wrap(token, index, end)
            self._visit_range(start + 1, degree_end, in_degree=True)
            self._visit_range(degree_end + 2, end)
            return end + 1
        raise ValueError(f"{token} at token {index} has neither [ nor {{ behind it")

    def _visit_plain(self, token: str, index: int, *, in_degree: bool) -> int:
        if token in HIDDEN or token in STACKS or HIDDEN_PATTERN.match(token):
            if self._is_own_bracket(token, index):
                self.pieces[index] = self._coloured(token)
            return index + 1
        grouped = in_degree or (index > 1 and self.pieces[index - 1] == "_")
        coloured = self._coloured(token)
        self.pieces[index] = "{" + coloured + "}" if grouped else coloured
        return index + 1

    def _is_own_bracket(self, token: str, index: int) -> bool:
        """A square bracket that is drawn, not one around the degree of a root."""
        if token == "[":
            return self.pieces[index - 1] != r"\sqrt"
        return token == "]" and index >= 3 and self.pieces[index - 3] != r"\sqrt"

    def _visit_range(self, index: int, end: int, *, in_degree: bool = False) -> None:
        while index < end:
            index = self.visit(index, in_degree=in_degree)

    def _close(self, start: int) -> int:
        return closing_index(self.pieces, start)

    def _head(self, token: str) -> str:
        """Opening of the next colour, and the token entered into the list."""
        number = len(self.names) + 1
        channels = ",".join(map(str, rgb(number))) if number <= self.colours else f"<color_{number - 1}>"
        self.names.append(token)
        return r"\mathcolor[RGB]{" + channels + "}{"

    def _coloured(self, token: str) -> str:
        return self._head(token) + token + "}"

    def _wrap(self, token: str, index: int, end: int, *, extra: bool = False) -> None:
        """Colour `token` with its arguments up to `end`; one closing token more stands behind them."""
        head = ("{" if extra else "") + self._head(token) + token
        rest = self.pieces[end + 1 :]
        self.pieces = [
            *self.pieces[:index],
            head,
            *self.pieces[index + 1 : end + 1],
            "}}" if extra else "}",
            *rest,
        ]


def names(text: str) -> frozenset[str]:
    """The blank-separated words of `text`."""
    return frozenset(text.split())


HIDDEN = names(
    r"\ \\ \index \a & $ \multirow \def \edef \raggedright \url \cr \ensuremath \left \right \mathchoice "
    r"\scriptstyle \displaystyle \qquad \quad \, \! ~ \boldmath \gdef \today \the"
)
"""Draw nothing, take nothing."""
HIDDEN_WITH_ARGUMENT = names(
    r"\fontfamily \vphantom \phantom \rowcolor \ref \thesubequation \global \theboldgroup"
)
"""Draw nothing, and neither does the group behind them."""
HIDDEN_PATTERN = re.compile(
    r"[{}\[\]^_]|\\(?:begin|end)\{.*?\}|\\.*rule.*|\\.*line.*",
)
"""Tokens that begin like this draw nothing: brackets, scripts, environment ends, rules and lines."""
FRACTIONS = frozenset({r"\frac", r"\binom"})
"""Two groups behind; drawn themselves."""
STACKS = frozenset({r"\overset", r"\underset", r"\stackrel"})
"""Two groups behind; not drawn themselves."""
BRACKETED = frozenset({r"\xrightarrow", r"\xleftarrow", r"\sqrt"})
"""An optional `[..]` and a group behind; drawn themselves."""
ACCENTS = names(
    r"\widetilde \overline \hat \widehat \tilde \Tilde \dot \bar \vec \underline \underbrace \check "
    r"\breve \Bar \Vec \mathring \ddot \Ddot \dddot \ddddot"
)
"""One group behind; drawn themselves."""
WRAPPERS = names(
    r"\boldsymbol \pmb \textbf \mathrm \mathbf \mathbb \mathcal \textmd \texttt \textnormal \text "
    r"\textit \textup \mathop \mathbin \smash \operatorname \textrm \mathfrak \emph \textsf \textsc"
)
"""One group behind; not drawn themselves."""
SPANS = frozenset({r"\multicolumn", r"\multirow"})
"""Three groups behind, of which the third is drawn."""

_DOTS = names(r"… \ldots \hdots \cdots \dddot \dots \dotsc \dotsi \dotsm \dotso \dotsb \mathellipsis")
_NAMES = names(
    "ex ln lg cot mod min max ker hom sec scs csc deg arg log dim exp sin cos tan tanh cosh sinh coth "
    "arcsin arccos arctan"
)
SPELLED = {
    "--": "- -",
    "---": "- - -",
    **dict.fromkeys(_DOTS, ". . ."),
    **{"\\" + name: rf"\mathrm {{ {' '.join(name)} }}" for name in _NAMES},
    r"\bmod": r"\mathrm { m o d }",
    r"\pmod": r"\mathrm { m o d }",
}
"""Tokens that are replaced by their letters, so that every letter gets a box of its own."""


def closing_index(tokens: Sequence[str], start: int, opening: str = "{", closing: str = "}") -> int:
    """Index of the token that closes the first bracket opened at or behind `start`.

    `ValueError` when it stays open; -1 when none opens at all, as the OmniDocBench scorer has it (callers
    there compute with that -1, and so do we).
    """
    depth = 0
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token == opening:
            depth += 1
        elif token == closing:
            depth -= 1
            if depth == 0:
                return index
    if depth > 0:
        raise ValueError(f"{opening!r} at token {start} is never closed")
    return -1
