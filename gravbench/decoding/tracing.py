"""One recorder for every strategy, so that none is counted or timed more kindly.

It counts forwards, rows and rounds and adds up durations of an injected nanosecond clock. What a
count means is said in `records.Counters`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from gravbench.records import Counters, Rounds, Times, Trace

ForwardKind = Literal["draft", "verify", "denoise", "cache_write"]
Stage = Literal["image", "vision", "prefill", "decode", "total"]

Clock = Callable[[], int]
"""Nanoseconds of a monotonic clock."""

DECODE_KINDS: tuple[ForwardKind, ...] = ("draft", "verify", "denoise", "cache_write")


class TraceRecorder:
    """Counters, per-round log and times of one request. Not reusable."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._forwards: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._elapsed: Counter[str] = Counter()
        self._rounds: list[tuple[int, int, int, int]] = []
        self._forwards_before_round = 0
        self._produced = 0
        self._freed = 0
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
        """Count one full-model decode forward of `rows` rows and this request's share of its time.

        The time covers reading the result; `requests` of them in one forward share it equally.
        """
        self._forward_share += 1 / requests
        self._forwards[kind] += 1
        self._rows[kind] += rows
        self._elapsed[kind] += elapsed_ns

    def prefilled(self, *, prompt_tokens: int, vision_tokens: int, vision_forwards: int) -> None:
        """Record the one prefill: `prompt_tokens` text rows and `vision_tokens` image rows of the prefix."""
        self._forwards["prefill"] += 1
        self._forwards["vision"] += vision_forwards
        self._rows["prefill"] += prompt_tokens + vision_tokens
        self._prompt_tokens += prompt_tokens
        self._vision_tokens += vision_tokens

    def dropped(self, rows: int) -> None:
        """Record `rows` cache rows that a forward wrote and that were not kept."""
        self._freed += rows

    def round(self, *, offered: int, accepted: int, produced: int, committed: int) -> None:
        """Close a round.

        `produced` tokens left the verifier, `accepted` of them were drafts (never reduced by
        truncation); `committed` of them survived EOS and budget.
        """
        forwards = sum(self._forwards[kind] for kind in DECODE_KINDS)
        self._rounds.append((offered, accepted, committed, forwards - self._forwards_before_round))
        self._forwards_before_round = forwards
        self._produced += produced

    def finish(self, *, tokens_out: int) -> Trace:
        """The checked record; pydantic raises if the counts do not add up."""
        columns = list(zip(*self._rounds, strict=True)) or [(), (), (), ()]
        offered, accepted, committed, forwards = columns
        counters = Counters(
            tokens_out=tokens_out,
            rounds=len(self._rounds),
            fwd_vision=self._forwards["vision"],
            fwd_prefill=self._forwards["prefill"],
            fwd_draft=self._forwards["draft"],
            fwd_verify=self._forwards["verify"],
            fwd_denoise=self._forwards["denoise"],
            fwd_cache_write=self._forwards["cache_write"],
            rows_prefill=self._rows["prefill"],
            rows_draft=self._rows["draft"],
            rows_verify=self._rows["verify"],
            rows_denoise=self._rows["denoise"],
            rows_cache_write=self._rows["cache_write"],
            draft_offered=sum(offered),
            draft_accepted=sum(accepted),
            ar_tokens=self._produced - sum(accepted),
            tokens_discarded_after_stop=self._produced - sum(committed),
            kv_rows_freed=self._freed,
            prompt_tokens=self._prompt_tokens,
            vision_tokens=self._vision_tokens,
        )
        rounds = Rounds(offered=offered, accepted=accepted, committed=committed, forwards=forwards)
        return Trace(counters=counters, rounds=rounds, times=self._times())

    def _times(self) -> Times:
        elapsed = self._elapsed
        return Times(
            image_ns=elapsed.get("image"),
            vision_ns=elapsed.get("vision"),
            prefill_ns=elapsed.get("prefill"),
            draft_ns=elapsed.get("draft"),
            verify_ns=elapsed.get("verify"),
            decode_ns=elapsed.get("decode"),
            total_ns=elapsed.get("total"),
            forward_share=self._forward_share,
        )
