"""The independent answers inside one sample: one for a crop, one a region for a page.

Rounds and token ids of a page are those of its regions one after another. Regions are read independently,
so a difference in one says nothing about the next: comparisons go region by region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from gravbench.records import Record, Rounds
from gravbench.store.page_schema import PageDetail
from gravbench.store.schema import GenRecord


class Segment(Record):
    """How far one region's answer reaches in its page's token ids and rounds."""

    region_id: str
    tokens_out: int
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One answer. `region_id` is empty for a crop."""

    region_id: str
    token_ids: tuple[int, ...]
    rounds: Rounds


class HasPage(Protocol):
    """A record that may be of a page."""

    @property
    def page(self) -> PageDetail | None: ...


def segments_of(record: HasPage) -> tuple[Segment, ...]:
    """Segments of a page, failed regions left out; empty for a crop."""
    if record.page is None:
        return ()
    return tuple(
        Segment(region_id=r.region_id, tokens_out=r.counters.tokens_out, rounds=r.counters.rounds)
        for r in record.page.regions
        if r.counters is not None
    )


def cut_pieces(token_ids: Sequence[int], rounds: Rounds, segments: Sequence[Segment]) -> tuple[Piece, ...]:
    """Answers of one sample; without segments the whole is one."""
    if not segments:
        return (Piece(region_id="", token_ids=tuple(token_ids), rounds=rounds),)
    pieces, token, start = [], 0, 0
    for segment in segments:
        stop = start + segment.rounds
        pieces.append(
            Piece(
                region_id=segment.region_id,
                token_ids=tuple(token_ids[token : token + segment.tokens_out]),
                rounds=Rounds(
                    offered=rounds.offered[start:stop],
                    accepted=rounds.accepted[start:stop],
                    committed=rounds.committed[start:stop],
                    forwards=rounds.forwards[start:stop],
                ),
            )
        )
        token, start = token + segment.tokens_out, stop
    return tuple(pieces)


def joined(pieces: Sequence[Piece]) -> Piece:
    """All answers of a sample as one."""
    rounds = [piece.rounds for piece in pieces]
    return Piece(
        region_id="",
        token_ids=tuple(token for piece in pieces for token in piece.token_ids),
        rounds=Rounds(
            offered=tuple(n for r in rounds for n in r.offered),
            accepted=tuple(n for r in rounds for n in r.accepted),
            committed=tuple(n for r in rounds for n in r.committed),
            forwards=tuple(n for r in rounds for n in r.forwards),
        ),
    )


def pieces_of(record: GenRecord) -> tuple[Piece, ...] | None:
    """Answers of a record; `None` when it failed."""
    if record.status != "ok" or record.trace is None:
        return None
    return cut_pieces(record.token_ids, record.trace.rounds, segments_of(record))
