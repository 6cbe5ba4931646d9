"""`tree`: a candidate tree over the marginals of a block draft, verified in one forward.

    draft    [x0 | MASK x B]       WINDOW(1)  ->  a0 (exact), for each slot k the likeliest tokens
    tree     root a0; the N nodes of the highest product of marginals, best first
    verify   [a0, node_1..node_N]  TREE, a node stands at the position of its depth
    commit   a0, the path that follows the verifier's own tokens, and its next token

With N nodes in a chain this is `selfspec`. Offsets are scored as if they were independent, so a node's score
is never above its parent's: the N best nodes are closed under parents. A node that ends the answer has no
children.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass, field

from gravbench.decoding.drafting import draft_setting, fits
from gravbench.decoding.masks import tree, window
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.rows import TopK
from gravbench.decoding.window import Needs, Step, Window

EXTRA = 2
"""The seed and the verifier's own token."""


@dataclass(frozen=True, slots=True)
class MarginalTree(Strategy):
    """`block=None` drafts the trained block size. A node has up to `branch` children."""

    block: int | None = option(None, low=1)
    nodes: int = option(31, low=1, high=1023)
    branch: int = option(8, low=1)

    def needs(self, info: ModelInfo) -> Needs:
        block, _ = draft_setting("tree", self.block, info)
        arm = f"tree:block={block},nodes={self.nodes}"
        return Needs(rows_max=fits(arm, max(block, self.nodes) + 1, info))

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("tree", self.block, lane.info)
        masked = (lane.output.boundary, *(mask_id,) * block)
        rows = yield Step("draft", Window(masked, window(1, block + 1)))
        a0, marginals = rows.tokens[0], rows.topk(range(1, block + 1), self.branch)
        lane.keep(1)
        if lane.output.ends_with(a0):
            lane.commit((a0,))
            lane.trace.round(seeds=1, extra=EXTRA)
            return
        found = best_first(a0, marginals, self.nodes, stops=lane.info.eos_token_ids)
        asked = Window(found.tokens, tree(found.parents), positions=found.depths)
        verified = (yield Step("verify", asked)).tokens
        path = found.walk(verified)
        committed = lane.commit([a0, *(verified[node] for node in path)])
        lane.keep(path[: committed - 1])  # all but the new boundary token
        _count_stop(lane, found, marginals, path[-1], verified[path[-1]])
        nodes = len(found.tokens)
        lane.trace.round(seeds=1, offered=nodes - 1, accepted=len(path) - 1, extra=EXTRA, nodes=nodes)


@dataclass(slots=True)
class Candidates:
    """A tree of tokens, parents before children; node 0 is the root."""

    tokens: list[int]
    parents: list[int | None] = field(default_factory=lambda: [None])
    depths: list[int] = field(default_factory=lambda: [0])
    children: dict[tuple[int, int], int] = field(default_factory=dict)
    """(node, token) -> the child of the node that holds the token."""

    def add(self, parent: int, token: int) -> int:
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.children[parent, token] = node
        return node

    def walk(self, verified: list[int]) -> list[int]:
        """Nodes from the root on that the verifier's tokens lead to; `verified[i]` is what follows node i."""
        path = [0]
        while (node := self.children.get((path[-1], verified[path[-1]]))) is not None:
            path.append(node)
        return path


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
        node = found.add(parent, token)
        offer(parent, rank + 1, above)
        if token not in stops:
            offer(node, 0, -negative)
    return found


def _count_stop(lane: Lane[StateT], found: Candidates, marginals: TopK, last: int, token: int) -> None:
    """Why the walk ended: the block did, the token was no candidate, or it hung below another parent."""
    depth = found.depths[last]
    lane.trace.count("tree_depth", max(found.depths))
    if depth >= len(marginals.tokens):
        return
    if token not in marginals.tokens[depth]:
        lane.trace.count("not_in_topk")
    elif any(
        found.tokens[node] == token and found.depths[node] == depth + 1 for node in range(len(found.tokens))
    ):
        lane.trace.count("in_tree_but_wrong_parent")
