"""The gallery as the page's script reads it: an index, and chunks of samples unpacked one at a time.

Text of models and files is made visible; words that differ and what became of each draft are found here.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson
from markupsafe import Markup
from rapidfuzz.distance import Levenshtein

from gravbench.analysis.pieces import first_divergence
from gravbench.analysis.quality import points
from gravbench.arms import identity_base, is_ar, speed_base
from gravbench.records import Rounds
from gravbench.reporting.document import Answer, GallerySample, ReportDocument
from gravbench.reporting.tables import milliseconds
from gravbench.store.schema import canonical_json

_HIDDEN = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000d\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """`text` with controls, direction marks and invisible characters written out as ⟨U+XXXX⟩.

    Tab and line feed stay, and so do the joiners that scripts and emoji need (U+200C, U+200D).
    """
    return _HIDDEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def packed(value: Any) -> str:
    """`value` as JSON, gzip without a clock, base64: letters that mean nothing to HTML."""
    return base64.b64encode(gzip.compress(canonical_json(value), compresslevel=9, mtime=0)).decode("ascii")


def embedded(value: Any) -> Markup:
    """`value` as JSON that a script element holds as it is: no letter in it means anything to HTML."""
    text = canonical_json(value).decode("utf-8")
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def unpacked(text: str) -> Any:
    """The inverse of `packed`."""
    return orjson.loads(gzip.decompress(base64.b64decode(text)))


Segment = tuple[Literal["=", "-", "+"], str]
"""Kept, only in the reference, only in the prediction."""

MAX_CELLS = 4_000_000
"""Words x words up to which the alignment is found; it needs about a quarter byte a cell."""

_WORD = re.compile(
    r"[\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]"  # ideographs and syllables stand alone
    r"|\s+|[^\W\u2e80-\u9fff\uf900-\ufaff\uac00-\ud7af]+|[^\w\s]"
)


def word_diff(reference: str, prediction: str) -> tuple[Segment, ...]:
    """Segments whose `=` and `-` spell the reference and whose `=` and `+` spell the prediction.

    Common beginnings and ends are taken first. A middle of more than `MAX_CELLS` word pairs is shown as
    replaced whole: its alignment would need gigabytes.
    """
    a, b = _WORD.findall(reference), _WORD.findall(prediction)
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    left, right = a[start : len(a) - end], b[start : len(b) - end]
    parts: list[Segment] = [("=", "".join(a[:start]))]
    if len(left) * len(right) > MAX_CELLS:
        parts += [("-", "".join(left)), ("+", "".join(right))]
    else:
        for op in Levenshtein.opcodes(left, right):
            gone = "".join(left[op.src_start : op.src_end])
            if op.tag == "equal":
                parts.append(("=", gone))
            else:
                parts += [("-", gone), ("+", "".join(right[op.dest_start : op.dest_end]))]
    parts.append(("=", "".join(a[len(a) - end :]) if end else ""))
    return _joined(parts)


def _common(a: list[str], b: list[str]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _joined(parts: list[Segment]) -> tuple[Segment, ...]:
    """Without empty segments; neighbours of one kind joined."""
    found: list[Segment] = []
    for kind, text in parts:
        if text and found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + text)
        elif text:
            found.append((kind, text))
    return tuple(found)


PREFILL, SEED, ACCEPTED, CORRECTION, BONUS, PLAIN = "psacbg"


class StripRound(NamedTuple):
    """A round. `kinds` has a letter a committed token: s seed, a accepted, c correction, b bonus, g plain.

    `rejected` drafts failed the check or came behind one that did; `dropped` were right, but behind the end.
    """

    kinds: str
    offered: int
    rejected: int
    dropped: int


def strip_rounds(rounds: Rounds) -> tuple[StripRound, ...]:
    """Rounds of one request; prefill's token is before them."""
    columns = list(zip(rounds.offered, rounds.accepted, rounds.committed, rounds.seeds, strict=True))
    kinds = {column: _round(*column) for column in set(columns)}
    return tuple(kinds[column] for column in columns)


