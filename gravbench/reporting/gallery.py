"""The samples of a report: picture, ground truth, every answer, and what drafting did in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from gravbench.analysis.equality import is_identical
from gravbench.analysis.loaded import LoadedRun, Unit
from gravbench.analysis.pages import page_ns
from gravbench.analysis.speed import decode_ns, request_ns
from gravbench.arms import identity_base
from gravbench.reporting.document import Answer, GallerySample
from gravbench.reporting.thumbnails import Thumbnail, thumbnails
from gravbench.store.schema import GenRecord

PICTURE_BYTES = 4_500_000
"""All pictures together, before base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSource:
    """What the suite has of a sample; `image_path` is absolute."""

    image_path: str | None
    reference: str | None
    categories: Mapping[str, str]


def gallery_of(runs: Sequence[LoadedRun], sources: Mapping[str, SampleSource]) -> tuple[GallerySample, ...]:
    """Samples of all runs by id and repetition; each has the answers of every run that has it."""
    units: dict[tuple[str, int], list[tuple[int, Unit]]] = {}
    for number, run in enumerate(runs):
        for unit in run.units:
            units.setdefault((unit.sample_id, unit.rep), []).append((number, unit))
    ids = sorted({sample_id for sample_id, _ in units})
    pictured = [(i, path) for i in ids if i in sources and (path := sources[i].image_path) is not None]
    pictures = dict(
        zip(
            [i for i, _ in pictured],
            thumbnails([path for _, path in pictured], budget=PICTURE_BYTES),
            strict=True,
        )
    )
    return tuple(
        _sample(sample_id, rep, found, runs, sources.get(sample_id), pictures.get(sample_id))
        for (sample_id, rep), found in sorted(units.items())
    )


def _sample(
    sample_id: str,
    rep: int,
    found: Sequence[tuple[int, Unit]],
    runs: Sequence[LoadedRun],
    source: SampleSource | None,
    picture: Thumbnail | None,
) -> GallerySample:
    name = PurePath(source.image_path).name if source and source.image_path else None
    missing = "not shown: the run's suite is not at hand" if source is None else "the sample has no image"
    return GallerySample(
        sample_id=sample_id,
        rep=rep,
        task=found[0][1].task,
        categories=dict(sorted(source.categories.items())) if source else {},
        image=picture.address if picture else None,
        image_name=name,
        image_wh=picture.wh if picture else None,
        image_note=picture.note if picture else missing,
        reference=source.reference if source else None,
        answers=tuple(
            _answer(number, runs[number], unit, arm) for number, unit in found for arm in runs[number].arms
        ),
    )


def _answer(number: int, run: LoadedRun, unit: Unit, arm: str) -> Answer:
    record = unit.records[arm]
    scores = run.scores.get((unit.sample_id, unit.rep, arm), ())
    base = identity_base(arm, run.arms)
    logged = record.trace is not None and (record.trace.rounds.committed or len(record.token_ids) <= 1)
    return Answer(
        run=number,
        arm=arm,
        status=record.status,
        stop_reason=record.stop_reason,
        error=f"{record.error.stage}: {record.error.kind}: {record.error.message}" if record.error else None,
        loop=record.loop_flag,
        text=record.text,
        token_ids=record.token_ids,
        rounds=record.trace.rounds if record.trace is not None and logged else None,
        requests=_requests(record),
        request_ns=page_ns(record) or request_ns(record),
        decode_ns=decode_ns(record),
        scores={score.metric: score.value for score in scores},
        reasons={score.metric: score.reason for score in scores if score.reason},
        identical=is_identical(unit.records[base], record) if base is not None else None,
    )


def _requests(record: GenRecord) -> tuple[tuple[int, int], ...]:
    """(tokens out, rounds) of each model call of the record: one for a crop, one a region for a page."""
    if record.page is not None:
        counted = [region.counters for region in record.page.regions if region.counters is not None]
        return tuple((c.tokens_out, c.rounds) for c in counted)
    if record.trace is None:
        return ()
    return ((record.trace.counters.tokens_out, record.trace.counters.rounds),)
