"""Which control words are drawn, which only wrap their argument, and which draw nothing (OmniDocBench v1.6)."""

from __future__ import annotations

import re

HIDDEN = frozenset(
    r"\ \\ \index \a & $ \multirow \def \edef \raggedright \url \cr \ensuremath \left \right \mathchoice "
    r"\scriptstyle \displaystyle \qquad \quad \, \! ~ \boldmath \gdef \today \the".split()
)
"""Draw nothing, take nothing."""
HIDDEN_WITH_ARGUMENT = frozenset(
    r"\fontfamily \vphantom \phantom \rowcolor \ref \thesubequation \global \theboldgroup".split()
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
ACCENTS = frozenset(
    r"\widetilde \overline \hat \widehat \tilde \Tilde \dot \bar \vec \underline \underbrace \check \breve \Bar \Vec "
    r"\mathring \ddot \Ddot \dddot \ddddot".split()
)
"""One group behind; drawn themselves."""
WRAPPERS = frozenset(
    r"\boldsymbol \pmb \textbf \mathrm \mathbf \mathbb \mathcal \textmd \texttt \textnormal \text \textit \textup "
    r"\mathop \mathbin \smash \operatorname \textrm \mathfrak \emph \textsf \textsc".split()
)
"""One group behind; not drawn themselves."""
SPANS = frozenset({r"\multicolumn", r"\multirow"})
"""Three groups behind, of which the third is drawn."""

_DOTS = r"… \ldots \hdots \cdots \dddot \dots \dotsc \dotsi \dotsm \dotso \dotsb \mathellipsis".split()
_NAMES = (
    "ex ln lg cot mod min max ker hom sec scs csc deg arg log dim exp sin cos tan tanh cosh sinh coth arcsin arccos "
    "arctan"
).split()
SPELLED = {
    "--": "- -",
    "---": "- - -",
    **dict.fromkeys(_DOTS, ". . ."),
    **{"\\" + name: rf"\mathrm {{ {' '.join(name)} }}" for name in _NAMES},
    r"\bmod": r"\mathrm { m o d }",
    r"\pmod": r"\mathrm { m o d }",
}
"""Tokens that are replaced by their letters, so that every letter gets a box of its own."""
