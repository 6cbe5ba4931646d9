"""`stream`: a sliding window whose slots fill in any order and leave at its left end, verified (after WeDLM).

    window   x0 and W slots behind it, some filled, the others masked
    forward  x0, filled slots, masked slots, from left to right, each row at its own position, CAUSAL in this
             order: the run of filled slots behind x0 sees what autoregression sees
    commit   the run as far as each row predicts the next token, and the token of the row where it ends
    fill     masked slots with H + `slope` x distance to the leftmost mask < `tau`, else the least of them

H is the entropy in nats of the row before a slot, which decides it (shifted labels). After a mismatch the
slots right of it are masked again. WeDLM (arXiv 2512.22737) commits without verifying and was trained for
it; this is the verified form for shared weights, one forward a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gravbench.decoding.drafting import draft_setting, fits, matched_prefix
from gravbench.decoding.masks import causal
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, Window

if TYPE_CHECKING:
    from gravbench.decoding.rows import Rows


@dataclass(frozen=True, slots=True)
class Stream(Strategy):
    """`window=None` has as many slots as the trained block."""

    window: int | None = option(None, low=1)
    tau: float = option(0.4, low=0)
    slope: float = option(0.02, low=0)

    def needs(self, info: ModelInfo) -> Needs:
        slots, _ = draft_setting("stream", self.window, info)
        return Needs(rows_max=fits(f"stream:window={slots}", slots + 1, info))

    def round(self, lane: Lane[StateT]) -> Round:
        slots, mask_id = draft_setting("stream", self.window, lane.info)
        filled: dict[int, int] = {0: lane.output.boundary, **(lane.carried or {})}
        run = 0
        while run + 1 in filled:
            run += 1
        order = sorted(range(slots + 1), key=lambda place: (place not in filled, place))
        tokens = [filled.get(place, mask_id) for place in order]
        straight = order == list(range(slots + 1))
        rows = yield Step("verify", Window(tokens, causal(slots + 1), positions=None if straight else order))
        predicted = rows.tokens
        accepted = matched_prefix(tokens[1 : run + 1], predicted[: run + 1])
        committed = lane.commit([*tokens[1 : accepted + 1], predicted[accepted]])
        lane.keep(committed)  # x0 and all but the new boundary token
        lane.carried = None
        if accepted == run and lane.output.stop_reason is None:
            self._fill(filled, rows, order, beyond=run + 1)
            lane.carried = {place - run - 1: token for place, token in filled.items() if place > run + 1}
        lane.trace.round(extra=1, offered=run, accepted=accepted)

    def _fill(self, filled: dict[int, int], rows: Rows, order: list[int], *, beyond: int) -> None:
        """Fill masked places right of `beyond`, the new boundary, by the rows before them."""
        row_of = {place: row for row, place in enumerate(order)}
        masked = [place for place in range(beyond + 1, len(order) + 1) if place not in filled]
        if not masked:
            return
        entropy = rows.entropy([row_of[place - 1] for place in masked])
        doubt = [own + self.slope * (place - masked[0]) for place, own in zip(masked, entropy, strict=True)]
        predicted = rows.tokens
        for place, own in zip(masked, doubt, strict=True):
            if own < self.tau or own == min(doubt):
                filled[place] = predicted[row_of[place - 1]]
