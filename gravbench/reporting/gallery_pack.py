"""The gallery as the page's script reads it: an index, and chunks of samples unpacked one at a time.

Text of models and files is made visible; what became of each draft is found here.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from markupsafe import Markup

from gravbench.analysis.pieces import first_divergence
from gravbench.analysis.quality import label_of, points
from gravbench.arms import identity_base, is_ar, speed_base, text_base
from gravbench.records import Rounds
from gravbench.reporting.document import Answer, GallerySample, ReportDocument
from gravbench.reporting.tables import NONE, milliseconds
from gravbench.reporting.word_diff import word_diff
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
    """`index` and `chunks` are what `packed` returns; `pictures[k]` is a plain list of those of `chunks[k]`.

    `worst` names the samples of lowest quality, each with its worst metric: what a printed page shows.
    """

    index: str
    chunks: tuple[str, ...]
    pictures: tuple[Markup, ...]
    worst: tuple[tuple[str, str], ...]
    n: int


def pack_gallery(document: ReportDocument) -> PackedGallery:
    """Index rows in the order of the document, every text made visible, every difference already found."""
    chunks = _chunks(document.gallery)
    places = [(c, i) for c, chunk in enumerate(chunks) for i in range(len(chunk))]
    view = _View(document)
    rows = [_row(sample, place, view) for sample, place in zip(document.gallery, places, strict=True)]
    index = {
        "rows": rows,
        "labels": list(view.labels),
        "metrics": list(view.metrics),
        "tags": list(view.tags),
        "pieces": [{str(i): _piece(text) for i, text in run.pieces.items()} for run in document.runs],
        "first": visible(document.runs[0].name) if len(document.runs) > 1 else None,
    }
    return PackedGallery(
        index=packed(index),
        chunks=tuple(packed([_sample(s, view) for s in chunk]) for chunk in chunks),
        pictures=tuple(embedded([s.image for s in chunk]) for chunk in chunks),
        worst=_worst(rows, list(view.metrics)),
        n=len(document.gallery),
    )


@dataclass(slots=True)
class _View:
    """A document with the names that its rows refer to by number, in the order they were met."""

    document: ReportDocument
    labels: dict[str, int] = field(default_factory=dict)
    metrics: dict[str, int] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)

    def label(self, answer: Answer) -> str:
        """The strategy, with its run where there are several."""
        several = len(self.document.runs) > 1
        return visible(f"{self.document.runs[answer.run].name} · {answer.arm}" if several else answer.arm)

    def base(self, answer: Answer, sample: GallerySample) -> Answer | None:
        """What an answer is held against: in a later run its like in the first, else `ar` of its own run."""
        if answer.run:
            pairs = self.document.comparisons[answer.run - 1 : answer.run]
            arms = (a for pair in pairs for a in pair.arms)
            paired = next((a.base_arm for a in arms if a.own_arm == answer.arm), None)
            return next((a for a in sample.answers if (a.run, a.arm) == (0, paired)), None)
        siblings = [a for a in sample.answers if a.run == answer.run]
        wanted = text_base(answer.arm, [a.arm for a in siblings])
        return next((a for a in siblings if a.arm == wanted), None)


def _number(names: dict[str, int], name: str) -> int:
    return names.setdefault(name, len(names))


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
    return round(base.request_ns / answer.request_ns, 3)


OTHER_TOKENS, FAILED, OTHER_TEXT, LOOP = 1, 2, 4, 8
"""Flags of an answer: other tokens than ar, failed, other text than the first run's, a repetition loop."""


def _row(sample: GallerySample, place: tuple[int, int], view: _View) -> list[Any]:
    """[name, task, tokens, tags, chunk, place in it, cells], a cell an answer:
    [label, lowest points, metric that has them, speedup, largest change of points, flags]; `None` = not
    measured, and labels, tags and metrics by number.
    """
    base = next((a for a in sample.answers if is_ar(a.arm)), None)
    tokens = len((base or sample.answers[0]).token_ids) if sample.answers else 0
    tags = [_number(view.tags, visible(f"{k}: {v}")) for k, v in sample.categories.items()]
    cells = [_cell(answer, sample, view) for answer in sample.answers]
    return [_name(sample), sample.task, tokens, tags, *place, cells]