def _round(offered: int, accepted: int, committed: int, seeds: int) -> StripRound:
    if not offered:
        return StripRound(kinds=PLAIN * committed, offered=0, rejected=0, dropped=0)
    own = BONUS if accepted == offered else CORRECTION
    whole = SEED * seeds + ACCEPTED * accepted + own
    kinds = whole[:committed].ljust(committed, own)
    return StripRound(
        kinds=kinds,
        offered=offered,
        rejected=offered - accepted,
        dropped=accepted - kinds.count(ACCEPTED),
    )


CHUNK = 32
CHUNK_CHARACTERS = 400_000
"""A chunk ends with whichever comes first: so many samples, or so many characters of text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedGallery:
    """`index` and `chunks` are what `packed` returns."""

    index: str
    chunks: tuple[str, ...]
    n: int


def pack_gallery(document: ReportDocument) -> PackedGallery:
    """Index rows in the order of the document, every text made visible, every difference already found."""
    chunks = _chunks(document.gallery)
    places = [(c, i) for c, chunk in enumerate(chunks) for i in range(len(chunk))]
    several = len(document.runs) > 1
    index = {
        "rows": [_row(sample, place) for sample, place in zip(document.gallery, places, strict=True)],
        "pieces": [{str(i): _piece(text) for i, text in run.pieces.items()} for run in document.runs],
    }
    return PackedGallery(
        index=packed(index),
        chunks=tuple(packed([_sample(s, document, several=several) for s in chunk]) for chunk in chunks),
        n=len(document.gallery),
    )


def _chunks(samples: Sequence[GallerySample]) -> list[list[GallerySample]]:
    chunks: list[list[GallerySample]] = []
    size = 0
    for sample in samples:
        own = len(sample.reference or "") + sum(len(a.text) for a in sample.answers) + len(sample.image or "")
        if not chunks or len(chunks[-1]) >= CHUNK or size + own > CHUNK_CHARACTERS:
            chunks.append([])
            size = 0
        chunks[-1].append(sample)
        size += own
    return chunks


def _speedup(answer: Answer, answers: Sequence[Answer]) -> float | None:
    """Request time of the `ar` answer of the same run and batch size over the answer's own."""
    same_run = {a.arm: a for a in answers if a.run == answer.run}
    base = None if is_ar(answer.arm) else same_run.get(speed_base(answer.arm, same_run) or "")
    if base is None or not base.request_ns or not answer.request_ns:
        return None
    return base.request_ns / answer.request_ns


def _row(sample: GallerySample, place: tuple[int, int]) -> list[Any]:
    """[name, task, tokens, points, speedup, differs, failed, chunk, place in it]; `None` = not measured."""
    base = next((a for a in sample.answers if is_ar(a.arm)), None)
    tokens = len((base or sample.answers[0]).token_ids) if sample.answers else 0
    ratios = [ratio for a in sample.answers if (ratio := _speedup(a, sample.answers)) is not None]
    levels = [
        points(metric, value)
        for a in sample.answers
        for metric, value in a.scores.items()
        if value is not None
    ]
    return [
        _name(sample),
        sample.task,
        tokens,
        round(min(levels), 2) if levels else None,
        round(max(ratios), 3) if ratios else None,
        int(any(a.identical is False for a in sample.answers)),
        int(any(a.status != "ok" for a in sample.answers)),
        *place,
    ]


def _name(sample: GallerySample) -> str:
    return visible(sample.sample_id) + (f" (repetition {sample.rep})" if sample.rep else "")


def _sample(sample: GallerySample, document: ReportDocument, *, several: bool) -> dict[str, Any]:
    size = f"{sample.image_wh[0]} × {sample.image_wh[1]} pixels" if sample.image_wh else None
    answers: list[dict[str, Any]] = []
    first: dict[str, int] = {}
    for number, answer in enumerate(sample.answers):
        shown = _answer(answer, sample, document, several=several)
        if answer.text in first:
            shown |= {"same": first[answer.text], "diff": None}
        else:
            first[answer.text] = number
        answers.append(shown)
    return {
        "name": _name(sample),
        "task": sample.task,
        "categories": [[visible(k), visible(v)] for k, v in sample.categories.items()],
        "image": sample.image,
        "image_name": visible(sample.image_name) if sample.image_name else None,
        "image_size": size,
        "image_note": visible(sample.image_note) if sample.image_note else None,
        "reference": None if sample.reference is None else visible(sample.reference),
        "answers": answers,
    }


