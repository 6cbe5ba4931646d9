"""Ordered tree edit distance after Zhang and Shasha (SIAM J. Comput. 18(6), 1989), compiled by numba.

Insertion and deletion cost 1; renaming costs what a matrix over the distinct labels of both trees says.
APTED computes the same minimum; tests hold the two (and zss) against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
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


def tree_distance(first: LabelledTree, second: LabelledTree, costs: Floats) -> float:
    """Least total cost of deletions, insertions and renamings that turn `first` into `second`.

    `costs[a, b]` is the cost of renaming label a to label b, at least 0. Needs
    `first.relevant_size() * second.relevant_size()` steps and 16 bytes for each pair of nodes.
    """
    arrays = [
        np.asarray(values, dtype=np.int32)
        for tree in (first, second)
        for values in (tree.leftmost, tree.keyroots(), tree.labels)
    ]
    return float(_compiled_kernel()(*arrays, np.ascontiguousarray(costs, dtype=np.float64)))


@lru_cache(maxsize=1)
def _compiled_kernel() -> Callable[..., float]:
    """The kernel as machine code, from numba's cache on disk where a cache folder can be written."""
    import numba  # here, because its import costs more than scoring a page without tables

    signature = (
        "float64(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], float64[:, ::1])"
    )
    try:
        compiled: Any = numba.njit(signature, cache=True)(_zhang_shasha)
    except RuntimeError:  # numba: "no locator available", neither beside the source nor in the user's cache
        compiled = numba.njit(signature)(_zhang_shasha)
    return compiled  # type: ignore[no-any-return]


def _zhang_shasha(
    left1: Ints, roots1: Ints, labels1: Ints, left2: Ints, roots2: Ints, labels2: Ints, costs: Floats
) -> float:
    n1, n2 = left1.size, left2.size
    trees = np.empty((n1, n2), dtype=np.float64)  # distance of the subtrees at each pair of nodes
    forests = np.empty((n1 + 1, n2 + 1), dtype=np.float64)  # distance of prefixes, below one pair of roots
    for root1 in roots1:
        first1 = left1[root1]
        for root2 in roots2:
            first2 = left2[root2]
            forests[0, 0] = 0.0
            for y in range(1, root2 - first2 + 2):
                forests[0, y] = forests[0, y - 1] + 1.0
            for x in range(1, root1 - first1 + 2):
                node1 = first1 + x - 1
                begin1 = left1[node1]
                label1 = labels1[node1]
                forests[x, 0] = forests[x - 1, 0] + 1.0
                for y in range(1, root2 - first2 + 2):
                    node2 = first2 + y - 1
                    begin2 = left2[node2]
                    best = min(forests[x - 1, y] + 1.0, forests[x, y - 1] + 1.0)
                    if begin1 == first1 and begin2 == first2:
                        best = min(best, forests[x - 1, y - 1] + costs[label1, labels2[node2]])
                        trees[node1, node2] = best
                    else:
                        below = forests[begin1 - first1, begin2 - first2]
                        best = min(best, below + trees[node1, node2])
                    forests[x, y] = best
    return trees[n1 - 1, n2 - 1]  # type: ignore[no-any-return]
