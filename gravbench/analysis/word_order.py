"""Reading or guessing: quality on text as written against the same words in random order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gravbench.records import Record
from gravbench.store.schema import ScoreRecord

PAIR, WORDS = "pair", "words"
"""Sample attributes of such suites; `words` is plain or shuffled."""

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
        if PAIR in sample and WORDS in sample and score.value is not None:
            pairs = found.setdefault((score.arm, score.metric), {})
            pairs.setdefault(str(sample[PAIR]), {})[str(sample[WORDS])] = score.value
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
