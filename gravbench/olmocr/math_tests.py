"""`math`: an equation among those of the page, by its text or by how it looks."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz

from gravbench.olmocr.contained import Equation, contained
from gravbench.olmocr.page import PageText
from gravbench.olmocr.records import MathTest
from gravbench.olmocr.rendering import Rejected, Renderer
from gravbench.olmocr.rules import Rules
from gravbench.olmocr.verdict import OverLimitError, UnscoredError, Verdict, shorten

MAX_EQUATIONS = 20_000
"""Different equations of one page that are rendered."""


class Equations:
    """Equations rendered once each for all tests, in batches, by one renderer."""

    def __init__(self, renderer: Renderer, rules: Rules) -> None:
        self._renderer, self._rules = renderer, rules
        self._known: dict[str, Equation] = {}
        self._missing: str | None = None
        self.rejected: dict[str, str] = {}
        """Equations that KaTeX rejects, or that were too large, with the reason."""

    @property
    def rendered(self) -> int:
        """Equations asked for and answered."""
        return len(self._known)

    def prepare(self, equations: Iterable[str]) -> None:
        """Render those not yet known. A renderer that is not here or broke is asked once."""
        new = [equation for equation in dict.fromkeys(equations) if equation not in self._known]
        if not new or self._missing is not None:
            return
        try:
            rendered = self._renderer.render(new)
        except UnscoredError as error:
            self._missing = str(error)
            return
        for equation, rendering in zip(new, rendered, strict=True):
            self._known[equation] = Equation(rendering, self._rules)
            if isinstance(rendering, Rejected):
                self.rejected[equation] = rendering.reason

    def get(self, equation: str) -> Equation:
        self.prepare([equation])
        if equation not in self._known:
            raise UnscoredError(self._missing or "not rendered")
        return self._known[equation]


def wanted(test: MathTest, page: PageText) -> list[str]:
    """Equations to render for a test; none when one is equal as text."""
    equations = page.equations(ignore_dollars=test.ignore_dollar_delimited)
    if not equations or test.math in equations:
        return []
    different = list(dict.fromkeys(equations))
    return [] if len(different) > MAX_EQUATIONS else [test.math, *different]


def run_math(test: MathTest, page: PageText, rendered: Equations) -> Verdict:
    """Raises UnscoredError without a renderer, unless the page decides alone."""
    equations = page.equations(ignore_dollars=test.ignore_dollar_delimited)
    facts = {"equations": equations}
    if test.math in equations:
        return Verdict(True, facts={**facts, "path": "string"})
    if not equations:
        return Verdict(False, "no-match", f"{shorten(test.math)}: no equation on the page", facts)
    different = list(dict.fromkeys(equations))
    if len(different) > MAX_EQUATIONS:
        raise OverLimitError(f"{len(different)} different equations on a page, more than {MAX_EQUATIONS}")
    rendered.prepare([test.math, *different])
    reference = rendered.get(test.math)
    over: str | None = None
    different.sort(key=lambda equation: -fuzz.ratio(equation, test.math))
    for equation in different:
        try:
            path = contained(reference, rendered.get(equation))
        except OverLimitError as error:
            over = str(error)
            continue
        if path is not None:
            return Verdict(True, facts={**facts, "path": path, "equation": equation})
    if over is not None:
        raise OverLimitError(over)
    detail = f"{shorten(test.math)} is none of {len(equations)} equations; nearest {shorten(different[0])}"
    return Verdict(False, "no-match", detail, facts)
