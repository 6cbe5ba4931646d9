"""Prediction merging: neighbouring predicted lines joined where together they resemble one truth line.

OmniDocBench v1.6 scorer, "prediction merging". For each unmatched truth line a run is grown from every
unmatched predicted line; the best run of each truth line is kept and clashes are resolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import extract_iter

from gravbench.metrics.edit_distance import distance_matrix, has_close_window, largest_distance

MATCHED = 0.25
"""Lines closer than this to anything are settled and take no part."""
WINDOW_SHARE = 0.6
MAX_RUN_LINES = 160
COMPILED_FROM_S = 1.5
"""Estimated seconds from which on loading the compiled search pays; an estimate from lengths, not a clock.
Both searches give the same runs."""
MAX_SEARCH_S = 60.0
"""Estimated seconds beyond which nothing is merged; the official search would need hours and give up."""
_SECONDS_PER_WORD = 1.1e-9
_SECONDS_PER_CALL = 4e-7


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
    """Line groups after merging, their distances [truth, group], and the windows read officially.

    `searched` is False where the search was left out for its size.
    """

    groups: tuple[range, ...]
    distances: NDArray[np.float64]
    official_windows: int
    searched: bool = True


def _plain_sum(values: Sequence[float]) -> float:
    """Left to right without compensation, as the official scorer's Python adds."""
    total = 0.0
    for value in values:
        total += value
    return total


class _PlainSearch:
    """Grows runs towards one truth line; the text of a run is a slice of all lines joined."""

    def __init__(self, truth: str, lines: Sequence[str], masked: NDArray[np.bool_]) -> None:
        self._truth = truth
        self._lines = lines
        self._masked: list[bool] = masked.tolist()
        self._text = " ".join(lines)
        ends = np.cumsum([len(line) + 1 for line in lines]) - 1
        self._ends: list[int] = ends.tolist()
        self._known: dict[tuple[str, bool], bool] = {}
        self.official_windows = 0

    def _is_near(self, line: str, *, strict: bool) -> bool:
        key = (line, strict)
        if key not in self._known:
            limit = largest_distance(len(line), WINDOW_SHARE, strict=strict) if line else -1
            self._known[key] = has_close_window(self._truth, line, limit)
        return self._known[key]

    def _longer_runs(self, start: int) -> Iterator[str]:
        """Text of the run of two lines, three lines and so on, as far as runs may grow at all."""
        begin = self._ends[start] - len(self._lines[start])
        for line in range(start + 1, min(start + MAX_RUN_LINES, len(self._lines))):
            if self._masked[line]:
                return
            yield self._text[begin : self._ends[line]]

    def grow(self, start: int, distance: float) -> Run:
        """Run from `start` on: every line added must not worsen the distance and must occur nearby."""
        last, windows, size = start, 0, len(self._truth)
        measured = extract_iter(self._truth, self._longer_runs(start), scorer=Levenshtein.distance)
        for text, edits, _ in measured:
            merged_distance = edits / max(size, len(text))
            if merged_distance > distance:
                break
            line = self._lines[last + 1]
            windows += max(size - len(self._lines[last]) + 1, 0)
            self.official_windows += windows + max(size - len(line) + 1, 0)
            if last == start and not self._is_near(self._lines[start], strict=False):
                break
            if not self._is_near(line, strict=True):
                break
            last, distance = last + 1, merged_distance
            if len(text) > size:
                break
        return Run(start, last, distance)


def plain_best_run(
    truth: str, lines: Sequence[str], distances: NDArray[np.float64], masked: NDArray[np.bool_]
) -> tuple[Run | None, int]:
    """First run with the smallest distance to `truth`, and the official window count; None without starts."""
    search = _PlainSearch(truth, lines, masked)
    runs = [search.grow(int(j), float(distances[j])) for j in np.flatnonzero(~masked)]
    return min(runs, key=lambda run: run.distance, default=None), search.official_windows


def _estimated_seconds(truths: Sequence[str], lines: Sequence[str], starts: int) -> float:
    """What the plain search may take at worst: every run grows until it is as long as its truth line."""
    line_chars = sum(len(line) + 1 for line in lines) / max(len(lines), 1) or 1.0
    seconds = 0.0
    for truth in truths:
        steps = min(MAX_RUN_LINES, len(truth) / line_chars + 1)
        chars = min(len(truth), steps * line_chars) / 2
        seconds += starts * steps * (_SECONDS_PER_CALL + _SECONDS_PER_WORD * chars * (len(truth) / 64 + 1))
    return seconds


def compiled_best_runs(
    truths: Sequence[str], lines: Sequence[str], masked: NDArray[np.bool_]
) -> list[tuple[Run | None, int]]:
    """`plain_best_run` for every truth line, compiled."""
    from gravbench.omnidocbench.run_growth import EncodedLines, alphabet_of  # loads numba

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
    wanted = [truths[i] for i in open_truths]
    seconds = _estimated_seconds(wanted, lines, int((~masked).sum()))
    if seconds > MAX_SEARCH_S:
        windows = sum(len(truth) for truth in wanted) * len(lines)
        return Merged(_line_groups(len(lines), ()), distances, windows, searched=False)
    if seconds < COMPILED_FROM_S:
        best = [plain_best_run(truths[i], lines, distances[i], masked) for i in open_truths]
    else:
        best = compiled_best_runs(wanted, lines, masked)
    windows = sum(count for _, count in best)
    runs = disjoint_runs([run for run, _ in best if run is not None])
    if all(run.first == run.last for run in runs):
        return Merged(_line_groups(len(lines), ()), distances, windows)
    groups = _line_groups(len(lines), runs)
    columns = distances[:, [group.start for group in groups]]
    merged = [number for number, group in enumerate(groups) if len(group) > 1]
    joined = [" ".join(lines[groups[number].start : groups[number].stop]) for number in merged]
    columns[:, merged] = distance_matrix(truths, joined)
    return Merged(groups, columns, windows)
