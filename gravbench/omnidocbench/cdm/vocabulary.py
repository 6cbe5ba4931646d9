"""Which control words are drawn, which wrap their argument, and which draw nothing (OmniDocBench v1.6)."""

from __future__ import annotations

import re


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
