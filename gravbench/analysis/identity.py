"""Whether two arms wrote the same tokens, and where they part, whether that is noise, a rule, or a fault.

`is_identical` is the one meaning of "identical" and "same tokens" in summaries, comparisons, gates and
reports: ids and stop reason, the strictest useful reading of "lossless". Only the first difference of a
sample counts; later ones follow from it. Classes:

* `stop-rule`   one output is the other's beginning, or equal ids stopped for another reason
* `assembly`    equal ids and stop, another text
* `near-tie`    a float32 teacher-forced pass over the common beginning has the two ids as its top two,
                no further apart than `tau`
* `violation`   any other difference the referee has judged
* `unjudged`    different ids and no referee at hand
* `failed`      exactly one arm failed
* `text`        different text, where an import does not tell the token ids of a side
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from gravbench.analysis.pieces import first_divergence
from gravbench.protocols import Opinion, Referee
from gravbench.records import Record
from gravbench.store.schema import SampleAnswer


class Identity(Record):
    """`n` of `of` pairs are token-identical; `share` = n / of, `None` when `of` is 0.

    A pair in which only one arm failed counts as different; a pair in which both failed has no tokens to
    compare and is left out of `of`.
    """

    n: int
    of: int
    share: float | None = None
    by_text: int | None = None
    """Pairs whose text alone was compared, since a side is an import without token ids; absent: none."""


def is_identical(base: SampleAnswer, own: SampleAnswer) -> bool:
    """Both ok, with equal token ids (EOS included) piece by piece, and equal stop reason.

    Where an import does not tell these, with equal text.
    """
    if not tell_tokens(base, own):
        return base.status == own.status == "ok" and base.text == own.text
    return (
        base.status == own.status == "ok"
        and base.stop_reason == own.stop_reason
        and differing_piece(base, own) is None
    )


def has_tokens(base: SampleAnswer, own: SampleAnswer) -> bool:
    """Whether there is something to compare: at least one of the two succeeded."""
    return base.status == "ok" or own.status == "ok"


def tell_tokens(base: SampleAnswer, own: SampleAnswer) -> bool:
    """Whether both have token ids to compare; a failed one has nothing to tell."""
    return all(one.status != "ok" or one.tells_tokens for one in (base, own))


def differing_piece(
    base: SampleAnswer, own: SampleAnswer
) -> tuple[str, tuple[int, ...], tuple[int, ...]] | None:
    """Region and its token ids on both sides where two answers first part; `None` where they do not.

    For crops, and for pages cut into other regions, the region is "" and the ids are the whole answer's.
    """
    mine, theirs = ([piece for piece, _ in one.answers] for one in (base, own))
    if base.imported or own.imported:
        return None if base.token_ids == own.token_ids else ("", base.token_ids, own.token_ids)
    if [piece.region_id for piece in mine] != [piece.region_id for piece in theirs]:
        return None if base.token_ids == own.token_ids else ("", base.token_ids, own.token_ids)
    for a, b in zip(mine, theirs, strict=True):
        if a.token_ids != b.token_ids:
            return a.region_id, a.token_ids, b.token_ids
    return None


def count_differing_repeats(records: Sequence[SampleAnswer]) -> int | None:
    """Samples whose repeats are not all the first one's equal; `None` without repeats."""
    repeats: dict[str, list[SampleAnswer]] = {}
    for record in records:
        repeats.setdefault(record.sample_id, []).append(record)
    if all(len(own) == 1 for own in repeats.values()):
        return None
    return sum(
        any(not is_identical(own[0], other) for other in own[1:] if has_tokens(own[0], other))
        for own in repeats.values()
    )


def count_identical(pairs: Iterable[tuple[SampleAnswer, SampleAnswer]]) -> Identity:
    """Token identity over (base, own) pairs."""
    comparable = [pair for pair in pairs if has_tokens(*pair)]
    n = sum(is_identical(base, own) for base, own in comparable)
    by_text = sum(not tell_tokens(*pair) for pair in comparable)
    share = n / len(comparable) if comparable else None
    return Identity(n=n, of=len(comparable), share=share, by_text=by_text or None)


DifferenceClass = Literal["near-tie", "stop-rule", "assembly", "violation", "unjudged", "failed", "text"]

TAU_FLOAT32 = 1e-4
"""Logit gap below which float32 passes of different query lengths may order two tokens differently."""
CONTEXT_TOKENS = 8
CONTEXT_CHARACTERS = 24


class Difference(Record):
    """One sample whose arms differ. `index` is the first differing token (0 = prefill's own).

    On a page it counts from the beginning of the region `region_id`, the first that differs. Of kind `text`,
    it counts characters.
    """

    sample_id: str
    region_id: str = ""
    rep: int
    task: str
    kind: DifferenceClass
    index: int
    base_id: int | None
    own_id: int | None
    context: tuple[int, ...]
    """Up to 8 token ids before the difference."""
    base_text: str
    own_text: str
    """Text around the first differing character."""
    opinion: Opinion | None = None


