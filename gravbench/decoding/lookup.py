"""`lookup`: drafts copied from what was written before, verified autoregressively. Training-free.

    draft    the tokens that followed the last earlier occurrence of the longest matching end of the answer
    verify   [x0, d_1..d_K]    CAUSAL    ->  a_1..a_{K+1}
    commit   d_1..d_A, a_{A+1}           A = longest prefix with d_j = a_j; 1..K+1 tokens

Looked for in the answer itself, and before it in the prompt (`prompt=1`) and in texts supplied for the
sample (`texts=PATH`, see `gravbench.decoding.texts`). `match=ngram` knows ends of `longest` down to
`shortest` tokens; `match=suffix` takes the longest end that stands anywhere, however long, and drafts
`per_match` tokens for each token that matched, up to `tokens`: long matches are trusted further.

Without a match the round is one step of autoregression. A copy that reaches the end of the answer goes on
with what it has copied, so a repeated row is drafted whole however short its period.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from gravbench.decoding.drafting import fits, matched_prefix
from gravbench.decoding.options import option
from gravbench.decoding.protocols import Lane, ModelInfo, Round, StateT, Strategy
from gravbench.decoding.suffixes import Suffixes
from gravbench.decoding.texts import texts_of
from gravbench.decoding.window import Needs, Step, causal_window
from gravbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Lookup(Strategy):
    """`tokens` drafted a round; ends of `longest` down to `shortest` tokens are looked for."""

    tokens: int = option(8, low=1)
    longest: int = option(4, low=1)
    shortest: int = option(2, low=1)
    match: Literal["ngram", "suffix"] = option("ngram")
    per_match: float = option(2.0, low=0.1)
    prompt: bool = False
    texts: str | None = option(None)

    def needs(self, info: ModelInfo) -> Needs:
        if self.shortest > self.longest:
            raise UsageError(
                f"lookup: shortest is {self.shortest}, longest is {self.longest}",
                hint="for example lookup:longest=4,shortest=2",
            )
        if self.prompt and info.encode is None:
            raise UsageError("lookup: prompt=1, but this backend has no tokenizer", hint="Leave it out.")
        texts_of(self.texts, info, "lookup")
        return Needs(rows_max=fits(f"lookup:tokens={self.tokens}", self.tokens + 1, info))

    def round(self, lane: Lane[StateT]) -> Round:
        if lane.carried is None:
            lane.carried = self._past(lane)
        matched, drafts = lane.carried.drafts(lane.output.tokens, self.tokens)
        rows = yield Step("verify", causal_window((lane.output.boundary, *drafts)))
        verified = rows.tokens
        accepted = matched_prefix(drafts, verified)
        committed = lane.commit([*drafts[:accepted], verified[accepted]])
        lane.keep(committed)  # x0 and all but the new boundary token
        lane.trace.count("match_found", bool(drafts))
        lane.trace.count("match_len", matched)
        lane.trace.round(extra=1, offered=len(drafts), accepted=accepted)

    def _past(self, lane: Lane[StateT]) -> _Ngrams | _Longest:
        """What stands before the answer, each part closed by a number that no token has."""
        before: list[int] = []
        parts = list(texts_of(self.texts, lane.info, "lookup").of(lane.request))
        if self.prompt and lane.info.encode is not None and lane.request.prompt is not None:
            parts.insert(0, tuple(lane.info.encode(lane.request.prompt)))
        for number, part in enumerate(parts, start=1):
            before += [*part, -number]
        if self.match == "suffix":
            return _Longest(before, self.shortest, self.per_match)
        return _Ngrams(before, self.shortest, self.longest)


@dataclass(slots=True)
class _Ngrams:
    """Where each run of `shortest` to `longest` tokens was last followed by another token."""

    whole: list[int]
    shortest: int
    longest: int
    after: dict[tuple[int, ...], int] = field(default_factory=dict)
    seen: int = 0
    taken: int = 0

    def drafts(self, tokens: Sequence[int], count: int) -> tuple[int, list[int]]:
        """Length of the longest match and up to `count` drafts; 0 and none without a match."""
        whole = self.whole
        whole += tokens[self.taken :]
        self.taken = len(tokens)
        for end in range(self.seen, len(whole)):
            for length in range(self.shortest, min(self.longest, end) + 1):
                self.after[tuple(whole[end - length : end])] = end
        self.seen = len(whole)
        for length in range(min(self.longest, len(tokens)), self.shortest - 1, -1):
            at = self.after.get(tuple(tokens[-length:]))
            copied = [] if at is None else _copied(whole, at, count)
            if copied:
                return length, copied
        return 0, []


@dataclass(slots=True)
class _Longest:
    """The longest end that stood before, `shortest` tokens or more."""

    whole: list[int]
    shortest: int
    per_match: float
    ends: Suffixes = field(default_factory=Suffixes)
    taken: int = 0

    def drafts(self, tokens: Sequence[int], count: int) -> tuple[int, list[int]]:
        """Length of the match and up to `count` drafts; 0 and none without a match."""
        self.whole += tokens[self.taken :]
        self.taken = len(tokens)
        for token in self.whole[self.ends.seen :]:
            self.ends.add(token)
        length, at = self.ends.repeated()
        if length < self.shortest:
            return 0, []
        copied = _copied(self.whole, at, min(count, max(1, int(length * self.per_match))))
        return (length, copied) if copied else (0, [])


def _copied(whole: Sequence[int], at: int, count: int) -> list[int]:
    """What stands at `at` and behind it, going on with what was copied; no further than its part."""
    copied: list[int] = []
    for source in range(at, at + count):
        token = whole[source] if source < len(whole) else copied[source - len(whole)]
        if token < 0:
            break
        copied.append(token)
    return copied
