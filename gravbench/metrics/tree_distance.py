"""Ordered tree edit distance after Zhang and Shasha (SIAM J. Comput. 18(6), 1989), compiled by numba.

Insertion and deletion cost 1; renaming costs what a matrix over the distinct labels of both trees says.
APTED computes the same minimum; tests hold the two (and zss) against each other. Small trees are done
in plain Python, by the same sums in the same order: to load a compiler costs as much as a hundred of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledTree:
    """Postorder arrays: `leftmost[i]`, leftmost leaf under node i; `labels[i]`, a row or column of costs."""

    leftmost: Sequence[int]
    labels: Sequence[int]

    def keyroots(self) -> list[int]:
        """Nodes with a left sibling, and the root: the last node of each leftmost leaf, ascending."""
        return sorted({first: node for node, first in enumerate(self.leftmost)}.values())

    def relevant_size(self) -> int:
        """Sum of the subtree sizes of all keyroots: the factor this tree has in the number of steps."""
        return sum(root - self.leftmost[root] + 1 for root in self.keyroots())


# Up to so many steps plain Python is used, as long as no larger pair has loaded the compiled kernel.
PLAIN_STEPS = 50_000


def tree_distance(first: LabelledTree, second: LabelledTree, costs: Floats) -> float:
    """Least total cost of deletions, insertions and renamings that turn `first` into `second`.

    `costs[a, b]` is the cost of renaming label a to label b, at least 0. Needs
    `first.relevant_size() * second.relevant_size()` steps and 16 bytes for each pair of nodes.
    """
    steps = first.relevant_size() * second.relevant_size()
    if steps <= PLAIN_STEPS and not _compiled_kernel.cache_info().currsize:
        return _plain_zhang_shasha(first, second, costs.tolist())
    arrays = [
        np.asarray(values, dtype=np.int64)
        for tree in (first, second)
        for values in (tree.leftmost, tree.keyroots(), tree.labels)
    ]
    return float(_compiled_kernel()(*arrays, np.ascontiguousarray(costs, dtype=np.float64)))


_SURELY_BELOW = 2.0 - 1e-6


def aligned_distance(leftmost: Sequence[int], renamings: Sequence[float]) -> float | None:
    """`tree_distance` of two trees of one shape whose nodes, in order, cost `renamings`, if that is below 2.

    Whatever else turns one into the other deletes a node and inserts one, which costs 2. The sums are those
    of the kernels, in their order. None where they have to look.
    """
    if sum(renamings) >= _SURELY_BELOW:
        return None
    subtrees = [0.0] * len(leftmost)
    for root in LabelledTree(leftmost, ()).keyroots():
        first = leftmost[root]
        prefixes = [0.0]  # distance of the nodes up to here
        for node in range(first, root + 1):
            begin = leftmost[node] - first
            if begin == 0:
                subtrees[node] = prefixes[-1] + renamings[node]
                prefixes.append(subtrees[node])
            else:
                prefixes.append(prefixes[begin] + subtrees[node])
    return subtrees[-1]


@lru_cache(maxsize=1)
def _compiled_kernel() -> Callable[..., float]:
    """The kernel as machine code, from numba's cache on disk where a cache folder can be written."""
    import numba  # here, because its import costs more than scoring a page without tables

    signature = f"float64({'int64[::1], ' * 6}float64[:, ::1])"
    try:
        compiled: Any = numba.njit(signature, cache=True)(_zhang_shasha)
    except RuntimeError:  # numba: "no locator available", neither beside the source nor in the user's cache
        compiled = numba.njit(signature)(_zhang_shasha)
    return compiled  # type: ignore[no-any-return]


def _plain_zhang_shasha(first: LabelledTree, second: LabelledTree, costs: list[list[float]]) -> float:
    """`_zhang_shasha` on lists. Comparisons are spelled out: a call of `min` costs more than the sums."""
    left1, left2, labels1, labels2 = first.leftmost, second.leftmost, first.labels, second.labels
    trees = _plain_leaves(first, second, costs)
    inner1, inner2 = (
        [root for root in tree.keyroots() if tree.leftmost[root] < root] for tree in (first, second)
    )
    for root1 in inner1:
        first1 = left1[root1]
        for root2 in inner2:
            first2 = left2[root2]
            begins = [begin - first2 for begin in left2[first2 : root2 + 1]]
            names = labels2[first2 : root2 + 1]
            above = [float(y) for y in range(root2 - first2 + 2)]
            forests = [above]
            for node1 in range(first1, root1 + 1):
                begin1 = left1[node1] - first1
                below, renaming, subtrees = forests[begin1], costs[labels1[node1]], trees[node1]
                best = float(len(forests))
                row = [best]
                for y, begin2 in enumerate(begins):
                    deleted = above[y + 1]
                    best = (deleted if deleted < best else best) + 1.0
                    if begin1 or begin2:
                        matched = below[begin2] + subtrees[first2 + y]
                        if matched < best:
                            best = matched
                    else:  # two trees: prefixes that start with their roots' leaf
                        matched = above[y] + renaming[names[y]]
                        subtrees[first2 + y] = best = matched if matched < best else best
                    row.append(best)
                forests.append(row)
                above = row
    return trees[-1][-1]


