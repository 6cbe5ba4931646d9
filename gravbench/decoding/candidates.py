"""A tree of candidate tokens: built by a strategy, verified in one forward, walked by the verifier's tokens.

Row i of the verifying window is node i, sees its ancestors alone and stands at the position of its depth, so
it computes what autoregression computes after the node's path. The walk is exact whatever the tree holds.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gravbench.decoding.masks import tree
from gravbench.decoding.protocols import Lane, StateT
from gravbench.decoding.window import Step, Window, causal_window

if TYPE_CHECKING:
    from gravbench.decoding.rows import Rows, TopK


@dataclass(slots=True)
class Candidates:
    """Tokens, parents before children; node 0 is the root. One child a token below each node."""

    tokens: list[int]
    parents: list[int | None] = field(default_factory=lambda: [None])
    depths: list[int] = field(default_factory=lambda: [0])
    scores: list[float] = field(default_factory=lambda: [0.0])
    """Log of the product of the chances on a node's path, where the builder knows it."""
    children: dict[tuple[int, int], int] = field(default_factory=dict)
    """(node, token) -> the child of the node that holds the token."""

    def add(self, parent: int, token: int, score: float = 0.0) -> int:
        """The child of `parent` that holds `token`, made if there is none."""
        there = self.children.get((parent, token))
        if there is not None:
            return there
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.scores.append(score)
        self.children[parent, token] = node
        return node

    def add_path(self, parent: int, tokens: Iterable[int], *, limit: int, stops: Collection[int] = ()) -> int:
        """Hang a chain below `parent` up to `limit` nodes in all; nothing follows a stop. The last node."""
        for token in tokens:
            full = len(self.tokens) > limit and (parent, token) not in self.children
            if full or (parent and self.tokens[parent] in stops):
                break
            parent = self.add(parent, token)
        return parent

    def cut(self, nodes: int) -> None:
        """Leave the root and the first `nodes` others."""
        for node in range(nodes + 1, len(self.tokens)):
            parent = self.parents[node]
            assert parent is not None
            del self.children[parent, self.tokens[node]]
        for column in (self.tokens, self.parents, self.depths, self.scores):
            del column[nodes + 1 :]

    def walk(self, verified: Sequence[int]) -> list[int]:
        """Nodes from the root on that the verifier's tokens lead to; `verified[i]` is what follows node i."""
        path = [0]
        while (node := self.children.get((path[-1], verified[path[-1]]))) is not None:
            path.append(node)
        return path

    def tolerant_walk(self, verified: Sequence[int], near: Sequence[bool]) -> list[int]:
        """As `walk`, but where the verifier's token is no child, on to the first child that is `near`."""
        below: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            if parent is not None and near[node]:
                below.setdefault(parent, []).append(node)
        path = [0]
        while True:
            following = self.children.get((path[-1], verified[path[-1]]))
            nearest = [following] if following is not None else below.get(path[-1], [])
            if not nearest:
                return path
            path.append(nearest[0])

    def window(self) -> Window:
        """One row a node; a chain is a causal window."""
        if self.depths[-1] == len(self.tokens) - 1:
            return causal_window(self.tokens)
        return Window(self.tokens, tree(self.parents), positions=self.depths)


def verify(
    lane: Lane[StateT], found: Candidates, *, seeds: Sequence[int] = (), tau: float = 1.0
) -> Generator[Step, Rows, tuple[list[int], int]]:
    """Verify the tree, commit `seeds`, the path and the verifier's token, keep what they need of the cache.

    The root is the last of the seeds, or x0 without any. With `tau` < 1 a node whose probability is at least
    `tau` times that of the likeliest token is as good as it: lossy. Closes the round; the path (node 0 first)
    and the token after it.
    """
    rows = yield Step("verify", found.window())
    verified = rows.tokens
    path = found.walk(verified) if tau >= 1 else found.tolerant_walk(verified, _near(found, rows, tau))
    committed = lane.commit([*seeds, *(found.tokens[node] for node in path[1:]), verified[path[-1]]])
    lane.keep(path[: committed - len(seeds)])  # all but the new boundary token
    nodes = len(found.tokens)
    lane.trace.count("tree_depth", max(found.depths))
    lane.trace.round(
        seeds=len(seeds), offered=nodes - 1, accepted=len(path) - 1, extra=len(seeds) + 1, nodes=nodes
    )
    return path, verified[path[-1]]


def _near(found: Candidates, rows: Rows, tau: float) -> list[bool]:
    """Of each node, whether its token's probability is at least `tau` times the likeliest one's."""
    parents = [parent for parent in found.parents if parent is not None]
    if not parents:
        return [False]
    verified = rows.tokens
    logp = rows.logp([*parents, *parents], [*found.tokens[1:], *(verified[parent] for parent in parents)])
    own, best = logp[: len(parents)], logp[len(parents) :]
    return [False, *(a >= b + math.log(tau) for a, b in zip(own, best, strict=True))]


def best_first(root: int, marginals: TopK, nodes: int, *, stops: Collection[int] = ()) -> Candidates:
    """The `nodes` nodes of the highest product of marginals; slot k of `marginals` is for depth k + 1.

    Equal scores in the order they were met. Fewer nodes where the marginals hold no more.
    """
    found = Candidates([root])
    heap: list[tuple[float, int, int, int, float]] = []  # -score, order, parent, rank, score of the parent
    order = 0

    def offer(parent: int, rank: int, above: float) -> None:
        nonlocal order
        depth = found.depths[parent]
        if depth < len(marginals.logp) and rank < len(marginals.logp[depth]):
            order += 1
            heapq.heappush(heap, (-(above + marginals.logp[depth][rank]), order, parent, rank, above))

    offer(0, 0, 0.0)
    while heap and len(found.tokens) <= nodes:
        negative, _, parent, rank, above = heapq.heappop(heap)
        token = marginals.tokens[found.depths[parent]][rank]
        node = found.add(parent, token, -negative)
        offer(parent, rank + 1, above)
        if token not in stops:
            offer(node, 0, -negative)
    return found
