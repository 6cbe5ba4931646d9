"""Whether two arms wrote the same tokens: ids and stop reason, the strictest useful reading of "lossless"."""

from __future__ import annotations

from collections.abc import Iterable

from gravbench.records import Record
from gravbench.store.schema import GenRecord


class Identity(Record):
    """`n` of `of` pairs are token-identical; `share` = n / of, `None` when `of` is 0.

    A pair in which only one arm failed counts as different; a pair in which both failed has no tokens to
    compare and is left out of `of`.
    """

    n: int
    of: int
    share: float | None = None


def is_identical(base: GenRecord, own: GenRecord) -> bool:
    """Both ok, with equal token ids (EOS included) and equal stop reason."""
    return (
        base.status == own.status == "ok"
        and base.token_ids == own.token_ids
        and base.stop_reason == own.stop_reason
    )


def count_identical(pairs: Iterable[tuple[GenRecord, GenRecord]]) -> Identity:
    """Token identity over (base, own) pairs."""
    comparable = [pair for pair in pairs if any(record.status == "ok" for record in pair)]
    n = sum(is_identical(base, own) for base, own in comparable)
    return Identity(n=n, of=len(comparable), share=n / len(comparable) if comparable else None)
