"""`blockdiff`: block diffusion without verification. Lossy: its tokens need not be those of `ar`.

    block     [x0 | MASK x (B-1)], x0 the exact token that the forward before left
    denoise   WINDOW(1), keys and values dropped; row i decides slot i + 1 (shifted labels); a rule picks the
              slots to reveal (`gravbench.decoding.selection`), until none is masked
    write     the finished block, CAUSAL as jointly trained weights want it; its last row gives the next x0
    commit    B tokens for as many denoising forwards as it took and one cache write

The end of the answer is looked for when the block is whole: an EOS that was revealed early may have masked
slots left of it. `steps=1` reveals a block at once. `sub` parts the block: until a part is clean only its
own rows are forwarded again, over what the rest left in the cache when the part began (approximate; off by
default).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gravbench.decoding.drafting import draft_setting, fits, within_block
from gravbench.decoding.masks import Mask, window
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.selection import Rule, Selection
from gravbench.decoding.window import Needs, Step, Wants, Window, causal_window

if TYPE_CHECKING:
    from gravbench.decoding.rows import Rows


@dataclass(frozen=True, slots=True)
class BlockDiffusion(Strategy):
    """`block=None`: the trained block size. `steps=None`: as many as there are slots. See `selection`."""

    block: int | None = option(None, low=1)
    select: Rule = "threshold"
    steps: int | None = option(None, low=1)
    tau: float = option(0.9, low=0, high=1)
    bound: float = option(0.35, low=0)
    sub: int | None = option(None, low=1)

    @property
    def lossy(self) -> bool:
        return True

    def needs(self, info: ModelInfo) -> Needs:
        size, _ = draft_setting("blockdiff", self.block, info)
        within_block("blockdiff", "sub", self.sub, size)
        return Needs(rows_max=fits(f"blockdiff:block={size}", size, info))

    def round(self, lane: Lane[StateT]) -> Round:
        size, mask_id = draft_setting("blockdiff", self.block, lane.info)
        tokens = [lane.output.boundary, *(mask_id,) * (size - 1)]
        each = self.sub or size
        steps = 0
        for first in range(1, size, each):
            steps += yield from self._reveal(lane, tokens, range(first, min(first + each, size)))
        lane.trace.count(f"denoise_steps_{steps}")
        lane.commit(tokens[1:])
        if lane.output.stop_reason is None:
            asked = Step("cache_write", causal_window(tokens), Wants(rows=(size - 1,)))
            (seed,) = (yield asked).tokens
            lane.keep(size)
            lane.commit((seed,))
        lane.trace.round(extra=size)

    def _reveal(self, lane: Lane[StateT], tokens: list[int], part: range) -> Generator[Step, Rows, int]:
        """Decide the slots of `part`, in place; the number of denoising forwards."""
        size, step = len(tokens), 0
        share = math.ceil((self.steps or size) * len(part) / max(size - 1, 1))
        rule = Selection(self.select, len(part), min(share, len(part)), self.tau, self.bound)
        masked = list(part)
        while masked:
            near = self.sub is not None and step > 0  # the rest of the block is left as it is in the cache
            rows = yield _denoise(tokens, part if near else range(1, size), masked)
            own = range(part.start - 1, part.stop - 1) if near else range(size)
            asked = [own.index(slot - 1) for slot in masked]
            best = rows.topk(asked, 1)
            sure = {slot: math.exp(one[0]) for slot, one in zip(masked, best.logp, strict=True)}
            entropy = dict(zip(masked, rows.entropy(asked), strict=True)) if self.select == "entropy" else {}
            chosen = {slot: one[0] for slot, one in zip(masked, best.tokens, strict=True)}
            revealed = rule.reveal(step, sure, entropy)
            for slot in revealed:
                tokens[slot] = chosen[slot]
            masked = [slot for slot in masked if slot not in revealed]
            lane.trace.count("reveal_order_inversions", sum(max(revealed) > slot for slot in masked))
            if self.sub is None or not masked:
                lane.keep(0)
            step += 1
        return step


def _denoise(tokens: list[int], slots: range, masked: list[int]) -> Step:
    """Forward the rows that decide `slots`; all but x0 see the whole block."""
    size, rows = len(tokens), range(slots.start - 1, slots.stop - 1)
    if len(rows) == size - 1:
        return Step(
            "denoise", Window(tuple(tokens), window(1, size)), Wants([s - 1 for s in masked], tokens=False)
        )
    mask = Mask(tuple(window(1, size).vis[row] for row in rows))
    asked = Window([tokens[row] for row in rows], mask, positions=rows, slots=rows)
    return Step("denoise", asked, Wants([rows.index(s - 1) for s in masked], tokens=False))
