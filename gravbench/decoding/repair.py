"""`repair`: a block draft with a few branches where it was least sure, verified as a tree.

    draft    [x0 | MASK x B]   WINDOW(1)  ->  a0 (exact), d_1..d_B with the chances of the next best tokens
    branch   at slot j token t instead of d_j, and below it a copy of d_{j+1}..d_{j+run}
    verify   [a0, d_1..d_B, branches]   TREE;  commit as `tree`

Marginals of one forward do not depend on the repaired token, so the copy is what the drafter says after it.
A branch is worth P(slots before j stand) x P(t at j) x (1 + expected run) tokens; branches are taken by
worth per row while a row is worth `floor` tokens, within three budgets: `nodes` in all, `points` repaired
slots, `alternatives` at each. CURE (arXiv 2608.00531) is known by its abstract: the selection is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gravbench.decoding.candidates import Candidates, verify
from gravbench.decoding.drafting import block_draft, draft_setting, ended_by_seed, tree_needs
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs

if TYPE_CHECKING:
    from gravbench.decoding.rows import TopK

RUN_ENDS = 0.1
"""A copied suffix ends where the chance that it still stands falls below this."""


class Branch(NamedTuple):
    """`token` instead of the draft of slot `slot` (from 0), followed by the `run` drafts behind it."""

    slot: int
    token: int
    run: int
    worth: float
    """Tokens it is expected to add for each of its rows."""


@dataclass(frozen=True, slots=True)
class Repair(Strategy):
    """`block=None` drafts the trained block size."""

    block: int | None = option(None, low=1)
    nodes: int = option(31, low=1, high=1023)
    points: int = option(4, low=0)
    alternatives: int = option(2, low=1)
    floor: float = option(0.02, low=0, high=1)

    def needs(self, info: ModelInfo) -> Needs:
        return tree_needs("repair", self.block, self.nodes, info)

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("repair", self.block, lane.info)
        rows = yield block_draft(lane, block, mask_id)
        a0, best = rows.tokens[0], rows.topk(range(1, block + 1), self.alternatives + 1)
        if ended_by_seed(lane, a0):
            return
        lane.keep(1)
        stops = lane.info.eos_token_ids
        drafts = [row[0] for row in best.tokens]
        found = Candidates([a0])
        found.add_path(0, drafts, limit=self.nodes, stops=stops)
        chain = len(found.tokens)
        taken = self._branches(best, chain - 1)
        for branch in taken:
            if len(found.tokens) > self.nodes:
                break
            node = found.add(branch.slot, branch.token)  # node j of the chain holds the draft before slot j
            if branch.token not in stops:
                copied = drafts[branch.slot + 1 : branch.slot + 1 + branch.run]
                found.add_path(node, copied, limit=self.nodes, stops=stops)
        path, _ = yield from verify(lane, found, seeds=(a0,))
        lane.trace.count("repair_points", len({branch.slot for branch in taken}))
        repaired = [node for node in path if node >= chain]
        lane.trace.count("repair_taken", bool(repaired))
        lane.trace.count("repair_success", len(repaired) > 1)

    def _branches(self, best: TopK, slots: int) -> list[Branch]:
        """Branches at up to `points` of the first `slots` slots, the most worth per row first."""
        offers = sorted(branches(best, slots), key=lambda branch: -branch.worth)
        points: dict[int, int] = {}
        taken = []
        for branch in offers:
            fresh = branch.slot not in points
            if branch.worth < self.floor or (fresh and len(points) >= self.points):
                continue
            points[branch.slot] = points.get(branch.slot, 0) + 1
            taken.append(branch)
        return taken


def branches(best: TopK, slots: int) -> list[Branch]:
    """Every alternative at every slot, slot by slot."""
    sure = [math.exp(row[0]) for row in best.logp[:slots]]
    found, before = [], 1.0
    for slot in range(slots):
        run, expected = _run(sure[slot + 1 :])
        for token, logp in zip(best.tokens[slot][1:], best.logp[slot][1:], strict=True):
            worth = before * math.exp(logp) * (1 + expected) / (1 + run)
            found.append(Branch(slot, token, run, worth))
        before *= sure[slot]
    return found


def _run(sure: Sequence[float]) -> tuple[int, float]:
    """How many drafts are worth copying, and how many of them are expected to stand."""
    expected, chance = 0.0, 1.0
    for length, one in enumerate(sure):
        chance *= one
        if chance < RUN_ENDS:
            return length, expected
        expected += chance
    return len(sure), expected
