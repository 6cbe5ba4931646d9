"""One recorder for every strategy, so that none is counted or timed more kindly.

It counts forwards, rows and rounds and adds up durations of an injected nanosecond clock. What a
count means is said in `records.Counters`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from gravbench.records import FORWARD_KINDS, MODEL_KINDS, Counters, ForwardKind, Rounds, Times, Trace

Stage = Literal["image", "vision", "prefill", "decode", "total"]

Clock = Callable[[], int]
"""Nanoseconds of a monotonic clock."""


class TraceRecorder:
    """Counters, per-round log and times of one request. Not reusable."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._forwards: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._elapsed: Counter[str] = Counter()
        self._rounds: list[tuple[int, int, int, int, int, int | None]] = []
        self._round_forwards: list[dict[str, int]] = []
        self._open: dict[str, int] = {}
        self._round_committed = 0
        self._produced = 0
        self._own: Counter[str] = Counter()
        self._kept = 0
        self._forward_share = 0.0
        self._prompt_tokens = 0
        self._vision_tokens = 0

    @contextmanager
    def stage(self, name: Stage) -> Iterator[None]:
        """Time a stage. Whoever opens it synchronises the device before it ends."""
        started = self.clock()
        try:
            yield
        finally:
            self._elapsed[name] += self.clock() - started

    def spent(self, name: Stage, elapsed_ns: int) -> None:
        """Add time to a stage that somebody else measured: this request's share of work done for several."""
        self._elapsed[name] += elapsed_ns

    def forward(self, kind: ForwardKind, rows: int, elapsed_ns: int, *, requests: int = 1) -> None:
        """Count one decode forward of `rows` rows and this request's share of its time.

        The time covers reading the greedy tokens; `requests` of them in one forward share it equally. A
        forward of kind `head` is one of the small head: counted apart, and in no share of the model's.
        """
        if kind != "head":
            self._forward_share += 1 / requests
        self._forwards[kind] += 1
        self._open[kind] = self._open.get(kind, 0) + 1
        self._rows[kind] += rows
        self._elapsed[kind] += elapsed_ns

    def read(self, kind: ForwardKind, elapsed_ns: int) -> None:
        """Add time that reading more of a forward took this request alone."""
        self._elapsed[kind] += elapsed_ns

    def prefilled(self, *, prompt_tokens: int, vision_tokens: int, vision_forwards: int) -> None:
        """Record the one prefill: `prompt_tokens` text rows and `vision_tokens` image rows of the prefix."""
        self._forwards["prefill"] += 1
        self._forwards["vision"] += vision_forwards
        self._rows["prefill"] += prompt_tokens + vision_tokens
        self._prompt_tokens += prompt_tokens
        self._vision_tokens += vision_tokens

    def kept(self, rows: int) -> None:
        """Record `rows` cache rows that were kept; every other row that a decode forward wrote is freed."""
        self._kept += rows

    @property
    def cached(self) -> int:
        """Response tokens in the cache: the rows that were kept."""
        return self._kept

    def committed(self, *, produced: int, committed: int) -> None:
        """Record `produced` tokens of the open round, `committed` of which survived EOS and budget."""
        self._produced += produced
        self._round_committed += committed

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a count that this strategy alone keeps (`Counters.own`)."""
        self._own[name] += amount  # type: ignore[assignment]

    def round(
        self, *, extra: int, seeds: int = 0, offered: int = 0, accepted: int = 0, nodes: int | None = None
    ) -> None:
        """Close the open round.

        `seeds` exact tokens came before the drafts; of `offered` drafts the verifier agreed with `accepted`
        (never reduced by truncation); beside those a round commits at most `extra` tokens. `nodes`: rows of
        its candidate tree, root included, where it has one.
        """
        self._rounds.append((offered, accepted, self._round_committed, seeds, extra, nodes))
        self._round_forwards.append(self._open)
        self._open, self._round_committed = {}, 0

    def finish(self, *, tokens_out: int) -> Trace:
        """The checked record; pydantic raises if the counts do not add up."""
        columns = list(zip(*self._rounds, strict=True)) or [()] * 6
        offered, accepted, committed, seeds, extra, nodes = columns
        produced = self._produced
        written = sum(self._rows[kind] for kind in MODEL_KINDS)
        counters = Counters(
            tokens_out=tokens_out,
            rounds=len(self._rounds),
            fwd_vision=self._forwards["vision"],
            fwd_prefill=self._forwards["prefill"],
            fwd_draft=self._forwards["draft"],
            fwd_verify=self._forwards["verify"],
            fwd_denoise=self._forwards["denoise"],
            fwd_cache_write=self._forwards["cache_write"],
            fwd_head=self._forwards["head"],
            rows_prefill=self._rows["prefill"],
            rows_draft=self._rows["draft"],
            rows_verify=self._rows["verify"],
            rows_denoise=self._rows["denoise"],
            rows_cache_write=self._rows["cache_write"],
            rows_head=self._rows["head"],
            draft_offered=sum(offered),
            draft_accepted=sum(accepted),
            ar_tokens=produced - sum(accepted),
            tokens_discarded_after_stop=produced - sum(committed),
            kv_rows_freed=written - self._kept,
            tree_nodes=sum(n or 0 for n in nodes),
            prompt_tokens=self._prompt_tokens,
            vision_tokens=self._vision_tokens,
            own=dict(self._own),
        )
        kinds = [kind for kind in FORWARD_KINDS if self._forwards[kind]]
        rounds = Rounds(
            offered=offered,
            accepted=accepted,
            committed=committed,
            seeds=seeds,
            extra=extra,
            forwards={kind: tuple(made.get(kind, 0) for made in self._round_forwards) for kind in kinds},
            nodes=None if all(n is None for n in nodes) else tuple(n or 0 for n in nodes),
        )
        return Trace(counters=counters, rounds=rounds, times=self._times())

    def _times(self) -> Times:
        elapsed = self._elapsed
        return Times(
            image_ns=elapsed.get("image"),
            vision_ns=elapsed.get("vision"),
            prefill_ns=elapsed.get("prefill"),
            draft_ns=elapsed.get("draft"),
            verify_ns=elapsed.get("verify"),
            denoise_ns=elapsed.get("denoise"),
            cache_write_ns=elapsed.get("cache_write"),
            head_ns=elapsed.get("head"),
            decode_ns=elapsed.get("decode"),
            total_ns=elapsed.get("total"),
            forward_share=self._forward_share,
        )
