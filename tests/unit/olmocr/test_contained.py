from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravbench.olmocr import math_tests as module
from gravbench.olmocr.math_tests import NONE, Equation, Symbols, contained
from gravbench.olmocr.page import OverLimitError, Rules
from gravbench.olmocr.rendering import Rejected, Rendered, Span

PLACES = st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 3))


def _symbols(places: list[tuple[str, int, int]]) -> Symbols:
    xs, ys = ([10.0 * place[axis] for place in places] for axis in (1, 2))
    return Symbols(tuple(place[0] for place in places), np.array(xs), np.array(ys))


def _slow_neighbours(symbols: Symbols) -> list[list[int]]:
    """The definition, symbol by symbol."""
    found = []
    sideways, vertical = (symbols.x, symbols.y), (symbols.y, symbols.x)
    for (along, across), sign in ((sideways, -1), (sideways, 1), (vertical, -1), (vertical, 1)):
        row = []
        for i in range(len(along)):
            near = [
                (abs(along[k] - along[i]), k)
                for k in range(len(along))
                if (along[k] - along[i]) * sign > 0 and abs(across[k] - across[i]) <= 5
            ]
            row.append(min(near)[1] if near else NONE)
        found.append(row)
    return found


def _slow_embeds(reference: Symbols, other: Symbols) -> bool:
    """All injective maps, one after the other."""
    ours, theirs = _slow_neighbours(reference), _slow_neighbours(other)

    def fits(mapped: tuple[int, ...]) -> bool:
        for i, j in enumerate(mapped):
            if reference.characters[i] != other.characters[j]:
                return False
            for direction in range(4):
                k, near = ours[direction][i], theirs[direction][j]
                if k == NONE:
                    continue
                if near == NONE or (
                    near != mapped[k] if k < i else other.characters[near] != reference.characters[k]
                ):
                    return False
        return True

    return any(
        fits(mapped) for mapped in permutations(range(len(other.characters)), len(reference.characters))
    )


@settings(max_examples=120, deadline=None)
@given(st.lists(PLACES, min_size=1, max_size=4), st.lists(PLACES, min_size=1, max_size=5))
def test_the_search_agrees_with_trying_all_maps(a: list, b: list) -> None:
    reference, other = _symbols(a), _symbols(b)
    assert reference.neighbours.tolist() == _slow_neighbours(reference)
    counts = Counter(place[0] for place in a), Counter(place[0] for place in b)
    possible = all(count <= counts[1][character] for character, count in counts[0].items())
    found = possible and module._embeds(reference, other)
    assert found == _slow_embeds(reference, other)


@settings(max_examples=100, deadline=None)
@given(st.lists(PLACES, min_size=1, max_size=8))
def test_every_equation_contains_itself(places: list) -> None:
    symbols = _symbols(places)
    assert module._embeds(symbols, symbols)


def _row(text: str, mathml: str) -> Rendered:
    return Rendered(mathml, tuple(Span(c, 20.0 * n, 0.0, 10.0) for n, c in enumerate(text)))


def test_a_rejected_reference_is_found_in_anything_and_a_rejected_candidate_only_holds_such() -> None:
    rejected = Equation(Rejected("unknown command"), Rules.RELEASE)
    shown = Equation(_row("ab", "<mi>a</mi><mi>b</mi>"), Rules.RELEASE)
    blank = Equation(_row("", "<mspace/>"), Rules.RELEASE)
    assert contained(rejected, shown) == "layout"
    assert contained(rejected, rejected) == "mathml"
    assert contained(blank, shown) == contained(blank, rejected) == "layout"
    assert contained(shown, rejected) is None


def test_an_equation_too_large_to_render_is_never_silently_different() -> None:
    large = Equation(Rejected("too long", limit=True), Rules.RELEASE)
    shown = Equation(_row("ab", "<mi>a</mi>"), Rules.RELEASE)
    with pytest.raises(OverLimitError, match="too long"):
        contained(shown, large)


def test_a_search_without_end_is_ended_by_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_STEPS", 10)
    many = _symbols([("x", 100 * n, 100 * n) for n in range(12)])
    with pytest.raises(OverLimitError, match="steps"):
        module._embeds(many, many)
