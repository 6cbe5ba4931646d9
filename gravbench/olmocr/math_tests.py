"""`math`: an equation among those of the page, by its text or by how it looks.

A reference is contained in another equation by MathML, else by symbols and their neighbours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz

from gravbench.olmocr.page import OverLimitError, PageText, Rules, UnscoredError, Verdict, shorten
from gravbench.olmocr.records import MathTest
from gravbench.olmocr.rendering import ZERO_WIDTH, Rejected, Rendered, Renderer, Rendering

TOLERANCE_PX = 5.0
MAX_SYMBOLS = 3_000
"""Neighbours are looked for among all pairs; larger equations are refused, by count."""
MAX_STEPS = 200_000
"""Assignments tried by the search. Real pairs need as many as they have symbols."""
NONE = -1
"""No neighbour, in the arrays of neighbours only."""

_SPACE = re.compile(r"\s")
_INVISIBLE = re.compile("[\\s\u200a-\u200d\u2060\ufeff]")

Path = Literal["mathml", "layout"]
Neighbours = NDArray[np.int64]


@dataclass(frozen=True)
class Symbols:
    """Characters of a rendered equation in document order with the centres of their boxes, pixels."""

    characters: tuple[str, ...]
    x: NDArray[np.float64]
    y: NDArray[np.float64]

    @cached_property
    def neighbours(self) -> Neighbours:
        """[4, n]: index of the nearest symbol left, right, up and down, or NONE."""
        if len(self.characters) > MAX_SYMBOLS:
            raise OverLimitError(f"equation of {len(self.characters)} symbols, more than {MAX_SYMBOLS}")
        dx = self.x[None, :] - self.x[:, None]  # [from, to]
        dy = self.y[None, :] - self.y[:, None]
        rows = []
        for along, across in ((-dx, dy), (dx, dy), (-dy, dx), (dy, dx)):
            distance = np.where((along > 0) & (np.abs(across) <= TOLERANCE_PX), along, np.inf)
            nearest = distance.argmin(axis=1)  # the first in document order wins a tie
            rows.append(np.where(np.isfinite(distance.min(axis=1)), nearest, NONE))
        return np.stack(rows)


def symbols_of(rendered: Rendered, rules: Rules) -> Symbols:
    """Spans cut into characters of equal width."""
    characters: list[str] = []
    xs: list[float] = []
    ys: list[float] = []
    for span in rendered.spans:
        text = _INVISIBLE.sub("", span.text) if rules is Rules.MAIN else span.text.strip()
        if not text or text == ZERO_WIDTH:
            continue
        step = span.width / len(text)
        left = span.x - span.width / 2
        for number, character in enumerate(text):
            characters.append(character)
            xs.append(left + (number + 0.5) * step)
            ys.append(span.y)
    return Symbols(tuple(characters), np.array(xs), np.array(ys))


def bare_mathml(rendered: Rendered, rules: Rules) -> str:
    """MathML without white space (in the newer state also without invisible characters)."""
    return (_INVISIBLE if rules is Rules.MAIN else _SPACE).sub("", rendered.mathml)


class Equation:
    """A rendering with what comparisons need, computed once.

    A rejected one has neither MathML nor symbols.
    """

    def __init__(self, rendering: Rendering, rules: Rules) -> None:
        self.limit = rendering.reason if isinstance(rendering, Rejected) and rendering.limit else None
        if isinstance(rendering, Rejected):
            self.mathml: str | None = None
            self.symbols = Symbols((), np.zeros(0), np.zeros(0))
        else:
            self.mathml = bare_mathml(rendering, rules)
            self.symbols = symbols_of(rendering, rules)
        self.counts = Counter(self.symbols.characters)


def contained(reference: Equation, other: Equation) -> Path | None:
    """How `reference` is found in `other`, or None.

    A reference that shows no symbol, or was rejected, is found in anything. Raises OverLimitError when an
    equation was not rendered for its size or the search takes too many steps.
    """
    for equation in (reference, other):
        if equation.limit is not None:
            raise OverLimitError(equation.limit)
    if reference.mathml == other.mathml:
        return "mathml"
    if reference.mathml is not None and other.mathml is not None and reference.mathml in other.mathml:
        return "mathml"
    if not reference.symbols.characters:
        return "layout"
    if any(count > other.counts[character] for character, count in reference.counts.items()):
        return None
    return "layout" if _embeds(reference.symbols, other.symbols) else None


def _embeds(reference: Symbols, other: Symbols) -> bool:
    """Whether an injective map keeps characters and neighbours.

    For a neighbour k of i: if k comes before i, f(k) is f(i)'s neighbour there; if after, f(i)'s neighbour
    has k's character. The official search order made explicit.
    """
    links: list[tuple[int, int, int]] = []  # (i, k, direction) with k before i
    places: dict[str, list[int]] = {}
    for place, character in enumerate(other.characters):
        places.setdefault(character, []).append(place)
    domains: list[set[int]] = []
    theirs = other.neighbours.tolist()
    ours = reference.neighbours.tolist()
    for i, character in enumerate(reference.characters):
        wanted = [(direction, ours[direction][i]) for direction in range(4) if ours[direction][i] != NONE]
        links += [(i, k, direction) for direction, k in wanted if k < i]
        domains.append(
            {
                j
                for j in places[character]
                if all(
                    theirs[direction][j] != NONE
                    and other.characters[theirs[direction][j]] == reference.characters[k]
                    for direction, k in wanted
                )
            }
        )
    return _Search(links, theirs, len(domains)).solve(domains)


class _Search:
    """Exact search: domains are narrowed until the links hold, then the smallest domain is split."""

    def __init__(
        self, links: Sequence[tuple[int, int, int]], theirs: Sequence[Sequence[int]], n: int
    ) -> None:
        self._theirs = theirs
        self._links = links
        self._of: list[list[int]] = [[] for _ in range(n)]
        for number, (i, k, _) in enumerate(links):
            self._of[i].append(number)
            self._of[k].append(number)
        self._steps = 0

    def solve(self, domains: list[set[int]]) -> bool:
        """Depth first, without recursion."""
        stack = [(domains, list(range(len(self._links))))]
        while stack:
            state, touched = stack.pop()
            self._steps += 1
            if self._steps > MAX_STEPS // max(1, len(state)):
                raise OverLimitError(f"comparing two equations took more than {MAX_STEPS} steps")
            if not self._narrow(state, touched):
                continue
            i = min(
                (i for i, domain in enumerate(state) if len(domain) > 1),
                key=lambda i: len(state[i]),
                default=None,
            )
            if i is None:
                return True
            for place in sorted(state[i], reverse=True):
                narrower = [set(domain) for domain in state]
                narrower[i] = {place}
                stack.append((narrower, list(self._of[i])))
        return False

    def _narrow(self, domains: list[set[int]], pending: list[int]) -> bool:
        """Make all links and singletons consistent; False when a domain empties."""
        if not all(domains):
            return False
        placed: set[int] = set()
        while True:
            while pending:
                i, k, direction = self._links[pending.pop()]
                nearest = self._theirs[direction]
                of_i = {j for j in domains[i] if nearest[j] in domains[k]}
                of_k = domains[k] & {nearest[j] for j in of_i}
                if not of_i or not of_k:
                    return False
                for number, domain in ((i, of_i), (k, of_k)):
                    if len(domain) < len(domains[number]):
                        domains[number] = domain
                        pending += self._of[number]
            changed = self._take_places(domains, placed)
            if changed is None:
                return False
            if not changed:
                return True
            for number in changed:
                pending += self._of[number]

    @staticmethod
    def _take_places(domains: list[set[int]], placed: set[int]) -> list[int] | None:
        """Remove the places of newly fixed symbols from all others; None when that is impossible."""
        changed = []
        fixed = [i for i, domain in enumerate(domains) if len(domain) == 1 and i not in placed]
        for i in fixed:
            placed.add(i)
            (place,) = domains[i]
            for number, domain in enumerate(domains):
                if number != i and place in domain:
                    if len(domain) == 1:
                        return None
                    domain.discard(place)
                    changed.append(number)
        return changed


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
