"""`tree`: a candidate tree over the marginals of a block draft, verified in one forward.

    draft    [x0 | MASK x B]       WINDOW(1)  ->  a0 (exact), for each slot k the likeliest tokens
    tree     root a0; the N nodes of the highest product of marginals, best first
    verify   [a0, node_1..node_N]  TREE, a node stands at the position of its depth
    commit   a0, the path that follows the verifier's own tokens, and its next token

With N nodes in a chain this is `selfspec`. Offsets are scored as if they were independent, so a node's
score is never above its parent's: the N best nodes are closed under parents. A node that ends the answer
has no children. With `budget=auto`, N is the size that promises most tokens for its cost: (2 + sum of the
chances of the first N nodes) / (c(B + 1) + c(N + 1)), over all N = 2^k - 1 up to `nodes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from gravbench.decoding.candidates import Candidates, best_first, verify
from gravbench.decoding.costs import Costs, costs_of
from gravbench.decoding.drafting import block_draft, draft_setting, ended_by_seed, tree_needs
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs

if TYPE_CHECKING:
    from gravbench.decoding.rows import TopK

EXTRA = 2
"""The seed and the verifier's own token."""


@dataclass(frozen=True, slots=True)
class MarginalTree(Strategy):
    """`block=None` drafts the trained block size. A node has up to `branch` children.

    `costs` names a cost table for `budget=auto`.
    """

    block: int | None = option(None, low=1)
    nodes: int = option(31, low=1, high=1023)
    branch: int = option(8, low=1)
    budget: Literal["fixed", "auto"] = option("fixed")
    costs: str | None = option(None)

    def needs(self, info: ModelInfo) -> Needs:
        needs = tree_needs("tree", self.block, self.nodes, info)
        costs_of(self.costs, "tree")
        return needs

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("tree", self.block, lane.info)
        rows = yield block_draft(lane, block, mask_id)
        a0, marginals = rows.tokens[0], rows.topk(range(1, block + 1), self.branch)
        if ended_by_seed(lane, a0):
            return
        lane.keep(1)
        found = best_first(a0, marginals, self.nodes, stops=lane.info.eos_token_ids)
        if self.budget == "auto":
            if lane.carried is None:  # the table is read once an answer
                lane.carried = costs_of(self.costs, "tree")
            size, promised = best_size(found, block, lane.carried)
            found.cut(size)
            lane.trace.count("phi_predicted_hundredths", round(100 * promised))
        path, token = yield from verify(lane, found, seeds=(a0,))
        _count_stop(lane, found, marginals, path[-1], token)


def best_size(found: Candidates, block: int, costs: Costs) -> tuple[int, float]:
    """Nodes that promise most tokens for their cost, the fewer of equals, and how many they promise."""
    promised = list(accumulate(math.exp(score) for score in found.scores[1:]))
    sizes = {min(2**k - 1, len(promised)) for k in range(1, len(promised).bit_length() + 1)}

    def rate(size: int) -> tuple[float, int]:
        return (EXTRA + promised[size - 1]) / (costs(block + 1) + costs(size + 1)), -size

    best = max(sizes, key=rate)
    return best, promised[best - 1]


def _count_stop(lane: Lane[StateT], found: Candidates, marginals: TopK, last: int, token: int) -> None:
    """Why the walk ended: the block did, the token was no candidate, or it hung below another parent."""
    depth = found.depths[last]
    if depth >= len(marginals.tokens):
        return
    if token not in marginals.tokens[depth]:
        lane.trace.count("not_in_topk")
    elif any(
        found.tokens[node] == token and found.depths[node] == depth + 1 for node in range(len(found.tokens))
    ):
        lane.trace.count("in_tree_but_wrong_parent")
