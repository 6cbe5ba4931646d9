"""What a round asks of a forward: the rows of a window, and what it will read of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gravbench.decoding.masks import Mask, causal
from gravbench.records import ForwardKind

if TYPE_CHECKING:
    from torch import Tensor

PAD = 0
"""Token id written where a row has no token: its embedding is not read."""


class Noise(NamedTuple):
    """What a noise row is embedded from: `u` in [0, 1), the temperature it was drawn for."""

    u: float
    temperature: float


@dataclass(frozen=True, slots=True)
class Window:
    """Q rows that follow the cache.

    Row i stands `positions[i]` positions after the last cached token's next (default i), and its keys and
    values go to scratch slot `slots[i]` after the cache (default i); the bits of `mask` name such slots. A
    slot that no row of this window writes holds what an earlier forward left there since the last `keep`.
    A row with noise is embedded from it; its token is PAD. A window that breaks these rules is a ValueError.
    """

    tokens: Sequence[int]
    mask: Mask
    positions: Sequence[int] | None = None
    noise: Sequence[Noise | None] | None = None
    slots: Sequence[int] | None = None
    span: int = field(init=False, compare=False)
    """Scratch slots the window reaches: 1 + the last one that it writes or sees."""

    def __post_init__(self) -> None:
        rows = len(self.tokens)
        if not rows or len(self.mask.vis) != rows:
            raise ValueError(f"a window of {rows} rows with a mask of {len(self.mask.vis)}")
        span = rows
        if self.slots is not None:
            self._check_slots(self.slots)
            span = max(self.mask.span, max(self.slots) + 1)
        elif not self.mask.reflexive or self.mask.span > rows:
            raise ValueError("every row of a window sees itself, and none sees beyond the window")
        if self.positions is not None and (len(self.positions) != rows or min(self.positions) < 0):
            raise ValueError(f"{rows} rows need as many positions, none negative: {list(self.positions)}")
        if self.noise is not None:
            clean = all(
                drawn is None or token == PAD for token, drawn in zip(self.tokens, self.noise, strict=True)
            )
            if not clean:
                raise ValueError(f"noise on a row whose token is not PAD ({PAD})")
        object.__setattr__(self, "span", span)

    def _check_slots(self, slots: Sequence[int]) -> None:
        if len(slots) != len(self.tokens) or min(slots) < 0 or len(set(slots)) != len(slots):
            raise ValueError(f"{len(self.tokens)} rows need as many different slots: {list(slots)}")
        if not all(bits >> slot & 1 for slot, bits in zip(slots, self.mask.vis, strict=True)):
            raise ValueError("every row of a window sees its own slot")


def causal_window(tokens: Sequence[int]) -> Window:
    """Rows that follow the cache one after another."""
    return Window(tokens, causal(len(tokens)))


@dataclass(frozen=True, slots=True)
class Wants:
    """What a round reads of a reply. `rows`: window rows whose logits are read, ascending (`None`: all).

    `tokens`: it reads the greedy tokens, which are then taken within the time of the forward.
    """

    rows: Sequence[int] | None = None
    tokens: bool = True


GREEDY = Wants()
NOTHING = Wants(rows=(), tokens=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One forward that a round asks for; `kind` is what it is counted as.

    A step of kind `head` goes to the model's small head. With `features` [n, ...] of rows that were kept it
    extends what the head holds; without, its rows are drafted ones.
    """

    kind: ForwardKind
    window: Window
    wants: Wants = GREEDY
    features: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a strategy needs of a model, known before any prefill: it decides memory and recordings.

    `rows_max`: rows, and scratch slots, of its largest window. `taps`: layers (from 0) whose residual stream
    it reads. `hidden`: it reads states after the final norm. `head`: name of the small head it drafts with.
    `noise`: its windows have noise rows.
    """

    rows_max: int
    taps: tuple[int, ...] = ()
    hidden: bool = False
    head: str | None = None
    noise: bool = False
