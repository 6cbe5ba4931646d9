"""All a strategy may ask of a model, and all a decode loop asks of a strategy.

Boundary invariant, kept between rounds: the cache holds the causal keys and values of the prefix and of
every committed token except the last one (x0, the boundary token). A strategy that leaves more tokens
pending says how to write them in `settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from gravbench.decoding.output import Output
from gravbench.decoding.tracing import TraceRecorder
from gravbench.decoding.window import Needs, Step
from gravbench.records import Request

if TYPE_CHECKING:
    from gravbench.decoding.rows import Reply, Rows

StateT = TypeVar("StateT")
HeadStateT = TypeVar("HeadStateT", contravariant=True)


class HeadInfo(NamedTuple):
    """A small drafting head beside a checkpoint.

    `taps`: layers (from 0) of the model whose residual stream it reads; none where it reads states after the
    final norm. `block`: rows of the block it was trained to fill, x0 included; `None` for one token a step.
    """

    name: str
    taps: tuple[int, ...] = ()
    block: int | None = None


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
    layers: int = 1
    """Layers that can be tapped."""
    heads: tuple[HeadInfo, ...] = ()
    """The small drafting heads that lie beside the checkpoint."""
    noise: bool = False
    """Whether it can embed noise rows."""
    encode: Callable[[str], Sequence[int]] | None = None
    """Token ids of a text, nothing added; `None` where there is no tokenizer."""


Round = Generator[Step, "Rows", None]
"""A round under way: yields each forward it needs and is sent the rows of its window."""


class RequestError(Exception):
    """This request cannot be decoded, others can. The text is its reason."""


class Head(Protocol[HeadStateT]):
    """A small drafting network beside the model. Its keys and values are its own, one set a request.

    It comes in two forms. One that steps (`mtp`) holds a row a token, made of the token and of the state
    before it. One that fills blocks (`blockhead`) holds a row for each `features` row, and none of a window.
    """

    def prefill(self, state: HeadStateT, prefix: Rows) -> None:
        """Take in the prefix: a row for every prefix token, with the features that were needed.

        The state of the last one is that of the next `step`.
        """
        ...

    def extend(self, states: Sequence[HeadStateT], steps: Sequence[Step]) -> Reply:
        """Take in `Step.features` of kept rows and forward the window; what is held stays until truncated.

        A head that steps takes a row of features for each token of the window: the state before it.
        """
        ...

    def step(self, states: Sequence[HeadStateT], steps: Sequence[Step]) -> Reply:
        """Forward drafted rows behind the rows held; a head that steps holds them until truncated."""
        ...

    def truncate(self, state: HeadStateT, rows: int) -> None:
        """Hold the first `rows` rows alone, those of the prefix included."""
        ...

    def length(self, state: HeadStateT) -> int:
        """Rows held."""
        ...

    def release(self, state: HeadStateT) -> None:
        """The request is over."""
        ...

    def abandon(self) -> None:
        """Forget every request under way."""
        ...


class StepModel(Protocol[StateT]):
    """A model that holds the states of requests and forwards windows of one or of several of them."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def head(self) -> Head[StateT] | None:
        """The head that was last asked for by `expect`."""
        ...

    def expect(self, requests: int, needs: Needs) -> None:
        """Up to this many requests will be under way together and need this of every forward.

        Called while none is under way. `UsageError` for a need that the checkpoint cannot meet.
        """
        ...

    def prefill(self, request: Request, *, budget: int, trace: TraceRecorder) -> tuple[StateT, Rows]:
        """Encode image and prompt; returns the state and the rows of the prefix.

        Only the last row has logits; every row has the features that were needed. Decoding will commit at
        most `budget` tokens. `RequestError` when this request cannot be decoded.
        """
        ...

    def room(self, state: StateT) -> int:
        """Response tokens that still fit the model's positions, counted from the end of the prefix."""
        ...

    def forward(self, states: Sequence[StateT], steps: Sequence[Step]) -> Reply:
        """One forward for the windows of one or several requests. The reply is valid until the next one."""
        ...

    def keep(self, state: StateT, rows: int | Sequence[int]) -> None:
        """Cache the first `rows` rows of the last window, or those of ascending slots; drop the others.

        Rows kept by slot close up: the first of them follows the cache. ValueError for rows not there.
        """
        ...

    def release(self, state: StateT) -> None:
        """The request is over; the cache of the last one moves into the place of its own."""
        ...

    def abandon(self) -> None:
        """Forget every request under way, whatever state an error left it in."""
        ...


@dataclass(slots=True, kw_only=True)
class Lane(Generic[StateT]):
    """One request as its strategy sees it.

    `carried` is what the strategy hands from one round to the next of the same request; `None` at first.
    """

    model: StepModel[StateT]
    request: Request
    state: StateT
    output: Output
    trace: TraceRecorder
    carried: Any = field(default=None)

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    def keep(self, rows: int | Sequence[int]) -> None:
        """Cache rows of the last window, by count or by ascending slots; the others are freed."""
        self.model.keep(self.state, rows)
        self.trace.kept(rows if isinstance(rows, int) else len(rows))

    def commit(self, tokens: Sequence[int]) -> int:
        """Commit `tokens` up to the first EOS and the budget; returns how many survived."""
        committed = self.output.extend(tokens)
        self.trace.committed(produced=len(tokens), committed=committed)
        return committed


class Strategy(Protocol):
    """A way to turn logits into tokens, one round at a time. Its options are its fields."""

    @property
    def lossy(self) -> bool:
        """Whether its tokens may differ from those of `ar` by design: nothing verifies them exactly."""
        return False

    def needs(self, info: ModelInfo) -> Needs:
        """What it needs of a model; `UsageError` when this checkpoint cannot run it."""
        ...

    def round(self, lane: Lane[StateT]) -> Round:
        """Commit at least one token and close the round; leave the boundary invariant, or pending rows."""
        ...

    def settle(self, lane: Lane[StateT]) -> Round:  # noqa: ARG002
        """Write what rounds left pending, so that another strategy may go on; nothing by default."""
        yield from ()
