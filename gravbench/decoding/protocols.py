"""All a strategy may ask of a model, and all a decode loop asks of a strategy.

Boundary invariant, kept between rounds by every strategy: the cache holds the causal keys and values
of the prefix and of every committed token except the last one (x0, the boundary token).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from gravbench.decoding.masks import Mask
from gravbench.decoding.output import Output
from gravbench.decoding.tracing import ForwardKind, TraceRecorder
from gravbench.records import Request

if TYPE_CHECKING:
    from torch import Tensor

StateT = TypeVar("StateT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """What decoding needs to know of a checkpoint. Labels are shifted: row t predicts token t + 1."""

    eos_token_ids: tuple[int, ...]
    vocab_size: int
    max_positions: int
    """Prefix and response together, in tokens; scratch rows of a window come on top."""
    mask_token_id: int | None
    block_size: int | None
    """Block size the checkpoint was trained with; `None` when it cannot draft."""


@dataclass(frozen=True, slots=True)
class Window:
    """Q rows that follow the cache: row i stands i positions after the last cached token."""

    tokens: Sequence[int]
    mask: Mask


@dataclass(frozen=True, slots=True)
class Step:
    """One full-model forward that a round asks for; `kind` is what it is counted as."""

    kind: ForwardKind
    window: Window


Round = Generator[Step, list[int], None]
"""A round under way: yields each forward it needs and is sent the greedy token of every row of its window."""


class RequestError(Exception):
    """This request cannot be decoded, others can. The text is its reason."""


class StepModel(Protocol[StateT]):
    """A model that holds the states of requests and forwards windows of one or of several of them."""

    @property
    def info(self) -> ModelInfo: ...

    def prefill(
        self, request: Request, *, budget: int, window: int, trace: TraceRecorder
    ) -> tuple[StateT, Tensor]:
        """Encode image and prompt; returns the state and the logits [V] after the last prefix token.

        Decoding will commit at most `budget` tokens with windows of at most `window` rows, which says
        how much cache to reserve. `RequestError` when this request cannot be decoded.
        """
        ...

    def room(self, state: StateT) -> int:
        """Response tokens that still fit the model's positions, counted from the end of the prefix."""
        ...

    def forward(self, state: StateT, window: Window) -> Tensor:
        """Logits [Q, V] of every row. The tensor is valid until the next forward."""
        ...

    def forward_batch(self, states: Sequence[StateT], windows: Sequence[Window]) -> Tensor:
        """One forward for several requests: logits [N, Q, V] with Q the rows of the widest window.

        Rows behind a narrower window are padding and mean nothing.
        """
        ...

    def keep(self, state: StateT, rows: int) -> None:
        """Cache the first `rows` rows of the last window and drop the others."""
        ...

    def expect(self, requests: int) -> None:
        """Up to this many requests will be under way together, so their memory can be made at once."""
        ...

    def release(self, state: StateT) -> None:
        """The request is over; the cache of the last one moves into the place of its own."""
        ...

    def abandon(self) -> None:
        """Forget every request under way, whatever state an error left it in."""
        ...


class Strategy(Protocol):
    """A way to turn logits into tokens, one round at a time."""

    def widest_window(self, info: ModelInfo) -> int:
        """Rows of the largest window a round uses; `UsageError` when this checkpoint cannot run it."""
        ...

    def round(self, model: StepModel[StateT], state: StateT, output: Output, trace: TraceRecorder) -> Round:
        """Commit at least one token to `output` and re-establish the boundary invariant."""
        ...