def _answer(
    answer: Answer, sample: GallerySample, document: ReportDocument, *, several: bool
) -> dict[str, Any]:
    """Differences are found in the texts as they are, and only then made visible."""
    reference = sample.reference
    run = document.runs[answer.run].name
    plain: tuple[Segment, ...] = (("=", answer.text),) if answer.text else ()
    diff = plain if reference is None else word_diff(reference, answer.text)
    return {
        "label": visible(f"{run} · {answer.arm}" if several else answer.arm),
        "run": answer.run,
        "status": answer.status,
        "stop": answer.stop_reason,
        "error": visible(answer.error) if answer.error else None,
        "loop": answer.loop,
        "identical": answer.identical,
        "time": f"{milliseconds(answer.decode_ns)} decoding, {milliseconds(answer.request_ns)} in all",
        "scores": [[m, "unscored" if v is None else f"{v:.4f}"] for m, v in sorted(answer.scores.items())],
        "reasons": [visible(f"{m}: {r}") for m, r in sorted(answer.reasons.items())],
        "same": None,
        "diff": [(kind, _shown(kind, text)) for kind, text in diff],
        "split": _split(answer, sample, document),
        "ids": answer.token_ids,
        **_strip(answer),
    }


def _strip(answer: Answer) -> dict[str, Any]:
    """`strip` is a list of model calls, each a list of rounds; `aligned` says whether they spell the ids."""
    if answer.rounds is None:
        return {"strip": None, "aligned": False}
    rounds = strip_rounds(answer.rounds)
    plain = {r: list(r) for r in set(rounds)}  # shared: a page has hundreds of rounds of a few kinds
    calls: list[list[Any]] = []
    start = 0
    for _, count in answer.requests:
        calls.append([plain[r] for r in rounds[start : start + count]])
        start += count
    spelled = sum(len(r.kinds) for r in rounds) + sum(1 for tokens, _ in answer.requests if tokens)
    return {"strip": calls, "aligned": start == len(rounds) and spelled == len(answer.token_ids)}


def _shown(kind: str, text: str) -> str:
    """A segment as it is shown; one of white space alone, gone or new, in signs."""
    return _blanks(text) if kind != "=" and text.isspace() else visible(text)


def _blanks(text: str) -> str:
    signs = {" ": "␣", "\n": "⏎\n", "\t": "⇥\t"}
    return "".join(signs.get(letter, f"⟨U+{ord(letter):04X}⟩") for letter in text)


def _split(answer: Answer, sample: GallerySample, document: ReportDocument) -> dict[str, Any] | None:
    """Where an answer parts from the ar answer it is held against, and what the audit says of the place.

    `at` counts tokens of the whole answer; it is the answer's length where the other goes on.
    """
    siblings = {a.arm: a for a in sample.answers if a.run == answer.run}
    base = siblings.get(identity_base(answer.arm, siblings) or "")
    if base is None or {answer.status, base.status} != {"ok"}:
        return None
    at = first_divergence(base.token_ids, answer.token_ids)
    if at is None:
        return None
    other = base.token_ids[at] if at < len(base.token_ids) else None
    judged = _judged(answer, (sample.sample_id, sample.rep), document)
    return {"at": at, "base": base.arm, "other": other, "judged": judged}


def _judged(answer: Answer, key: tuple[str, int], document: ReportDocument) -> str:
    """`near-tie, logit margin 3.1e-05`, or that no referee was asked."""
    arms = document.runs[answer.run].analysis.arms
    audits = [arm.identity for arm in arms if arm.arm == answer.arm and arm.identity is not None]
    found = next((d for a in audits for d in a.differences if (d.sample_id, d.rep) == key), None)
    if found is None or found.kind == "unjudged":
        return "no referee was asked for the margin"
    if found.opinion is None:
        return found.kind
    return f"{found.kind}, logit margin {found.opinion.gap:.2g}"


def _piece(text: str) -> str:
    return visible(text).replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥") or "∅"
