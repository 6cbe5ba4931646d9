"""`hsd`: drafts are texts that something cheaper has read of the same image (HSD, arXiv 2602.12957).

    key      the last `match` tokens of the answer; all of them while it is shorter
    tree     what follows each place of the supplied texts where the key stands, merged below x0
    verify   [x0, nodes]   TREE   ->   commit the path and the verifier's token; 1..depth + 1 tokens

The texts stay as they are and no cursor has to keep step with them: after an error of theirs the answer
meets them again `match` tokens later. Where no key is found a round is one step of autoregression. Places
near the one expected from the round before come first; with `monotone=1` none before it counts. Texts come
from an earlier run, or from a file that another OCR program filled (`gravbench.decoding.texts`).

`tau` below 1 accepts a drafted token whose probability is at least `tau` times the likeliest one's, as the
paper does with 0.75. That is lossy, another method than exact verification, and never called identical.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gravbench.decoding.candidates import Candidates, verify
from gravbench.decoding.drafting import fits
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.texts import HINT, texts_of
from gravbench.decoding.window import Needs
from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Hsd(Strategy):
    """`suffix`: tokens taken from each place. `nodes` of the tree in all."""

    texts: str | None = option(None)
    match: int = option(3, low=1, high=16)
    suffix: int = option(16, low=1)
    nodes: int = option(31, low=1, high=1023)
    monotone: bool = False
    tau: float = option(1.0, low=0.001, high=1)

    @property
    def lossy(self) -> bool:
        return self.tau < 1

    def needs(self, info: ModelInfo) -> Needs:
        if self.texts is None:
            raise UsageError("hsd: no drafts: texts=PATH is missing", hint=HINT)
        texts_of(self.texts, info, "hsd")
        return Needs(rows_max=fits(f"hsd:nodes={self.nodes}", self.nodes + 1, info))

    def round(self, lane: Lane[StateT]) -> Round:
        if lane.carried is None:
            texts = texts_of(self.texts, lane.info, "hsd").of(lane.request)
            lane.carried = [_Text(text) for text in texts]
            lane.trace.count("texts_missing", not texts)
        found = Candidates([lane.output.boundary])
        key = tuple(lane.output.tokens[-self.match :])
        for text in lane.carried:
            for place in text.places(key, len(lane.output.tokens), monotone=self.monotone):
                follows = text.tokens[place : place + self.suffix]
                found.add_path(0, follows, limit=self.nodes, stops=lane.info.eos_token_ids)
        matched = len(found.tokens) > 1
        yield from verify(lane, found, tau=self.tau)
        lane.trace.count("match_found", matched)
        lane.trace.count("match_len", len(key) if matched else 0)


@dataclass(slots=True)
class _Text:
    """A supplied text, and where in it the answer was last seen: `cursor` after `length` tokens."""

    tokens: Sequence[int]
    cursor: int = 0
    length: int = 0
    found: dict[tuple[int, ...], list[int]] = field(default_factory=dict)
    """Key -> the places behind it, for keys of the lengths in `indexed`."""
    indexed: set[int] = field(default_factory=set)

    def places(self, key: tuple[int, ...], length: int, *, monotone: bool) -> list[int]:
        """Places behind `key`, the nearest to the one expected first; `length` tokens are committed."""
        size = len(key)
        if size not in self.indexed:
            self.indexed.add(size)
            for end in range(size, len(self.tokens)):
                self.found.setdefault(tuple(self.tokens[end - size : end]), []).append(end)
        expected = self.cursor + length - self.length
        places = sorted(
            (place for place in self.found.get(key, ()) if not monotone or place >= self.cursor),
            key=lambda place: abs(place - expected),
        )
        if places:
            self.cursor, self.length = places[0], length
        return places
