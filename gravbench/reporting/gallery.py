"""The samples of a report: picture, ground truth, every answer, and what drafting did in each."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from PIL import Image

from gravbench.analysis.identity import is_identical
from gravbench.analysis.loaded import LoadedRun, Unit
from gravbench.analysis.speed import decode_ns
from gravbench.analysis.stages import whole_ns
from gravbench.arms import text_base
from gravbench.errors import DataError
from gravbench.imaging import decode_preview, read_bounded
from gravbench.records import joined_rounds
from gravbench.reporting.document import Answer, GallerySample
from gravbench.store.schema import ScoreRecord

SIDES = (640, 480, 360, 256, 192, 144)
QUALITY = 55
BYTES_A_PIXEL = 0.04
"""What a square pixel of page or crop costs at this quality, on the low side: where to start trying."""
LARGEST = 14_000
"""Bytes a picture may have when there are few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thumbnail:
    """A data address and the size of the original, or why there is none."""

    address: str | None
    wh: tuple[int, int] | None
    note: str | None = None


def thumbnails(sources: Sequence[SampleSource], *, budget: int, threads: int = 2) -> list[Thumbnail]:
    """One each, in order, of at most `budget / len(sources)` bytes; the side shrinks until it fits."""
    share = min(LARGEST, budget // max(1, len(sources)))
    with ThreadPoolExecutor(threads) as pool:
        return list(
            pool.map(
                lambda one: thumbnail(Path(str(one.image_path)), limit=share, annotated=one.annotated),
                sources,
            )
        )


def thumbnail(path: Path, *, limit: int, annotated: tuple[float, float] | None = None) -> Thumbnail:
    """WebP of the largest of `SIDES` that fits `limit` bytes; the smallest is kept even when it does not.

    The image stands as the run read it: `annotated` is the size that a page's annotation states.
    """
    sides = [side for side in SIDES if side * side * BYTES_A_PIXEL <= limit] or list(SIDES[-1:])
    try:
        data = read_bounded(path)
        image, wh = decode_preview(data, path.name, side=sides[0], annotated=annotated)
    except DataError as fault:
        return Thumbnail(address=None, wh=None, note=f"not shown: {path.name}: {fault.message}")
    image = image.convert("RGB")
    image.thumbnail((sides[0], sides[0]), Image.Resampling.BOX)
    data = b""
    for side in sides:
        small = image.copy()
        small.thumbnail((side, side), Image.Resampling.BILINEAR)
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=QUALITY, method=1)
        data = buffer.getvalue()
        if len(data) <= limit:
            break
    address = "data:image/webp;base64," + base64.b64encode(data).decode("ascii")
    return Thumbnail(address=address, wh=wh)


PICTURE_BYTES = 4_500_000
"""All pictures together, before base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSource:
    """What the suite has of a sample; `image_path` is absolute."""

    image_path: str | None
    reference: str | None
    categories: Mapping[str, str]
    annotated: tuple[float, float] | None = None
    """Width and height that a page's annotation states: a turned image stands turned if it then has them."""
    no_picture: str = "the sample has no image"
    """Why there is none, where `image_path` is `None`."""


def without_pictures(sources: Mapping[str, SampleSource]) -> dict[str, SampleSource]:
    """The same for a page that must not carry pictures of documents."""
    return {
        sample_id: replace(source, image_path=None, no_picture="not shown: left out with --no-images")
        for sample_id, source in sources.items()
    }


def gallery_of(runs: Sequence[LoadedRun], sources: Mapping[str, SampleSource]) -> tuple[GallerySample, ...]:
    """Samples of all runs by id and repetition; each has the answers of every run that has it."""
    units: dict[tuple[str, int], list[tuple[int, Unit]]] = {}
    for number, run in enumerate(runs):
        for unit in run.units:
            units.setdefault((unit.sample_id, unit.rep), []).append((number, unit))
    ids = sorted({sample_id for sample_id, _ in units})
    pictured = [i for i in ids if i in sources and sources[i].image_path is not None]
    found_pictures = thumbnails([sources[i] for i in pictured], budget=PICTURE_BYTES)
    pictures = dict(zip(pictured, found_pictures, strict=True))
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
    missing = "not shown: the run's suite is not at hand" if source is None else source.no_picture
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


def _reason(score: ScoreRecord) -> str:
    """Why a score is absent or failed, and what its scorer says of single elements."""
    noted = (f"{note.element}: {note.reason}" for note in score.notes)
    return "; ".join([*([score.reason] if score.reason else []), *noted])


def _answer(number: int, run: LoadedRun, unit: Unit, arm: str) -> Answer:
    record = unit.records[arm]
    scores = run.scores.get((unit.sample_id, unit.rep, arm), ())
    base = text_base(arm, run.arms)
    return Answer(
        run=number,
        arm=arm,
        status=record.status,
        stop_reason=record.stop_reason or "not told",
        error=f"{record.error.stage}: {record.error.kind}: {record.error.message}" if record.error else None,
        loop=record.loop_flag,
        text=record.text,
        token_ids=record.token_ids,
        rounds=joined_rounds([t.rounds for _, t in record.answers]) if record.status == "ok" else None,
        requests=tuple((t.counters.tokens_out, t.counters.rounds) for _, t in record.answers),
        request_ns=whole_ns(record),
        decode_ns=decode_ns(record),
        scores={score.metric: score.value for score in scores},
        reasons={score.metric: why for score in scores if (why := _reason(score))},
        identical=is_identical(unit.records[base], record) if base is not None else None,
    )