class Audit(Record):
    """Identity of two arms: `identical` of `compared` pairs have the same tokens (`is_identical`).

    `classes` counts what is wrong with the others, and, as `assembly`, identical pairs of another text (older
    documents left those out of `identical`). `same_text` pairs have equal text; `both_failed` pairs have
    nothing to compare and are in no share.
    """

    compared: int
    identical: int
    same_text: int
    both_failed: int
    classes: dict[DifferenceClass, int]
    differences: tuple[Difference, ...]
    tau: float
    refereed: bool
    by_text: int = 0
    """Of `compared`, pairs whose text alone was compared: an import told no token ids."""

    @property
    def share(self) -> float | None:
        """identical / compared; `None` when nothing was compared."""
        return self.identical / self.compared if self.compared else None

    @property
    def assembly(self) -> int:
        """Pairs with the same tokens and another text."""
        return self.classes.get("assembly", 0)

    @property
    def spotless(self) -> bool:
        """Whether no pair differs, in tokens or in text."""
        return not self.classes

    @property
    def excused(self) -> int:
        """Differences that the referee calls near-ties."""
        return self.classes.get("near-tie", 0)

    @property
    def faults(self) -> int:
        """Differences that nothing excuses, of tokens or of text at equal tokens."""
        return sum(self.classes.values()) - self.excused


def audit(
    pairs: Iterable[tuple[SampleAnswer, SampleAnswer]],
    *,
    referee: Referee | None = None,
    tau: float = TAU_FLOAT32,
) -> Audit:
    """Compare (base, own) pairs; the referee is asked only where token ids part."""
    compared = identical = same_text = both_failed = by_text = 0
    differences: list[Difference] = []
    for base, own in pairs:
        if not has_tokens(base, own):
            both_failed += 1
            continue
        compared += 1
        same_text += base.status == own.status and base.text == own.text
        identical += is_identical(base, own)
        by_text += not tell_tokens(base, own)
        difference = _difference(base, own, referee=referee, tau=tau)
        if difference is not None:
            differences.append(difference)
    return Audit(
        compared=compared,
        identical=identical,
        same_text=same_text,
        both_failed=both_failed,
        classes=dict(sorted(Counter(d.kind for d in differences).items())),
        differences=tuple(differences),
        tau=tau,
        refereed=referee is not None,
        by_text=by_text,
    )


def _difference(
    base: SampleAnswer, own: SampleAnswer, *, referee: Referee | None, tau: float
) -> Difference | None:
    if not tell_tokens(base, own) and base.status == own.status:
        return None if base.text == own.text else _text_difference(base, own)
    region, left, right = differing_piece(base, own) or ("", base.token_ids, own.token_ids)
    index = first_divergence(left, right)
    opinion = None
    kind: DifferenceClass
    if base.status != own.status:
        kind, index = "failed", index or 0
    elif index is None:
        if base.stop_reason == own.stop_reason and base.text == own.text:
            return None
        kind = "assembly" if base.stop_reason == own.stop_reason else "stop-rule"
        index = len(left)
    elif index == min(len(left), len(right)):
        kind = "stop-rule"
    elif referee is None:
        kind = "unjudged"
    else:
        name = f"{base.sample_id}#{region}" if region else base.sample_id
        opinion = referee.judge(name, left[:index], base_id=left[index], own_id=right[index])
        kind = "near-tie" if opinion.is_tie(tau) else "violation"
    return Difference(
        sample_id=base.sample_id,
        region_id=region,
        rep=base.rep,
        task=base.task,
        kind=kind,
        index=index,
        base_id=_at(left, index),
        own_id=_at(right, index),
        context=left[max(0, index - CONTEXT_TOKENS) : index],
        base_text=_around(base.text, own.text),
        own_text=_around(own.text, base.text),
        opinion=opinion,
    )


def _text_difference(base: SampleAnswer, own: SampleAnswer) -> Difference:
    return Difference(
        sample_id=base.sample_id,
        rep=base.rep,
        task=base.task,
        kind="text",
        index=_first_difference(base.text, own.text),
        base_id=None,
        own_id=None,
        context=(),
        base_text=_around(base.text, own.text),
        own_text=_around(own.text, base.text),
    )


def _first_difference(text: str, other: str) -> int:
    place = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), None)
    return min(len(text), len(other)) if place is None else place


def _at(ids: Sequence[int], index: int) -> int | None:
    return ids[index] if index < len(ids) else None


def _around(text: str, other: str) -> str:
    start = _first_difference(text, other)
    return text[max(0, start - CONTEXT_CHARACTERS) : start + CONTEXT_CHARACTERS]
