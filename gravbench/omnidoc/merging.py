"""Prediction merging: neighbouring predicted lines joined where together they resemble one truth line.

OmniDocBench v1.6 scorer, "prediction merging". For each unmatched truth line a run is grown from every
unmatched predicted line; the best run of each truth line is kept and clashes are resolved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gravbench.text.distance import distance_matrix, has_close_window, largest_distance, normalized_distance

MATCHED = 0.25
"""Lines closer than this to anything are settled and take no part."""
WINDOW_SHARE = 0.6
MAX_RUN_LINES = 160
COMPILED_FROM_PAIRS = 20_000
"""From so many (truth line, start) pairs on, the compiled search is worth loading; same results."""


@dataclass(frozen=True, slots=True)
class Run:
    """Predicted lines first..last (both included) and their joined distance to the truth line."""

    first: int
    last: int
    distance: float

    def clashes(self, other: Run) -> bool:
        return self.first <= other.last and other.first <= self.last

    def same_lines(self, other: Run) -> bool:
        return self.first == other.first and self.last == other.last


@dataclass(frozen=True, slots=True)
class Merged:
    """Line groups after merging, their distances [truth, group], and the windows read officially."""

    groups: tuple[range, ...]
    distances: NDArray[np.float64]
    official_windows: int


def _plain_sum(values: Sequence[float]) -> float:
    """Left to right without compensation, as the official scorer's Python adds."""
    total = 0.0
    for value in values:
        total += value
    return total


class _PlainSearch:
    """Grows runs line by line; remembers which lines have a close window in the current truth line."""

    def __init__(self, truth: str, lines: Sequence[str], masked: NDArray[np.bool_]) -> None:
        self._truth = truth
        self._lines = lines
        self._masked = masked
        self._known: dict[tuple[str, bool], bool] = {}
        self.official_windows = 0

    def _is_near(self, line: str, *, strict: bool) -> bool:
        key = (line, strict)
        if key not in self._known:
            limit = largest_distance(len(line), WINDOW_SHARE, strict=strict) if line else -1
            self._known[key] = has_close_window(self._truth, line, limit)
        return self._known[key]

    def _windows(self, line: str) -> int:
        return max(len(self._truth) - len(line) + 1, 0)

    def grow(self, start: int, distance: float) -> Run:
        """Run from `start` on: every line added must not worsen the distance and must occur nearby."""
        run, text, windows = 1, self._lines[start], 0
        while run < MAX_RUN_LINES:
            following = start + run
            if following >= len(self._lines) or self._masked[following]:
                break
            line = self._lines[following]
            merged = f"{text} {line}"
            merged_distance = normalized_distance(self._truth, merged)
            if merged_distance > distance:
                break
            windows += self._windows(self._lines[following - 1])
            self.official_windows += windows + self._windows(line)
            if run == 1 and not self._is_near(self._lines[start], strict=False):
                break
            if not self._is_near(line, strict=True):
                break
            run, text, distance = run + 1, merged, merged_distance
            if len(merged) > len(self._truth):
                break
        return Run(start, start + run - 1, distance)


def plain_best_run(
    truth: str, lines: Sequence[str], distances: NDArray[np.float64], masked: NDArray[np.bool_]
) -> tuple[Run | None, int]:
    """First run with the smallest distance to `truth`, and the official window count; None without starts."""
    search = _PlainSearch(truth, lines, masked)
    runs = [search.grow(int(j), float(distances[j])) for j in np.flatnonzero(~masked)]
    return min(runs, key=lambda run: run.distance, default=None), search.official_windows


def compiled_best_runs(
    truths: Sequence[str], lines: Sequence[str], masked: NDArray[np.bool_]
) -> list[tuple[Run | None, int]]:
    """`plain_best_run` for every truth line, compiled."""
    from gravbench.text.run_growth import EncodedLines, alphabet_of  # loads numba

    if bool(masked.all()):
        return [(None, 0)] * len(truths)
    alphabet = alphabet_of([*truths, *lines])
    lengths = [len(line) for line in lines]
    encoded = EncodedLines(
        alphabet=alphabet,
        codes=alphabet.encode("".join(lines)),
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        masked=masked,
        loose=np.array([largest_distance(n, WINDOW_SHARE, strict=False) if n else -1 for n in lengths]),
        strict=np.array([largest_distance(n, WINDOW_SHARE, strict=True) if n else -1 for n in lengths]),
    )
    found: list[tuple[Run | None, int]] = []
    for truth in truths:
        growth = encoded.grow(truth, MAX_RUN_LINES)
        first = int(np.argmin(growth.ratios))
        run = Run(first, first + int(growth.lengths[first]) - 1, float(growth.ratios[first]))
        found.append((run, growth.official_windows))
    return found


def _clash_groups(runs: Sequence[Run]) -> list[list[Run]]:
    groups: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: run.first):
        if groups and any(run.clashes(member) for member in groups[-1]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def _cheapest_path(group: Sequence[Run]) -> list[Run]:
    """Disjoint runs of a clash group: greedy paths, the one of lowest mean distance wins (first on ties)."""
    paths: list[list[Run]] = [[group[0]]]
    for run in group[1:]:
        placed = False
        for path in paths:
            twin = next((member for member in path if member.same_lines(run)), None)
            if twin is not None:
                placed = True
                if twin.distance > run.distance:
                    path.remove(twin)
                    path.append(run)
            elif not any(member.clashes(run) for member in path):
                placed = True
                path.append(run)
        if not placed:
            paths.append([run])
    return min(paths, key=lambda path: _plain_sum([run.distance for run in path]) / len(path))


def disjoint_runs(runs: Sequence[Run]) -> list[Run]:
    """Runs without clashes, in order of their first line."""
    kept = [run for group in _clash_groups(runs) for run in _cheapest_path(group)]
    return sorted(kept, key=lambda run: run.first)


def _line_groups(count: int, runs: Sequence[Run]) -> tuple[range, ...]:
    groups: list[range] = []
    line = 0
    for run in runs:
        groups += (range(i, i + 1) for i in range(line, run.first))
        groups.append(range(run.first, run.last + 1))
        line = run.last + 1
    groups += (range(i, i + 1) for i in range(line, count))
    return tuple(groups)


def merge_predictions(truths: Sequence[str], lines: Sequence[str], distances: NDArray[np.float64]) -> Merged:
    """Join predicted lines where that brings them closer to an unmatched truth line."""
    settled = distances < MATCHED
    masked = np.asarray(settled.any(axis=0), dtype=np.bool_)
    open_truths = [int(i) for i in np.flatnonzero(~settled.any(axis=1))]
    if len(open_truths) * int((~masked).sum()) < COMPILED_FROM_PAIRS:
        best = [plain_best_run(truths[i], lines, distances[i], masked) for i in open_truths]
    else:
        best = compiled_best_runs([truths[i] for i in open_truths], lines, masked)
    windows = sum(count for _, count in best)
    runs = disjoint_runs([run for run, _ in best if run is not None])
    if all(run.first == run.last for run in runs):
        return Merged(_line_groups(len(lines), ()), distances, windows)
    groups = _line_groups(len(lines), runs)
    joined = [" ".join(lines[group.start : group.stop]) for group in groups]
    return Merged(groups, distance_matrix(truths, joined), windows)
