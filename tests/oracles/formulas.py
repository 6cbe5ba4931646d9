"""Formulas as papers and textbooks have them, and the mistakes a reader of images makes. All made up."""

from __future__ import annotations

import random

PLAIN = [
    r"E = m c^{2}",
    r"\int_{0}^{\infty} e^{-x^{2}} \, dx = \frac{\sqrt{\pi}}{2}",
    r"\sum_{k=1}^{n} k^{3} = \left( \frac{n(n+1)}{2} \right)^{2}",
    r"\frac{\partial u}{\partial t} = \alpha \nabla^{2} u + f(x, t)",
    r"\hat{\beta} = (X^{\top} X)^{-1} X^{\top} y",
    r"\mathbf{A} \mathbf{x} = \lambda \mathbf{x}, \quad \mathbf{x} \neq \mathbf{0}",
    r"P(A \mid B) = \frac{P(B \mid A) P(A)}{P(B)}",
    r"\lim_{n \to \infty} \left( 1 + \frac{1}{n} \right)^{n} = e",
    r"\nabla \times \vec{E} = - \frac{\partial \vec{B}}{\partial t}",
    r"f(x) = \begin{cases} x^{2}, & x \geq 0 \\ -x, & x < 0 \end{cases}",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix} \begin{pmatrix} x \\ y \end{pmatrix} = \mathbf{e}",
    r"\begin{aligned} a &= b + c \\ &= d \end{aligned}",
    r"\prod_{i<j} (x_{j} - x_{i}) = \det V",
    r"\overline{z_{1} + z_{2}} = \overline{z_{1}} + \overline{z_{2}}",
    r"\sigma^{2} = \operatorname{Var}(X) = \mathbb{E}[X^{2}] - (\mathbb{E}[X])^{2}",
    r"\left\| \sum_{i} a_{i} e_{i} \right\|^{2} = \sum_{i} |a_{i}|^{2}",
    r"\underbrace{x + \cdots + x}_{n} = n x",
    r"A \xrightarrow{f} B \xrightarrow[g]{\simeq} C",
    r"\sqrt[3]{x^{3} + y^{3}} \le x + y",
    r"\mathcal{L}(\theta) = - \sum_{t} \log p_{\theta}(y_{t} \mid y_{<t}, x)",
    r"\ddot{x} + 2 \zeta \omega_{0} \dot{x} + \omega_{0}^{2} x = 0",
    r"\binom{n}{k} = \frac{n!}{k!(n-k)!}",
    r"\widetilde{H}^{0}(X) \cong \ker \left( \partial_{0} \right) / \mathrm{im} \, \partial_{1}",
    r"x \in \left\{ a, b, \ldots, z \right\} \setminus \emptyset",
    r"\sin^{2} \theta + \cos^{2} \theta = 1",
    r"\left[ \begin{array}{cc|c} 1 & 0 & 3 \\ 0 & 1 & 5 \end{array} \right]",
    r"\stackrel{\text{def}}{=} \overset{*}{\to} \underset{x}{\arg \max} \; g(x)",
    r"\text{rate} = k [A]^{m} [B]^{n}, \qquad k = A e^{-E_{a} / R T}",
    r"T_{\mu \nu} = \frac{1}{4} \left( F_{\mu \alpha} F_{\nu}{}^{\alpha} - g_{\mu \nu} F^{2} \right)",
    r"50\% \times 80\% = 40\%",
]
CHINESE = [
    r"面积=长\times 宽",
    r"v=\frac{路程}{时间}",
    r"\text{当 }x>0\text{ 时，}f(x)>0",
    r"利润率=\frac{利润}{成本}\times 100\%",
]
WIDE = [" + ".join(rf"x_{{{i}}}^{{2}}" for i in range(60)), "=".join(rf"a_{{{i}}}" for i in range(130))]
TALL = [r"\begin{array}{l} " + r" \\ ".join(f"x_{{{i}}}=1" for i in range(45)) + r" \end{array}"]
TABLES = [r"\begin{tabular}{|c|c|} \hline a & $x^2$ \\ \hline b & $\frac{1}{2}$ \\ \hline \end{tabular}"]
BROKEN = [
    r"x^{2",
    r"a & b",
    r"\undefinedmacro{x} + y",
    r"x_{1}_{2}",
    r"\left( x",
    r"\frac{a}",
    r"x’ – y",
    r"\begin{aligned} a &= b",
    r"a^b^c",
    r"\end{matrix}",
    r"\mathbf",
    r"{ } }",
    r"\textcircled{1} \ding{172}",
    r"α + β ≤ γ",
]

_SWAPS = [
    ("+", "-"),
    ("x", "y"),
    ("1", "7"),
    (r"\alpha", "a"),
    (r"\le", "<"),
    ("=", r"\approx"),
    (r"\frac", r"\binom"),
    ("{2}", "{3}"),
    ("n", "m"),
    (r"\mathbf", r"\mathrm"),
    ("&", ""),
    (r"\sum", r"\Sigma"),
]


def misread(formula: str, rng: random.Random) -> str:
    """The formula after one to three misreadings: a sign replaced, lost or added, rarely a brace lost."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.random()
        pieces = formula.split(" ")
        if kind < 0.7:
            old, new = rng.choice(_SWAPS)
            at = [i for i in range(len(formula)) if formula.startswith(old, i)]
            if at:
                start = rng.choice(at)
                formula = formula[:start] + new + formula[start + len(old) :]
        elif kind < 0.85:
            pieces.insert(
                rng.randrange(len(pieces) + 1), rng.choice(["x", "+ 1", r"\quad z", "_{i}", "(2)", "’"])
            )
            formula = " ".join(pieces)
        elif kind < 0.97:
            plain = [i for i, piece in enumerate(pieces) if not set(piece) & set("\\{}&")]
            if plain:
                del pieces[rng.choice(plain)]
            formula = " ".join(pieces)
        else:
            formula = formula[: max(1, int(len(formula) * rng.uniform(0.6, 0.95)))]
    return formula


def _one_of(rng: random.Random) -> str:
    """A formula: one in fifteen is too wide for A5, one in ten Chinese."""
    kind = rng.random()
    if kind < 0.07:
        return rng.choice(["+", "-", "="]).join(
            rf"{rng.choice('abx')}_{{{i}}}^{{2}}" for i in range(rng.randint(35, 75))
        )
    return rng.choice(CHINESE if kind < 0.17 else PLAIN)


def distinct_pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Pairs of a formula and its misreading; no two strings among all pairs are equal.

    Of the renderings about one in fourteen needs larger paper, one in ten has a TeX error, few make no page.
    """
    rng = random.Random(seed)
    seen: set[str] = set()
    pairs = []
    while len(pairs) < count:
        formula = _one_of(rng)
        for old in ("x", "a", "n"):
            formula = formula.replace(f"{old}_", f"{rng.choice('bcdghkpqrst')}_")
        gt = rf"{formula} \; {rng.choice('ABCDKLMN')}_{{{rng.randrange(1000)}}}"
        pred = misread(gt, rng)
        if gt not in seen and pred not in seen and pred.strip() and gt != pred:
            seen |= {gt, pred}
            pairs.append((gt, pred))
    return pairs