def _plain_leaves(first: LabelledTree, second: LabelledTree, costs: list[list[float]]) -> list[list[float]]:
    """Distances of subtrees [first, second], known so far for keyroots that are leaves."""
    trees = [[0.0] * len(second.leftmost) for _ in first.leftmost]
    rows: dict[int, list[float]] = {}
    for leaf in first.keyroots():
        if first.leftmost[leaf] == leaf:
            label = first.labels[leaf]
            if label not in rows:
                renaming = costs[label]
                rows[label] = _plain_leaf_row(second.leftmost, [renaming[other] for other in second.labels])
            trees[leaf] = rows[label].copy()
    columns: dict[int, list[float]] = {}
    for leaf in second.keyroots():
        if second.leftmost[leaf] == leaf:
            label = second.labels[leaf]
            if label not in columns:
                columns[label] = _plain_leaf_row(
                    first.leftmost, [costs[other][label] for other in first.labels]
                )
            for row, value in zip(trees, columns[label], strict=True):
                row[leaf] = value
    return trees


def _plain_leaf_row(left: Sequence[int], renaming: list[float]) -> list[float]:
    """A leaf against every subtree, by the cheapest renaming within it."""
    row = [cost if cost < 2.0 else 2.0 for cost in renaming]
    for node, first in enumerate(left):
        if first < node:
            row[node] = node - first + min(2.0, *renaming[first : node + 1])
    return row


def _zhang_shasha(
    left1: Ints, roots1: Ints, labels1: Ints, left2: Ints, roots2: Ints, labels2: Ints, costs: Floats
) -> float:
    """Keyroots that are leaves first, each against all subtrees; then the others pair by pair.

    A leaf against a tree of s nodes: s - 1 insertions and the cheapest renaming in the tree, or, if
    that costs more than 2, a deletion and s insertions. Most keyroots of a table are leaves.
    """
    n1, n2 = left1.size, left2.size
    trees = np.empty((n1, n2), dtype=np.float64)  # distance of the subtrees at each pair of nodes
    forests = np.empty((n1 + 1, n2 + 1), dtype=np.float64)  # distance of prefixes, below one pair of roots
    cheapest = np.empty(max(n1, n2), dtype=np.float64)  # renaming of a leaf, by subtree
    for leaf in roots1:
        if left1[leaf] == leaf:
            renaming, row = costs[labels1[leaf]], trees[leaf]
            for node in range(n2):
                best = renaming[labels2[node]]
                child = node - 1
                while child >= left2[node]:
                    best = min(best, cheapest[child])
                    child = left2[child] - 1
                cheapest[node] = best
                row[node] = node - left2[node] + min(best, 2.0)
    for leaf in roots2:
        if left2[leaf] == leaf:
            label = labels2[leaf]
            for node in range(n1):
                best = costs[labels1[node], label]
                child = node - 1
                while child >= left1[node]:
                    best = min(best, cheapest[child])
                    child = left1[child] - 1
                cheapest[node] = best
                trees[node, leaf] = node - left1[node] + min(best, 2.0)
    for root1 in roots1:
        first1 = left1[root1]
        if first1 == root1:
            continue
        for root2 in roots2:
            first2 = left2[root2]
            size2 = root2 - first2 + 1
            if size2 == 1:
                continue
            for y in range(size2 + 1):
                forests[0, y] = y
            for x in range(1, root1 - first1 + 2):
                node1 = first1 + x - 1
                begin1 = left1[node1] - first1
                above, below, current = forests[x - 1], forests[begin1], forests[x]
                renaming, subtrees = costs[labels1[node1]], trees[node1]
                best = float(x)
                current[0] = best
                for y in range(1, size2 + 1):
                    node2 = first2 + y - 1
                    begin2 = left2[node2] - first2
                    best = min(best, above[y]) + 1.0
                    if begin1 == 0 and begin2 == 0:  # two trees: prefixes that start with their roots' leaf
                        best = min(best, above[y - 1] + renaming[labels2[node2]])
                        subtrees[node2] = best
                    else:
                        best = min(best, below[begin2] + subtrees[node2])
                    current[y] = best
    return trees[n1 - 1, n2 - 1]  # type: ignore[no-any-return]
