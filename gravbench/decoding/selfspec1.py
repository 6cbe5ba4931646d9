"""`selfspec1`: one forward a round verifies the drafts at hand and drafts the next ones.

    state    x0, d_1..d_m drafted by the round before; none at first
    forward  [x0, d_1..d_m | MASK x B, a group for each g in G]
             rows 0..m causal; group g sees rows 0..g and itself, at positions g + 1 .. g + B
    commit   d_1..d_A, a_{A+1}        A = longest prefix with d_j = a_j; 1..B+1 tokens
    next d   what group A drafted; none if A is not in G

A group drafts for the case that exactly g drafts are accepted. `groups=all` has all of them (TiDAR's round
with shifted labels, verified by the causal rows alone), `last` only the case that every draft is right,
`auto` the cases whose chance is at least `least`, going by what the drafts themselves thought of their
tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gravbench.decoding.drafting import draft_setting, fits, matched_prefix
from gravbench.decoding.masks import groups as group_mask
from gravbench.decoding.masks import window
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.window import Needs, Step, Window


class _Drafts(NamedTuple):
    """Drafts behind x0, and the log-probability that each was given (only `auto` reads them)."""

    tokens: Sequence[int] = ()
    logp: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class OneForward(Strategy):
    """`block=None` drafts the trained block size. `least` is read by `groups=auto` alone."""

    block: int | None = option(None, low=1)
    groups: Literal["last", "all", "auto"] = option("last")
    least: float = option(0.1, low=0, high=1)

    def needs(self, info: ModelInfo) -> Needs:
        block, _ = draft_setting("selfspec1", self.block, info)
        rows = 2 * block + 1 if self.groups == "last" else (block + 1) ** 2
        return Needs(rows_max=fits(f"selfspec1:block={block},groups={self.groups}", rows, info))

    def round(self, lane: Lane[StateT]) -> Round:
        block, mask_id = draft_setting("selfspec1", self.block, lane.info)
        held: _Drafts = lane.carried or _Drafts()
        drafts, causal_rows = held.tokens, len(held.tokens) + 1
        cases = self._cases(held)
        masked = (mask_id,) * (block * len(cases))
        rows = yield Step("verify", _window((lane.output.boundary, *drafts), masked, cases, block))
        predicted = rows.tokens
        accepted = matched_prefix(drafts, predicted[:causal_rows])
        committed = lane.commit([*drafts[:accepted], predicted[accepted]])
        lane.keep(committed)  # x0 and all but the new boundary token
        lane.carried = None
        if accepted in cases:
            first = causal_rows + block * cases.index(accepted)
            own = range(first, first + block)
            logp = [best[0] for best in rows.topk(own, 1).logp] if self.groups == "auto" else ()
            lane.carried = _Drafts(predicted[first : first + block], logp)
        lane.trace.count("group_missing", accepted not in cases)
        lane.trace.round(extra=1, offered=len(drafts), accepted=accepted)

    def _cases(self, held: _Drafts) -> list[int]:
        """How many accepted drafts to be prepared for."""
        every = range(len(held.tokens) + 1)
        if self.groups == "last":
            return [every[-1]]
        if self.groups == "all":
            return list(every)
        chances = case_chances([math.exp(logp) for logp in held.logp])
        likeliest = max(every, key=chances.__getitem__)
        return [case for case in every if chances[case] >= self.least or case == likeliest]


def case_chances(sure: Sequence[float]) -> list[float]:
    """P(exactly g drafts are accepted), g = 0..m, if each is right with its own chance, independently."""
    found, reach = [], 1.0
    for chance in sure:
        found.append(reach * (1 - chance))
        reach *= chance
    return [*found, reach]


def _window(tokens: Sequence[int], masked: Sequence[int], cases: Sequence[int], block: int) -> Window:
    rows = len(tokens)
    if list(cases) == [rows - 1]:
        return Window((*tokens, *masked), window(rows, rows + block))
    places = [place for case in cases for place in range(case + 1, case + block + 1)]
    mask = group_mask(rows, [(case + 1, block) for case in cases])
    return Window((*tokens, *masked), mask, positions=[*range(rows), *places])
