"""Whether two arms wrote the same tokens: ids and stop reason, the strictest useful reading of "lossless".

`is_identical` is the one meaning of "identical" and "same tokens" in summaries, comparisons, gates and
reports. Another text at equal tokens is a fault of assembly, which `divergence` counts apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gravbench.analysis.pieces import segments_of
from gravbench.records import Record
from gravbench.store.page_schema import PageDetail


class Tokens(Protocol):
    """What identity reads of a record: a generation of a run, or a prediction of a reference."""

    @property
    def status(self) -> str: ...
    @property
    def stop_reason(self) -> str: ...
    @property
    def token_ids(self) -> tuple[int, ...]: ...
    @property
    def page(self) -> PageDetail | None: ...


class Identity(Record):
    """`n` of `of` pairs are token-identical; `share` = n / of, `None` when `of` is 0.

    A pair in which only one arm failed counts as different; a pair in which both failed has no tokens to
    compare and is left out of `of`.
    """

    n: int
    of: int
    share: float | None = None


def is_identical(base: Tokens, own: Tokens) -> bool:
    """Both ok, with equal token ids (EOS included) and equal stop reason; on pages region by region."""
    return (
        base.status == own.status == "ok"
        and base.stop_reason == own.stop_reason
        and differing_region(base, own) is None
    )


def has_tokens(base: Tokens, own: Tokens) -> bool:
    """Whether there is something to compare: at least one of the two succeeded."""
    return base.status == "ok" or own.status == "ok"


def differing_region(base: Tokens, own: Tokens) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    """Region and its token ids on both sides where two answers first part; `None` where they do not.

    For crops, and for pages cut into other regions, the region is "" and the ids are the whole answer's.
    """
    mine, theirs = segments_of(base), segments_of(own)
    if [s.region_id for s in mine] != [s.region_id for s in theirs] or not mine:
        return None if base.token_ids == own.token_ids else ("", base.token_ids, own.token_ids)
    a = b = 0
    for left, right in zip(mine, theirs, strict=True):
        one = base.token_ids[a : a + left.tokens_out]
        other = own.token_ids[b : b + right.tokens_out]
        if one != other:
            return left.region_id, one, other
        a, b = a + left.tokens_out, b + right.tokens_out
    return None


def count_identical(pairs: Iterable[tuple[Tokens, Tokens]]) -> Identity:
    """Token identity over (base, own) pairs."""
    comparable = [pair for pair in pairs if has_tokens(*pair)]
    n = sum(is_identical(base, own) for base, own in comparable)
    return Identity(n=n, of=len(comparable), share=n / len(comparable) if comparable else None)
