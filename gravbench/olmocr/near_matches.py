"""Near matches of a short text in a page.

What `fuzzysearch` 0.8 finds by Levenshtein distance, bounded by steps.

Two searches, chosen by length as there: by n-grams that must occur exactly, or a scan that keeps candidates.
The scan here keeps each candidate once, so it cannot blow up; the set of matches is the same. Overlapping
matches are grouped, and each group yields its best. Of matches equally near and long the smallest start is
taken; the library leaves that to the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gravbench.olmocr.page import OverLimitError

MAX_STEPS = 5_000_000
"""Cells of the alignment tables filled, or candidates moved, for one search."""
MAX_OCCURRENCES = 1_000_000
"""Exact occurrences listed for one search."""


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """Half-open span of the text and its Levenshtein distance from the needle."""

    start: int
    end: int
    distance: int


class _Budget:
    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise OverLimitError(f"near matches took more than {MAX_STEPS} steps")


def _occurrences(needle: str, text: str, start: int, end: int) -> Iterator[int]:
    """Exact occurrences within text[start:end], overlapping ones included."""
    found = 0
    place = text.find(needle, start, end)
    while place >= 0:
        found += 1
        if found > MAX_OCCURRENCES:
            raise OverLimitError(f"more than {MAX_OCCURRENCES} exact occurrences of {needle[:40]!r}")
        yield place
        place = text.find(needle, place + 1, end)


def _extend(rest: str, text: str, limit: int, budget: _Budget) -> tuple[int, int] | None:
    """Cheapest alignment of `rest` with a prefix of `text`: (cost, prefix length), the longest of equals.

    None if it costs more than `limit`. A short rest stops reading as soon as no cell of the last row is below
    the best cost (the empty prefix's column not counted), so it fills whole rows; a long one needs only the
    cells that can be within the limit.
    """
    length = len(rest)
    if text.startswith(rest):
        return 0, length
    if length <= max(2 * limit, 10):
        return _extend_short(rest, text, limit, budget)
    row = list(range(1, length + 1))
    best, best_end = limit + 1, 0
    for number, character in enumerate(text[: length + limit]):
        first, last = max(0, number - limit), min(length, number + limit + 1)
        budget.spend(last - first)
        if first == 0:
            diagonal, left = number, number + 1
        else:
            diagonal, left = row[first - 1], limit + 1
        lowest = number + 1
        for column in range(first, last):
            above = row[column]
            cost = diagonal if character == rest[column] else diagonal + 1
            if above + 1 < cost:
                cost = above + 1
            if left + 1 < cost:
                cost = left + 1
            diagonal, left = above, cost
            row[column] = cost
            if cost < lowest:
                lowest = cost
        if last == length and left <= best:
            best, best_end = left, number + 1
        if lowest > min(limit, best):
            break
    return (best, best_end) if best <= limit else None


def _extend_short(rest: str, text: str, limit: int, budget: _Budget) -> tuple[int, int] | None:
    length = len(rest)
    row = list(range(1, length + 1))
    best, best_end = length, 0
    for number, character in enumerate(text):
        budget.spend(length)
        diagonal, left = number, number + 1
        for column in range(length):
            above = row[column]
            cost = diagonal if character == rest[column] else diagonal + 1
            if above + 1 < cost:
                cost = above + 1
            if left + 1 < cost:
                cost = left + 1
            diagonal, left = above, cost
            row[column] = cost
        if left <= best:
            best, best_end = left, number + 1
        elif min(row) >= best:
            break
    return (best, best_end) if best <= limit else None


def _by_ngrams(needle: str, text: str, limit: int, budget: _Budget) -> Iterator[Match]:
    """Matches around exact occurrences of the needle's consecutive n-grams."""
    m, n = len(needle), len(text)
    size = m // (limit + 1)
    for start in range(0, m - size + 1, size):
        before, after = needle[:start][::-1], needle[start + size :]
        first, last = max(0, start - limit), min(n, n - m + start + size + limit)
        for place in _occurrences(needle[start : start + size], text, first, max(0, last)):
            right = _extend(after, text[place + size : max(0, place - start + m + limit)], limit, budget)
            if right is None:
                continue
            left_limit = limit - right[0]
            reach = text[max(0, place - start - left_limit) : place][::-1]
            left = _extend(before, reach, left_limit, budget)
            if left is None:
                continue
            yield Match(place - left[1], place + size + right[1], left[0] + right[0])


def _by_candidates(needle: str, text: str, limit: int, budget: _Budget) -> Iterator[Match]:
    """Matches of a needle that is short for its limit.

    Candidates (start, next in needle, cost) move along the text.

    At a wrong character a candidate may skip it, skip it together with its own next one, or jump ahead in the
    needle to where the character stands or the needle ends; at the right character it only moves on.
    """
    m, n = len(needle), len(text)
    if limit >= m:
        budget.spend(n)
        yield from (Match(place, place, m) for place in range(n + 1))
        return
    first_at: dict[str, int] = {}
    for place, character in enumerate(needle[: limit + 1]):
        first_at.setdefault(character, place)
    candidates: set[tuple[int, int, int]] = set()
    for place, character in enumerate(text):
        budget.spend(1 + len(candidates))
        moved: set[tuple[int, int, int]] = set()
        begin = first_at.get(character)
        if begin is not None:
            if begin + 1 == m:
                yield Match(place, place + 1, begin)
            else:
                moved.add((place, begin + 1, begin))
        for start, following, cost in candidates:
            if needle[following] == character:
                if following + 1 == m:
                    yield Match(start, place + 1, cost)
                else:
                    moved.add((start, following + 1, cost))
                continue
            if cost == limit:
                continue
            moved.add((start, following, cost + 1))
            if place + 1 < n and following + 1 < m:
                moved.add((start, following + 1, cost + 1))
            for skipped in range(1, limit - cost + 1):
                if following + skipped == m:
                    yield Match(start, place + 1, cost + skipped)
                    break
                if needle[following + skipped] == character:
                    if following + skipped + 1 == m:
                        yield Match(start, place + 1, cost + skipped)
                    else:
                        moved.add((start, following + skipped + 1, cost + skipped))
                    break
        candidates = moved
    for start, following, cost in candidates:
        if cost + m - following <= limit:
            yield Match(start, n, cost + m - following)


def group_best(matches: Iterable[Match]) -> list[Match]:
    """The nearest, then longest, then first match of each group of overlapping ones, by start."""
    best: list[Match] = []
    end = -1
    for match in sorted(set(matches)):
        rank = (match.distance, match.start - match.end)
        if best and match.start < end and match.start < match.end:
            if rank < (best[-1].distance, best[-1].start - best[-1].end):
                best[-1] = match
        else:
            best.append(match)
        end = max(end, match.end)
    return sorted(best)


def near_matches(needle: str, text: str, limit: int) -> list[Match]:
    """Near matches within Levenshtein distance `limit`, sorted by start; with 0 all exact ones, not grouped.

    `needle` is not empty. Raises OverLimitError when the input asks for too many steps.
    """
    if limit == 0:
        return [Match(i, i + len(needle), 0) for i in _occurrences(needle, text, 0, len(text))]
    budget = _Budget(MAX_STEPS)
    search = _by_ngrams if len(needle) // (limit + 1) >= 3 else _by_candidates
    return group_best(search(needle, text, limit, budget))