def _cell(answer: Answer, sample: GallerySample, view: _View) -> list[Any]:
    base = view.base(answer, sample)
    levels = _levels(answer)
    worst = min(levels, key=lambda metric: levels[metric], default=None)
    changes = [] if base is None else list(_changes(answer, base).values())
    flags = (
        OTHER_TOKENS * (answer.identical is False)
        | FAILED * (answer.status != "ok")
        | OTHER_TEXT * bool(answer.run and base is not None and base.text != answer.text)
        | LOOP * answer.loop
    )
    return [
        _number(view.labels, view.label(answer)),
        None if worst is None else round(levels[worst], 2),
        None if worst is None else _number(view.metrics, label_of(worst)),
        _speedup(answer, sample.answers),
        round(min(changes), 2) if changes else None,
        flags,
    ]


def _levels(answer: Answer) -> dict[str, float]:
    """Points by metric, of the scored ones."""
    return {m: points(m, value) for m, value in sorted(answer.scores.items()) if value is not None}


def _changes(answer: Answer, base: Answer) -> dict[str, float]:
    """Points gained on `base`, by metric that both are scored by."""
    own, other = _levels(answer), _levels(base)
    return {metric: own[metric] - other[metric] for metric in own if metric in other}


WORST = 10


def _worst(rows: Sequence[list[Any]], metrics: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(name, `text NED 12.50`) of the samples whose lowest points are lowest; none that has them all."""
    found = [
        min(((cell[1], row[0], metrics[cell[2]]) for cell in row[6] if cell[1] is not None), default=None)
        for row in rows
    ]
    lowest = sorted(one for one in found if one is not None and one[0] < 100)[:WORST]
    return tuple((name, f"{metric} {level:.2f}") for level, name, metric in lowest)


def _name(sample: GallerySample) -> str:
    return visible(sample.sample_id) + (f" (repetition {sample.rep})" if sample.rep else "")


def _sample(sample: GallerySample, view: _View) -> dict[str, Any]:
    size = f"{sample.image_wh[0]} × {sample.image_wh[1]} pixels" if sample.image_wh else None
    answers: list[dict[str, Any]] = []
    first: dict[str, int] = {}
    for number, answer in enumerate(sample.answers):
        shown = _answer(answer, sample, view)
        if answer.text in first:
            shown |= {"same": first[answer.text], "diff": None}
        else:
            first[answer.text] = number
        answers.append(shown)
    return {
        "image_name": visible(sample.image_name) if sample.image_name else None,
        "image_size": size,
        "image_note": visible(sample.image_note) if sample.image_note else None,
        "reference": None if sample.reference is None else visible(sample.reference),
        "answers": answers,
    }


def _answer(answer: Answer, sample: GallerySample, view: _View) -> dict[str, Any]:
    """`diff` is against the ground truth, `versus` against the answer that this one is held against."""
    base = view.base(answer, sample)
    changes = {} if base is None else _changes(answer, base)
    return {
        "label": view.label(answer),
        "run": answer.run,
        "status": answer.status,
        "stop": answer.stop_reason,
        "error": visible(answer.error) if answer.error else None,
        "loop": answer.loop,
        "identical": answer.identical,
        "time": [milliseconds(answer.decode_ns), milliseconds(answer.request_ns)],
        "speedup": _speedup(answer, sample.answers),
        "scores": [
            [
                label_of(m),
                NONE if v is None else f"{v:.4f}",
                None if m not in changes else round(changes[m], 2),
            ]
            for m, v in sorted(answer.scores.items())
        ],
        "reasons": [visible(f"{label_of(m)}: {r}") for m, r in sorted(answer.reasons.items())],
        "same": None,
        "diff": _diff(sample.reference, answer.text),
        "base": None if base is None else view.label(base),
        "versus": None if base is None or base.text == answer.text else _diff(base.text, answer.text),
        "split": _split(answer, sample, view.document),
        "ids": answer.token_ids,
        **_strip(answer),
    }


def _diff(reference: str | None, text: str) -> list[tuple[str, ...]]:
    """Differences are found in the texts as they are, and only then made visible.

    Layout that is gone or new is told in signs; new one is followed by what it is, to be shown where layout
    is not compared.
    """
    if reference is None:
        return [("=", visible(text))] if text else []
    return [
        (kind, visible(part))
        if kind in "=-+"
        else ("<", _blanks(part))
        if kind == "<"
        else (">", _blanks(part), visible(part))
        for kind, part in word_diff(reference, text)
    ]


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


def _blanks(text: str) -> str:
    signs = {" ": "␣", "\n": "⏎\n", "\t": "⇥\t"}
    return "".join(signs.get(c, f"⟨U+{ord(c):04X}⟩" if c.isspace() else c) for c in text)


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
