"""The small contracts between layers; typing only, no tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gravbench.records import DecodeConfig, Generation, Record, Request


class BackendInfo(Record):
    """Who decodes: enough to say whether two runs used the same model and engine."""

    name: str
    model: str
    model_digest: str
    """sha256 over (file name, sha256) of config, tokenizer, processor, block_diffusion and weight files."""
    engine: str
    device: str
    dtype: str
    threads: int
    eos_token_ids: tuple[int, ...]
    mask_token_id: int | None
    block_size: int | None
    """Block size the checkpoint was trained with; `None` when it cannot draft."""
    cuda_graphs: bool = False
    """Whether decode forwards are recorded and replayed."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """What a run says of its servers. `urls` are `URL`, or `STRATEGY=URL` for one that decodes that way."""

    urls: tuple[str, ...] = ()
    model: str | None = None
    """`--model`, as it was given."""
    key: str | None = field(default=None, repr=False)
    """Sent as a bearer token; it stands in no record, message or log."""


class Backend(Protocol):
    """A way to run requests. Faults of one request come back as `Generation(stop_reason="error")`;
    faults of the engine itself (checkpoint broken, out of memory) raise `EngineError`."""

    def describe(self) -> BackendInfo: ...

    def check(self, strategies: Sequence[str]) -> None:
        """Refuse strategies this backend cannot run (`UsageError` / `EngineError`) before any sample runs."""
        ...

    def generate(self, request: Request, decode: DecodeConfig) -> Generation: ...

    def generate_batch(self, requests: Sequence[Request], decode: DecodeConfig) -> list[Generation]:
        """Answers in the order of `requests`; as many decode together as the strategy's `batch` says."""
        ...

    def settle(self) -> None:
        """Do what would otherwise fall into somebody's time; called between requests, outside every clock."""
        ...

    def take_peak_bytes(self) -> int | None:
        """Most bytes that its accelerator's allocator had given out since the last call; `None` on a CPU.

        Called before and after requests, outside every clock.
        """
        ...

    def close(self) -> None: ...


class Opinion(Record):
    """One teacher-forced float32 pass over a common beginning, looking at the next token.

    `gap` = largest logit - second largest. Ranks count from 1; equal logits share the better rank.
    """

    gap: float
    top_ids: tuple[int, int]
    base_rank: int
    own_rank: int

    def is_tie(self, tau: float) -> bool:
        """Both ids are the top two, and no further apart than `tau`."""
        return self.gap <= tau and max(self.base_rank, self.own_rank) <= 2


class Referee(Protocol):
    """Judges the token after `prefix` for one sample, where two outputs part."""

    def judge(self, sample_id: str, prefix: tuple[int, ...], *, base_id: int, own_id: int) -> Opinion: ...


class TokenGap(NamedTuple):
    """How far a token lies below the largest logit of its own prefix: 0 for that one itself."""

    gap: float
    best_id: int


@dataclass(frozen=True, kw_only=True)
class ForcedPass:
    """A way to teacher-force outputs. `gaps` takes the name of a request and its token ids, and has one gap a
    token; `tau` is the largest that rounding explains, in logits."""

    precision: str
    tau: float
    gaps: Callable[[str, Sequence[int]], Sequence[TokenGap]]
