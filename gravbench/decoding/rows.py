"""What a forward gives back: a lazy view of device tensors, one a request.

Nothing is copied to the host before it is asked for. A view is valid until the model's next forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from gravbench.decoding.sampling import PLAIN, Law, gumbel_draw, log_probabilities

Clock = Callable[[], int]
T = TypeVar("T")


class TopK(NamedTuple):
    """The k likeliest tokens of each row, best first, and their log-probabilities."""

    tokens: list[list[int]]
    logp: list[list[float]]


@dataclass(slots=True)
class Reply:
    """Outputs of one forward for several requests.

    `logits` [M, V] are of the wanted rows of all requests one after another: those of request i begin at
    `starts[i]`, and are of its window rows `wanted[i]` (`None`: of all `widths[i]` of them). `hidden` [R, d]
    and each of `taps` [R, d] are of every row; those of request i begin at `firsts[i]`.
    """

    logits: Tensor
    widths: Sequence[int]
    starts: Sequence[int]
    wanted: Sequence[Sequence[int] | None]
    firsts: Sequence[int]
    hidden: Tensor | None = None
    taps: Sequence[Tensor] = ()
    greedy: list[list[int]] = field(default_factory=list)
    """Greedy tokens by request, once they were read."""

    def read_tokens(self) -> list[list[int]]:
        """Greedy tokens of the wanted rows of each request; one copy to the host for all."""
        if not self.greedy:
            found: list[int] = self.logits.argmax(-1).tolist()
            if len(self.widths) == 1:
                self.greedy.append(found)
                return self.greedy
            self.greedy = [
                found[start : start + (width if wanted is None else len(wanted))]
                for start, width, wanted in zip(self.starts, self.widths, self.wanted, strict=True)
            ]
        return self.greedy


class Rows:
    """The rows of one request in a reply. Row numbers are those of its window.

    `spent_ns` is the time that reading anything but greedy tokens has taken.
    """

    __slots__ = ("_clock", "_drawn", "_index", "_keys", "_law", "_reply", "spent_ns")

    def __init__(self, reply: Reply, index: int = 0, *, clock: Clock | None = None) -> None:
        self._reply, self._index, self._clock = reply, index, clock
        self.spent_ns = 0
        self._law: Law | None = None
        self._keys: Callable[[], list[int]] = list
        self._drawn: list[int] | None = None

    def sample(self, law: Law, keys: Callable[[], list[int]]) -> None:
        """From now on `tokens` are drawn from `law`, each wanted row with its key."""
        self._law, self._keys = law, keys

    def __len__(self) -> int:
        return self._reply.widths[self._index]

    @property
    def tokens(self) -> list[int]:
        """Tokens of the wanted rows, in their order: the likeliest, or those drawn after `sample`."""
        law = self._law
        if law is not None:
            if self._drawn is None:
                self._drawn = self._read(lambda: self._draw(self.logits(), self._keys(), law))
            return self._drawn
        return (self._reply.greedy or self._reply.read_tokens())[self._index]

    def logits(self, rows: Sequence[int] | None = None) -> Tensor:
        """Logits [n, V] of `rows` (`None`: the wanted ones) on the device; ValueError for an unwanted row."""
        reply, i = self._reply, self._index
        start, wanted = reply.starts[i], reply.wanted[i]
        if rows is None:
            return reply.logits[start : start + (len(self) if wanted is None else len(wanted))]
        at = [start + (row if wanted is None else wanted.index(row)) for row in self._checked(rows)]
        return reply.logits[at]

    def topk(self, rows: Sequence[int], k: int) -> TopK:
        """The `k` likeliest tokens of each of `rows`; fewer where the vocabulary is smaller."""

        def read() -> TopK:
            logp = torch.log_softmax(self.logits(rows).float(), dim=-1)
            best = logp.topk(min(k, logp.shape[-1]), dim=-1)
            return TopK(best.indices.tolist(), best.values.tolist())

        return self._read(read)

    def logp(self, rows: Sequence[int], ids: Sequence[int]) -> list[float]:
        """log p(ids[i] | rows[i])."""

        def read() -> list[float]:
            logp = torch.log_softmax(self.logits(rows).float(), dim=-1)
            chosen = torch.tensor(list(ids), device=logp.device)[:, None]
            found: list[float] = logp.gather(1, chosen)[:, 0].tolist()
            return found

        return self._read(read)

    def entropy(self, rows: Sequence[int]) -> list[float]:
        """-sum p log p of each of `rows`, in nats."""

        def read() -> list[float]:
            logp = torch.log_softmax(self.logits(rows).float(), dim=-1)
            found: list[float] = torch.special.entr(logp.exp()).sum(-1).tolist()
            return found

        return self._read(read)

    def draw(self, rows: Sequence[int], keys: Sequence[int], law: Law = PLAIN) -> list[int]:
        """A token of each of `rows` from `law`, with the randomness of its key (`sampling.key_of`)."""

        return self._read(lambda: self._draw(self.logits(rows), keys, law))

    @staticmethod
    def _draw(logits: Tensor, keys: Sequence[int], law: Law) -> list[int]:
        logp = log_probabilities(logits, law)
        found: list[int] = gumbel_draw(logp, torch.tensor(list(keys), device=logp.device)).tolist()
        return found

    def hidden(self, rows: Sequence[int]) -> Tensor:
        """States after the final norm [n, d], a copy on the device; only where `Needs.hidden` asked."""
        if self._reply.hidden is None:
            raise ValueError("hidden states were not asked for: Needs(hidden=True)")
        return self._reply.hidden[self._places(rows)]

    def taps(self, rows: Sequence[int]) -> Tensor:
        """The residual stream after each tapped layer [n, layers, d]: a copy on the device."""
        if not self._reply.taps:
            raise ValueError("no layer was tapped: Needs(taps=...)")
        places = self._places(rows)
        return torch.stack([tap[places] for tap in self._reply.taps], dim=1)

    def _places(self, rows: Sequence[int]) -> list[int]:
        first = self._reply.firsts[self._index]
        return [first + row for row in self._checked(rows)]

    def _checked(self, rows: Sequence[int]) -> Sequence[int]:
        if any(not 0 <= row < len(self) for row in rows):
            raise ValueError(f"rows {list(rows)} of a window of {len(self)}")
        return rows

    def _read(self, read: Callable[[], T]) -> T:
        if self._clock is None:
            return read()
        started = self._clock()
        found = read()
        self.spent_ns += self._clock() - started
        return found
