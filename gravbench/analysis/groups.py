"""Ways to split a run into groups of samples: task, output length, category, kind of crop, word order.

Groups are described, never gated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gravbench.analysis.loaded import PAIR_ATTRIBUTE, SampleFacts, Unit
from gravbench.records import Record
from gravbench.scorers.contract import means_of
from gravbench.store.schema import ScoreRecord

LENGTH_EDGES = (8, 16, 32, 64, 128, 256)
"""Upper ends of the output-length buckets, in tokens of the base arm, EOS and prefill's token included."""

Group = tuple[str, str, tuple[int, ...]]
"""(kind, label, indices of units)."""


def length_label(tokens: int) -> str:
    """Bucket of an output length: `1-8`, `9-16`, ..., `257+`."""
    low = 1
    for edge in LENGTH_EDGES:
        if tokens <= edge:
            return f"{low}-{edge}"
        low = edge + 1
    return f"{low}+"


def groups(units: Sequence[Unit], facts: Mapping[str, SampleFacts], *, base: str) -> Iterator[Group]:
    """All groups of a run, in a fixed order: tasks, length buckets, then categories by key and label.

    Units whose base arm failed have no length; units without a category are in none of its groups.
    """
    yield from _grouped("task", [(unit.task,) for unit in units])
    lengths = [_length(unit, base) for unit in units]
    labels = [() if n is None else (length_label(n),) for n in lengths]
    order = sorted(range(len(units)), key=lambda i: lengths[i] or 0)
    yield from _grouped("length", labels, order=order)
    for key in sorted({key for unit in units for key in facts[unit.sample_id].categories}):
        named = [facts[unit.sample_id].labels(key) for unit in units]
        yield from sorted(_grouped(key, named), key=lambda group: group[1])


def _grouped(
    kind: str, labels: Sequence[tuple[str, ...]], *, order: Sequence[int] | None = None
) -> Iterator[Group]:
    found: dict[str, list[int]] = {}
    for index in order if order is not None else range(len(labels)):
        for label in labels[index]:
            found.setdefault(label, []).append(index)
    for label, indices in found.items():
        yield kind, label, tuple(sorted(indices))


def _length(unit: Unit, base: str) -> int | None:
    record = unit.records[base]
    return len(record.token_ids) if record.status == "ok" and record.tells_tokens else None


WORDS = "words"
"""Beside the pair's name an attribute of samples of such suites: plain or shuffled."""

Attributes = Mapping[str, Mapping[str, bool | int | str]]


class WordOrder(Record):
    """Means of one metric over `n_pairs` pairs. `shift` = shuffled - plain: a reader's is near 0."""

    plain: float
    shuffled: float
    shift: float
    n_pairs: int


def word_order(
    scores: Iterable[ScoreRecord], attributes: Attributes
) -> dict[str, dict[str, WordOrder]] | None:
    """Arm -> metric -> paired means; `None` for suites without pairs. Half-scored pairs are left out."""
    found: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for score in scores:
        sample = attributes.get(score.sample_id, {})
        if PAIR_ATTRIBUTE in sample and WORDS in sample and score.value is not None:
            pairs = found.setdefault((score.arm, score.metric), {})
            pairs.setdefault(str(sample[PAIR_ATTRIBUTE]), {})[str(sample[WORDS])] = score.value
    result: dict[str, dict[str, WordOrder]] = {}
    for (arm, metric), pairs in sorted(found.items()):
        whole = [sides for sides in pairs.values() if set(sides) == {"plain", "shuffled"}]
        if whole:
            plain = sum(sides["plain"] for sides in whole) / len(whole)
            shuffled = sum(sides["shuffled"] for sides in whole) / len(whole)
            result.setdefault(arm, {})[metric] = WordOrder(
                plain=plain, shuffled=shuffled, shift=shuffled - plain, n_pairs=len(whole)
            )
    return result or None


def word_order_of(
    scores: Iterable[ScoreRecord], facts: Mapping[str, SampleFacts]
) -> dict[str, dict[str, WordOrder]] | None:
    """`word_order` of a loaded run."""
    named = {
        sample_id: {PAIR_ATTRIBUTE: known.pair, WORDS: known.categories[WORDS]}
        for sample_id, known in facts.items()
        if known.pair is not None and WORDS in known.categories
    }
    return word_order(scores, named)


TEXT_KEYS = ("kind",)
"""Attributes whose values name groups."""
YES_KEYS = ("random_letters", "unseen_font")
"""Yes/no attributes: the samples that say yes are a group, beside whatever kind they are."""


class GroupQuality(Record):
    """Mean of one metric over the `n` scored samples of a group, per strategy; failed ones as worst."""

    n: int
    metric: str
    quality: dict[str, float]


def quality_groups(
    scores: Iterable[ScoreRecord], attributes: Attributes
) -> dict[str, list[GroupQuality]] | None:
    """Group name -> one entry a metric; `None` when the suite marks no groups.

    A group is a value of `kind` or a yes of `random_letters` or `unseen_font`; groups overlap.
    """
    found: dict[tuple[str, str], dict[str, list[ScoreRecord]]] = {}
    for score in scores:
        if score.value is not None:
            for group in _groups(attributes.get(score.sample_id, {})):
                found.setdefault((group, score.metric), {}).setdefault(score.arm, []).append(score)
    result: dict[str, list[GroupQuality]] = {}
    for (group, metric), arms in sorted(found.items()):
        quality = {arm: means_of(own)[metric] for arm, own in arms.items()}
        n = max(map(len, arms.values()))
        result.setdefault(group, []).append(GroupQuality(n=n, metric=metric, quality=quality))
    return result or None


def _groups(sample: Mapping[str, bool | int | str]) -> Iterable[str]:
    yield from (str(sample[key]) for key in TEXT_KEYS if isinstance(sample.get(key), str))
    yield from (key for key in YES_KEYS if sample.get(key) is True)
