"""`diffuspec`: a path through the lattice of a block draft, chosen with an n-gram; its length adapts.

    draft    [x0 | MASK x B]     WINDOW(1)  ->  a0 (exact), a slot's fewest tokens of mass `mass`, and EOS
    path     beam search over  weight x log q + (1 - weight) x log p_bigram,  per token
    verify   [a0, d_1..d_k]      CAUSAL     ->  commit a0, d_1..d_A and the verifier's token

The bigram counts what this answer has said so far, add one. k follows recent rounds: with G and C the
running means of drafted and of accepted tokens, k = ceil(G), `step` more while C >= G, between `least` and
B. DiffuSpec (arXiv 2510.02358) is known by its abstract and a reimplementation; scores per token, so that a
path which ends early has no advantage, are ours.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gravbench.decoding.drafting import (
    block_draft,
    block_needs,
    draft_setting,
    ended_by_seed,
    matched_prefix,
    within_block,
)
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, causal_window

if TYPE_CHECKING:
    from gravbench.decoding.rows import Rows

WIDEST = 15
"""Candidates of a slot, at most."""
Slot = dict[int, float]
"""Token -> log q."""


@dataclass(slots=True)
class _Document:
    """What this answer has said, and how its drafts fared."""

    drafted: float
    accepted: float
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    firsts: Counter[int] = field(default_factory=Counter)
    seen: int = 1

    def read(self, tokens: Sequence[int]) -> None:
        for place in range(self.seen, len(tokens)):
            self.pairs[tokens[place - 1], tokens[place]] += 1
            self.firsts[tokens[place - 1]] += 1
        self.seen = max(self.seen, len(tokens))


@dataclass(frozen=True, slots=True)
class DiffuSpec(Strategy):
    """`block=None` drafts the trained block size; `least=None` verifies half of it or more."""

    block: int | None = option(None, low=1)
    least: int | None = option(None, low=1)
    step: int = option(2, low=0)
    beam: int = option(3, low=1, high=64)
    mass: float = option(0.8, low=0, high=1)
    weight: float = option(0.5, low=0, high=1)

    def needs(self, info: ModelInfo) -> Needs:
        within_block("diffuspec", "least", self.least, draft_setting("diffuspec", self.block, info)[0])
        return block_needs("diffuspec", self.block, info)

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("diffuspec", self.block, lane.info)
        least = min(self.least or max(block // 2, 1), block)
        if lane.carried is None:
            lane.carried = _Document(least, least)
        document: _Document = lane.carried
        rows = yield block_draft(lane, block, mask_id)
        a0, lattice = rows.tokens[0], self._lattice(rows, block, lane.info.eos_token_ids)
        if ended_by_seed(lane, a0):
            return
        lane.keep(1)
        document.read([*lane.output.tokens, a0])
        length = math.ceil(document.drafted) + self.step * (document.accepted >= document.drafted)
        path = best_path(self, lattice, a0, document, lane.info)
        drafts = path[: min(max(length, least), block)]
        verified = (yield Step("verify", causal_window((a0, *drafts)))).tokens
        accepted = matched_prefix(drafts, verified)
        committed = lane.commit([a0, *drafts[:accepted], verified[accepted]])
        lane.keep(committed - 1)
        document.drafted = (document.drafted + len(drafts)) / 2
        document.accepted = (document.accepted + accepted) / 2
        lane.trace.round(seeds=1, offered=len(drafts), accepted=accepted, extra=2)

    def _lattice(self, rows: Rows, block: int, stops: Collection[int]) -> list[Slot]:
        """Candidates of each slot up to the first whose likeliest token is EOS."""
        best, end = rows.topk(range(1, block + 1), WIDEST), min(stops)
        ends = rows.logp(range(1, block + 1), [end] * block)
        lattice = []
        for tokens, logp, last in zip(best.tokens, best.logp, ends, strict=True):
            slot: Slot = {}
            for token, own in zip(tokens, logp, strict=True):
                if slot and sum(map(math.exp, slot.values())) >= self.mass:
                    break
                slot[token] = own
            slot.setdefault(end, last)
            lattice.append(slot)
            if tokens[0] in stops:
                break
        return lattice


def best_path(
    setting: DiffuSpec, lattice: Sequence[Slot], root: int, document: _Document, info: ModelInfo
) -> list[int]:
    """The path of the best score per token; EOS ends one."""
    open_paths: list[tuple[float, list[int]]] = [(0.0, [])]
    closed: list[tuple[float, list[int]]] = []
    for slot in lattice:
        grown: list[tuple[float, list[int]]] = []
        for score, path in open_paths:
            before = path[-1] if path else root
            total = document.firsts[before] + info.vocab_size
            for token, logq in slot.items():
                gram = math.log((document.pairs[before, token] + 1) / total)
                own = score + setting.weight * logq + (1 - setting.weight) * gram
                (closed if token in info.eos_token_ids else grown).append((own, [*path, token]))
        open_paths = sorted(grown, key=lambda one: -one[0])[: setting.beam]
    return max((*open_paths, *closed), key=lambda one: one[0] / len(one[1]))[1]
